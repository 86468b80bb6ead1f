"""Everyday corrections of different kinds, as an extractor reads them that makes no mistake."""

from pathlib import Path
from typing import Any, NamedTuple


class Said(NamedTuple):
    """A statement as it is extracted, the words it is from, and its triple as a model might name it."""

    content: str
    evidence: str
    triple: list[str]
    replaces: str | None = None

    def candidate(self, *, named: bool) -> dict[str, Any]:
        made: dict[str, Any] = {"content": self.content, "evidence": self.evidence}
        if named:
            made |= dict(zip(("subject", "predicate", "object"), self.triple, strict=True))
        return made | ({"intent": "correct", "replaces": self.replaces} if self.replaces else {})


class Correction(NamedTuple):
    """What is told first, message by message, then the message that changes some of it."""

    name: str
    told: tuple[tuple[str, tuple[Said, ...]], ...]
    then: str
    extracted: tuple[Said, ...]

    @property
    def before(self) -> set[str]:
        return {said.content for _, extracted in self.told for said in extracted}

    @property
    def ended(self) -> set[str]:
        """What holds no more: exactly what a statement replaces."""
        return {said.replaces for said in self.extracted if said.replaces}

    @property
    def after(self) -> set[str]:
        return (self.before - self.ended) | {said.content for said in self.extracted}


def _read(text: str) -> Correction:
    """A correction as ``corrections.txt`` writes it."""
    name, *lines = text.splitlines()
    messages: list[tuple[str, tuple[Said, ...]]] = []
    before: list[str] = []
    for line in lines:
        if line.startswith(">"):
            messages.append((line.lstrip("> "), ()))
            continue
        content, evidence, triple, *replaces = line.strip().split(" | ")
        said = Said(content, evidence, triple.split("; "), before[int(replaces[0]) - 1] if replaces else None)
        messages[-1] = (messages[-1][0], (*messages[-1][1], said))
        before.append(content)
    *told, (then, extracted) = messages
    return Correction(name, tuple(told), then, extracted)


WRITTEN = Path(__file__).with_suffix(".txt").read_text("utf-8")
CORRECTIONS = tuple(map(_read, WRITTEN.split("\n# ")[1:]))
