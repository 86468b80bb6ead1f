"""Where tests' folders are, and that nothing of them stays."""

import shutil
from pathlib import Path

from tests.support.folders import Folders

MORE_THAN_THERE_IS = 2**62


def test_folders_are_in_memory_while_there_is_room_and_on_the_disk_after(tmp_path: Path) -> None:
    memory, disk = tmp_path / "memory", tmp_path / "disk"
    memory.mkdir()
    disk.mkdir()
    for room, parent in ((0, memory), (MORE_THAN_THERE_IS, disk)):
        folders = Folders(memory, disk, room=room)
        with folders.new() as folder:
            assert folder.is_relative_to(parent)
        folders.close()


def test_a_folder_is_gone_with_its_block_and_the_runs_own_at_the_end(tmp_path: Path) -> None:
    folders = Folders(tmp_path, tmp_path)
    with folders.new("one") as folder:
        (folder / "file").write_text("text")
    assert not folder.exists()
    folders.close()
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_run_left_is_removed_and_a_living_runs_folders_stay(tmp_path: Path) -> None:
    living, next_run = Folders(tmp_path, tmp_path), Folders(tmp_path, tmp_path)
    with living.new() as kept:
        left = tmp_path / "memproxy-tests-killed"
        shutil.copytree(kept.parent, left)
        with next_run.new():
            assert not left.exists()
            assert kept.exists()
    next_run.close()
    living.close()
