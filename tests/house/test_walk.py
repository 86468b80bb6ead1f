"""docs/architecture.md follows one chat request and one captured turn, by files that are there and entered."""

import asyncio
import re

import pytest

from tests.docs_check import ROOT
from tests.support.folders import Folders
from tests.walk import REQUEST, TURN, Walk, report, walk

PAGE = ROOT / "docs" / "architecture.md"
HEADINGS = {REQUEST: "## A chat request, file by file", TURN: "## A captured turn, file by file"}

MOST_ENTERED = {REQUEST: 114, TURN: 108}
"""Files that one of each may enter at all: who needs more merges some, or says here why the walk became longer."""


def named(phase: str) -> list[str]:
    """The files of the page's table."""
    section = PAGE.read_text(encoding="utf-8").partition(HEADINGS[phase])[2].partition("\n## ")[0]
    return re.findall(r"^\| `([\w/.]+\.py)` \|", section, re.MULTILINE)


def test_every_file_that_the_page_names_is_there() -> None:
    names = re.findall(r"`((?!tests/)[a-z_]+/[a-z_]+\.py)`", PAGE.read_text(encoding="utf-8"))
    assert [name for name in names if not (ROOT / "memproxy" / name).is_file()] == []


@pytest.fixture(scope="module")
def walks(folders: Folders) -> dict[str, Walk]:
    with folders.new("walk") as folder:
        return asyncio.run(walk(folder / "home"))


@pytest.mark.parametrize("phase", HEADINGS)
def test_the_files_that_the_page_names_are_entered(phase: str, walks: dict[str, Walk]) -> None:
    entered = {name for names in walks[phase].values() for name in names}
    assert len(named(phase)) > 20
    assert [name for name in named(phase) if not (ROOT / "memproxy" / name).is_file()] == []
    assert [name for name in named(phase) if name not in entered] == [], report(walks)


@pytest.mark.parametrize("phase", HEADINGS)
def test_a_walk_enters_no_more_files_than_it_did(phase: str, walks: dict[str, Walk]) -> None:
    entered = {name for names in walks[phase].values() for name in names}
    assert len(entered) <= MOST_ENTERED[phase], report(walks)
