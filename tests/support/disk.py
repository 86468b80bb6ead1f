"""A disk that is as full as a test wants it."""

from pathlib import Path

from memproxy.stores.edge_files import Disk

MIB = 1024 * 1024


class TestDisk(Disk):
    """Says what it is told to say; what is written is written all the same."""

    __test__ = False

    def __init__(self, *, mib: int = 1024, memory: bool = False) -> None:
        super().__init__(Path())
        self.mib = mib
        self.memory = memory

    def free(self) -> int:
        return self.mib * MIB

    def in_memory(self) -> bool:
        return self.memory
