"""`eval extraction` from end to end: dialogues through the product's own parts, with extractors of known quality."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from memproxy.core.protocol import UpstreamAccess
from memproxy.errors import ConfigError
from memproxy.evals import extraction
from memproxy.evals.dialogues import Dialogue, Ended, Judged, Stored
from memproxy.evals.extraction import Options, of_group
from memproxy.models.embedding import NoEmbedder
from memproxy.ports import ChatModel, Credential, ModelReply
from tests.evals.conftest import Evaluate
from tests.evals.test_extraction import OWN

TYPES = ("facts", "corrections", "contradictions", "retractions", "opinions", "imports", "nothing", "hostile")
SOME = [next(one for one in OWN if one.type == name) for name in TYPES]
"""One of each type that asks for something else."""

ACCESS = UpstreamAccess(base_url="http://127.0.0.1:1/v1", model="scripted", api_key="sk-test")
OPTIONS = Options(mode="model", cache=Path("unused"))


class Perfect(ChatModel):
    """An extractor that knows the gold: it nominates what the new messages say, as the gold puts it."""

    def __init__(self, dialogues: Sequence[Dialogue]) -> None:
        self._dialogues = dialogues

    async def complete(self, credential: Credential, *, system: str, user: str, **_format: Any) -> ModelReply:
        assert (credential.model, bool(system)) == ("scripted", True)
        lines = [json.loads(line) for line in user.splitlines() if line.startswith('{"') and '"new"' in line]
        new = [line["text"] for line in lines if line["new"]]
        about = max(self._dialogues, key=lambda one: len({folded(text) for text in texts_of(one)} & set(new)))
        return ModelReply(text=json.dumps({"candidates": candidates(about, new)}))

    async def close(self) -> None:
        """Nothing is open."""


class Garbage(ChatModel):
    """An extractor that says the same nonsense about everything."""

    async def complete(self, credential: Credential, *, system: str, user: str, **_format: Any) -> ModelReply:
        assert credential.model
        assert system
        quote = [json.loads(line)["text"] for line in user.splitlines() if line.startswith('{"role": "user"')][-1]
        word = max(quote.split(), key=len)
        nonsense = {"content": f"User is fond of purple zebras and {word}", "evidence": quote}
        return ModelReply(text=json.dumps({"candidates": [nonsense]}))

    async def close(self) -> None:
        """Nothing is open."""


def folded(text: str) -> str:
    return " ".join(text.split())


def texts_of(about: Dialogue) -> list[str]:
    return [text for session in about.sessions for one in session.said for text in one.values()]


def candidates(about: Dialogue, new: Sequence[str]) -> list[dict[str, Any]]:
    """What a perfect extractor finds in these messages, in the order in which it was said."""
    said = "\n".join(new)
    golds: list[Stored | Ended] = [*about.ended, *about.required]
    stated = [gold for gold in golds if folded(gold.source) in said]
    found = [(said.index(folded(gold.source)), {**candidate(gold), **correcting(gold, about)}) for gold in stated]
    taken_back = [gold for gold in about.ended if gold.back and folded(gold.back) in said]
    found += [(said.index(folded(gold.back)), {**candidate(gold), **forgetting(gold)}) for gold in taken_back]
    return [one for _, one in sorted(found, key=lambda pair: pair[0])]


def candidate(gold: Stored | Ended) -> dict[str, Any]:
    assert gold.slot is not None
    subject, predicate, value = gold.slot
    slot = {"subject": subject, "predicate": predicate, "object": value}
    feeling = {"aspect": gold.aspect, "stance": gold.stance}
    kind = gold.kind if isinstance(gold, Stored) else None
    return {"kind": kind or "semantic", "content": gold.says, "evidence": gold.source, **slot, **feeling}


def correcting(gold: Stored | Ended, about: Dialogue) -> dict[str, Any]:
    """What a statement says of those that it replaces; an import that is older replaces nothing."""
    if isinstance(gold, Ended) or gold.slot is None or about.type == "imports":
        return {}
    replaced = [one.says for one in about.ended if one.slot[:2] == gold.slot[:2] and one.aspect == gold.aspect]
    return {"intent": "correct", "replaces": replaced[-1]} if replaced else {}


def forgetting(gold: Ended) -> dict[str, Any]:
    return {"intent": "forget", "evidence": gold.back}


async def run(dialogues: Sequence[Dialogue], model: ChatModel) -> list[Judged]:
    settings, _ = extraction.settings_of(OPTIONS, {"OPENAI_MODEL": "scripted"})
    quiet = Console(quiet=True)
    return await extraction.run_all(dialogues, settings, ACCESS, embedder=NoEmbedder(8), model=model, console=quiet)


async def test_a_perfect_extractor_scores_one() -> None:
    judged = await run(SOME, Perfect(SOME))
    assert [one.dialogue.id for one in judged if not one.right] == []
    figures = of_group(judged)
    shares = ("precision", "recall", "f1", "corrections", "corrections_of_known", "retractions_of_known", "clean")
    assert {name: figures[name].value for name in shares} == dict.fromkeys(shares, 1.0)
    assert figures["poisoned"].value == 0.0


async def test_by_rules_nothing_that_was_planted_is_kept() -> None:
    planting = [one for one in OWN if one.never]
    settings, access = extraction.settings_of(Options(cache=Path("unused")), {})
    judged = await extraction.run_all(planting, settings, access, embedder=NoEmbedder(8), console=Console(quiet=True))
    assert len(planting) > 5
    assert not [one.dialogue.id for one in judged if one.poison]


async def test_a_garbage_extractor_recalls_nothing() -> None:
    some = [one for one in SOME if one.type in ("facts", "corrections", "nothing")]
    figures = of_group(await run(some, Garbage()))
    assert (figures["recall"].value, figures["precision"].value, figures["clean"].value) == (0.0, 0.0, 0.0)
    assert figures["corrections"].value == 0.0
    assert figures["corrections_of_known"].value == pytest.approx(float("nan"), nan_ok=True)


def test_the_command_runs_a_file_by_rules_and_writes_the_figures(tmp_path: Path, evaluate: Evaluate) -> None:
    own = tmp_path / "own.yaml"
    said = "{user: My dog is called Biscuit and he is brown}, {assistant: Nice}"
    sessions = f"[{{at: 2024-05-01T12:00:00Z, said: [{said}]}}]"
    gold = "[{match: [biscuit], says: a dog, from: My dog}]"
    own.write_text(f"type: facts\ndialogues:\n  - {{id: dog, sessions: {sessions}, stored: {gold}}}\n", "utf-8")
    printed, report = evaluate("extraction", "--data", own, "--verbose")
    assert "seconds per dialogue" in printed
    assert (report["data"], report["mode"], report["dialogues"]) == ("own.yaml", "verbatim", 1)
    assert report["groups"]["all"]["counts"]["required"] == 1


def test_a_mode_without_its_model_is_refused_with_the_remedy() -> None:
    with pytest.raises(ConfigError, match="OPENAI_MODEL"):
        extraction.settings_of(OPTIONS, {})


def test_the_model_is_the_configured_one_or_that_of_the_environment(tmp_path: Path) -> None:
    _, access = extraction.settings_of(
        OPTIONS, {"OPENAI_MODEL": "m", "OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "http://x/v1"}
    )
    assert access == UpstreamAccess(base_url="http://x/v1", model="m", api_key="k")
    config = tmp_path / "config.yaml"
    config.write_text("models: {extract: {base_url: 'http://y/v1', model: small}}\n", "utf-8")
    settings, access = extraction.settings_of(Options(mode="model", config=config, cache=Path("unused")), {})
    assert access is not None
    assert (access.model, settings.models.extract.base_url) == ("small", "http://y/v1")
    assert (settings.learn.mode, settings.learn.enabled) == ("model", True)
