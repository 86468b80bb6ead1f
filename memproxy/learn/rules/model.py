"""What a rule is: a pattern for one clause, and a builder that makes candidates of what it found."""

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime

import msgspec

from memproxy.core.memory import Kind, Relation
from memproxy.learn.candidates import Extracted
from memproxy.learn.rules.values import (
    bare,
    items,
    names_in,
    slug,
    third_person,
    trimmed,
)

SURE = 0.9
LESS_SURE = 0.7


class Clause(msgspec.Struct, frozen=True, kw_only=True):
    """One clause of what the user states.

    ``text`` is normalised (contractions and fillers taken out), ``evidence`` the verbatim sentence it is from;
    ``is_correction`` says that words like "no," or "actually" stand before it; ``about`` is what the sentence
    names as its topic before a colon.
    """

    text: str
    evidence: str
    said_at: datetime
    is_correction: bool = False
    about: str | None = None


Groups = Mapping[str, str]
Build = Callable[[Groups, Clause], Iterable[Extracted]]


class Rule(msgspec.Struct, frozen=True):
    """A pattern, matched at the beginning of a clause, and what it means."""

    pattern: re.Pattern[str]
    build: Build


def compiled(pattern: str, first: str = "") -> re.Pattern[str]:
    """The pattern of a rule, case aside; ``first`` stands before it."""
    return re.compile(first + pattern, re.IGNORECASE)


def i_rule(pattern: str, build: Build) -> Rule:
    """A rule for what follows "I" or "we"."""
    return Rule(compiled(pattern, r"(?:I|we)\s+"), build)


def my_rule(pattern: str, build: Build) -> Rule:
    """A rule for what follows "my" or "our"."""
    return Rule(compiled(pattern, r"(?:my|our)\s+"), build)


def any_rule(pattern: str, build: Build) -> Rule:
    """A rule for a clause that begins otherwise."""
    return Rule(compiled(pattern), build)


class Template(msgspec.Struct, frozen=True, kw_only=True):
    """How the parts of a candidate are written from a match's groups.

    In each text ``{x}`` is the group ``x`` trimmed and turned to the third person, ``{x_bare}`` without its article,
    ``{x_slug}`` as part of a predicate's name. ``stop`` names where group ``x`` ends (`values.trimmed`), ``many`` that
    it is a list, one candidate for each item; ``check`` refuses values; ``named`` that the values are proper names.
    """

    content: str
    predicate: str
    object: str = "{x_bare}"
    category: str
    subject: str = "user"
    tags: tuple[str, ...] = ()
    confidence: float = SURE
    importance: float = 0.5
    aspect: str | None = None
    stance: str | None = None
    stop: str = "short"
    many: bool = False
    check: Callable[[str], bool] | None = None
    kind: Kind = Kind.SEMANTIC
    relation: str | None = None

    def __call__(self, groups: Groups, _clause: Clause) -> Iterable[Extracted]:
        """The candidates: one, or one for each item of the list; none where a value does not fit."""
        first = groups.get("x", "")
        values = items(first) if self.many else [trimmed(first, self.stop)]
        texts = f"{self.content} {self.predicate} {self.object} {self.subject}"
        rest = {name: trimmed(text, "short") for name, text in groups.items() if name != "x" and f"{{{name}" in texts}
        for value in values:
            if value is None or None in rest.values():
                continue
            if self.check is None or self.check(value):
                fields = {
                    "x": value,
                    **{name: text for name, text in rest.items() if text},
                }
                yield self._one(fields)

    def _one(self, fields: Groups) -> Extracted:
        said = dict(fields)
        for name, text in fields.items():
            said |= {
                name: third_person(text),
                f"{name}_bare": third_person(bare(text)),
                f"{name}_slug": slug(text),
            }
        subject, object_ = self.subject.format_map(said), self.object.format_map(said)
        relations = (Relation(subject=subject, predicate=self.relation, object=object_),) if self.relation else ()
        return Extracted(
            content=self.content.format_map(said),
            kind=self.kind,
            subject=subject,
            predicate=self.predicate.format_map(said),
            object=object_,
            aspect=self.aspect,
            stance=self.stance,
            category=self.category,
            tags=self.tags,
            entities=tuple(name for text in fields.values() for name in names_in(text)),
            relations=relations,
            confidence=self.confidence,
            importance=self.importance,
        )
