"""The dialogues that were written before they were run: their gold, and that rules do no worse on them."""

import asyncio
import re
from importlib import resources
from pathlib import Path

import pytest
from rich.console import Console

from memproxy.evals.extraction import dialogues as data
from memproxy.evals.extraction.command import Options, measured, settings_of
from memproxy.evals.extraction.judging import Verdict
from memproxy.models.chat import OpenAIChatModel
from memproxy.models.dimensions import DEFAULT as DIMENSION
from memproxy.models.no_embedder import NoEmbedder

_SETS = ("unseen10", "unseen11", "unseen12", "unseen13", "unseen14", "unseen15", "unread15", "unread16", "unread17")


def _blind(name: str) -> list[data.Dialogue]:
    folder = resources.files("memproxy.evals.extraction").joinpath("data", "blind")
    return data.load(Path(str(folder.joinpath(f"{name}.yaml"))))


@pytest.mark.parametrize("name", _SETS)
def test_their_gold_agrees_with_what_is_said(name: str) -> None:
    for about in _blind(name):
        said = [text for session in about.sessions for one in session.said for text in one.values()]
        golds: list[data.Stored | data.Ended] = [*about.required, *about.ended]
        for gold in golds:
            assert gold.slot is not None, about.id
            assert any(gold.source in text for text in said), gold.source
            assert all(re.search(pattern, gold.says, re.IGNORECASE) for pattern in gold.match), gold.says
        for old in about.ended:
            assert bool(old.by) != bool(old.back), about.id
            assert any(old.back in text for text in said), old.back


def test_rules_keep_nothing_planted_and_little_that_was_not_said_of_the_first_set() -> None:
    found = _blind("unseen10")
    settings, access = settings_of(Options(), {})
    model = OpenAIChatModel(settings.models.extract)
    judged = asyncio.run(
        measured(found, settings, access, embedder=NoEmbedder(DIMENSION), model=model, console=Console(quiet=True))
    )
    wanted, never_said = (sum(one.count(kind) for one in judged) for kind in (Verdict.WANTED, Verdict.EXTRA))
    assert wanted >= 4 * never_said
    assert wanted > 0
    assert not [one.dialogue.id for one in judged if one.poison]
