"""The few bytes that tell all processes of a change."""

from pathlib import Path

from memproxy.stores.sqlite_callers import News


def test_their_place_on_the_disk_is_taken_before_they_are_mapped(tmp_path: Path) -> None:
    """A mapped page without a place ends the process when it is touched on a full disk."""
    hole = tmp_path / "hole"
    with hole.open("wb") as file:
        file.truncate(8)  # as an earlier version made it
    for path in (tmp_path / "new", hole):
        news = News(path)
        news.open()
        assert path.stat().st_blocks > 0
        assert news.last == bytes(8)
        news.spread()
        assert news.last != bytes(8)
        news.close()
