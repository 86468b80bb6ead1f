"""What learning's steps share: the stores, the models' ways, the locks and flushes under which they write."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from memproxy.core.facts import Bands
from memproxy.learn.access import ModelAccess
from memproxy.learn.budget import TokenMeter
from memproxy.learn.cooperative import Scheduler
from memproxy.learn.flush import Flushes, OwnerLocks
from memproxy.learn.memory_vectors import Vectors
from memproxy.learn.model_outages import ModelOutages
from memproxy.ports import ChatModel, Clock, LexicalEncoder, MemoryStore, StateStore, WorkingApart
from memproxy.settings import Settings
from memproxy.traces import Traces


@dataclass(frozen=True, kw_only=True)
class Parts:
    """One of each for a worker."""

    settings: Settings
    store: MemoryStore
    state: StateStore
    lexical: LexicalEncoder
    model: ChatModel
    vectors: Vectors
    meter: TokenMeter
    access: ModelAccess
    outages: ModelOutages
    locks: OwnerLocks
    flushes: Flushes
    scheduler: Scheduler
    clock: Clock
    on_rows_erased: Callable[[Sequence[int]], None]
    """Called with the numbers of the rows that an erasure took out of the journal."""
    working: WorkingApart | None = None
    traces: Traces | None = None

    @property
    def bands(self) -> Bands:
        """The similarities from which statements count as the same, and as related (``dedup``)."""
        dedup = self.settings.dedup
        return Bands(same=dedup.update_above, related=dedup.related_above)

    @property
    def by_model(self) -> bool:
        """Whether a model nominates what is learned, and not the rules (``learn.mode``)."""
        return self.settings.learn.mode == "model"
