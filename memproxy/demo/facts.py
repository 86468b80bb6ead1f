"""How the scripted model extracts: a handful of rules over quoted messages, each fact with its verbatim evidence."""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from memproxy.core.late import SENTENCE, LatePattern
from memproxy.demo.answers import is_question, sentences

Candidate = dict[str, Any]
_MOST_EVIDENCE = 200
"""Characters of a quote; what the extraction prompt allows."""
_AMOUNT = r"\$\s?\d+(?:,\d{3})*(?:\.\d+)?(?:\s?[kKmM]\b)?"
_ANIMAL = r"dog|cat|parrot|horse|rabbit|hamster|turtle"
_LABELLED = re.compile(
    r"^\W{0,9}(?:\S{1,60}\s{1,9})??(?P<role>user|assistant|tool|system)\b[^:\n]{0,60}:\s*(?P<content>.+)$", re.I
)


def extract(prompt: str) -> list[Candidate]:
    """The facts that the rules find in the user messages quoted in an extraction prompt, oldest first."""
    return [fact for message in quoted_messages(prompt) for fact in _facts(message)]


def quoted_messages(prompt: str) -> list[dict[str, Any]]:
    """The user's messages in the prompt that are marked as new (or not marked at all).

    Read from JSON lines or a JSON array with ``role`` and ``text`` (or ``content``), else from lines ``user: text``.
    """
    found = [_normal(value) for value in _json_values(prompt)]
    messages = [message for message in found if message] or list(_labelled(prompt))
    return [message for message in messages if message["role"] == "user" and message.get("new", True)]


def _json_values(prompt: str) -> Iterator[dict[str, Any]]:
    decoder = json.JSONDecoder()
    place = 0
    while (opening := re.compile(r"[{\[]").search(prompt, place)) is not None:
        try:
            value, place = decoder.raw_decode(prompt, opening.start())
        except ValueError:
            place = opening.end()
            continue
        yield from _objects(value)


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, list):
        for item in value:
            yield from _objects(item)
    elif isinstance(value, dict):
        yield value
        yield from _objects(value.get("messages", []))


def _normal(value: dict[str, Any]) -> dict[str, Any] | None:
    content = value.get("content", value.get("text"))
    role = value.get("role", value.get("speaker", value.get("from")))
    if not isinstance(content, str) or not isinstance(role, str):
        return None
    return {**value, "role": role.lower(), "content": content}


def _labelled(prompt: str) -> Iterator[dict[str, Any]]:
    for line in prompt.splitlines():
        if match := _LABELLED.match(line):
            yield {"role": match["role"].lower(), "content": match["content"]}


def _facts(message: dict[str, Any]) -> Iterator[Candidate]:
    for sentence in _statements(message["content"]):
        made: set[Callable[[re.Match[str]], Candidate]] = set()
        for pattern, make in _RULES:
            if make not in made and (match := pattern.search(sentence)):
                made.add(make)
                yield {**_COMMON_FIELDS, **make(match), "evidence": sentence[:_MOST_EVIDENCE]}


def _statements(content: str) -> Iterator[str]:
    """Sentences that state something; steps that follow a "to deploy X:" stay with it."""
    if _DEPLOY.search(content) and not is_question(content):
        yield content.strip()
        return
    yield from (sentence for sentence in sentences(content) if not is_question(sentence))


_COMMON_FIELDS: Candidate = {
    "kind": "semantic",
    "subject": "user",
    "category": "personal",
    "tags": [],
    "entities": [],
    "confidence": 0.9,
    "importance": 0.6,
}


def _bare(phrase: str) -> str:
    """A noun phrase without its article, final stop or trailing adverb."""
    trimmed = re.sub(r"^(?:the|my|our|a|an)\s+", "", phrase.strip(" .!,;"), flags=re.I)
    return re.sub(r"(?<!\s)\s+(?:now|instead|today)$", "", trimmed)


def _budget(match: re.Match[str]) -> Candidate:
    groups = match.groupdict()
    purpose, amount = _bare(groups["purpose"] or ""), groups["amount"].strip()
    predicate = f"budget for the {purpose}" if purpose else "budget"
    return {
        "content": f"The user's {predicate} is {amount}",
        "predicate": predicate,
        "object": amount,
        "category": "finance/budget",
        "entities": [purpose] if purpose else [],
    }


def _pet(match: re.Match[str]) -> Candidate:
    animal, name = match["animal"].lower(), match["name"]
    return {
        "content": f"The user has a {animal} named {name}",
        "predicate": f"has {animal}",
        "object": name,
        "category": "personal/pets",
        "entities": [name],
    }


def _deploy(match: re.Match[str]) -> Candidate:
    service, steps = match["service"].strip("`"), match["steps"].strip(" .")
    return {
        "kind": "procedural",
        "content": f"To deploy {service}: {steps}",
        "subject": service,
        "predicate": "deploy steps",
        "object": steps,
        "category": "work/deployment",
        "entities": [service],
    }


def _plain(predicate: str, sentence: str, category: str) -> Callable[[re.Match[str]], Candidate]:
    def make(match: re.Match[str]) -> Candidate:
        value = match["value"].strip(" .!")
        return {
            "content": sentence.format(value),
            "predicate": predicate,
            "object": value,
            "category": category,
        }

    return make


def _preference(match: re.Match[str]) -> Candidate:
    verb, value = match["verb"].lower(), match["value"].strip(" .!")
    return {
        "content": f"The user {verb}s {value}",
        "predicate": f"{verb}s",
        "object": value,
        "category": "user-preferences",
    }


_DEPLOY = LatePattern(
    r"(?:\bto deploy|\bdeploy(?:ment)? steps (?:of|for))\s+(?P<service>[\w`.-]*[\w`])"
    r"\s*(?::|,|are:?|is:?|we)\s+(?P<steps>.+)",
    re.I | re.S,
    most=20 * SENTENCE,
)
_RULES: tuple[tuple[LatePattern, Callable[[re.Match[str]], Candidate]], ...] = (
    (_DEPLOY, _deploy),
    (
        LatePattern(
            rf"\bbudget of (?P<amount>{_AMOUNT})(?: for (?P<purpose>(?:the |my |our )?[\w' -]+?))?(?=[.,;!]|$| and )",
            re.I,
            most=SENTENCE,
        ),
        _budget,
    ),
    (
        LatePattern(
            rf"\b(?:my|our|the) (?P<purpose>[\w' -]+?) budget (?:is|changed|went up)(?: now)?(?: to| at)?"
            rf" (?P<amount>{_AMOUNT})",
            re.I,
            most=SENTENCE,
        ),
        _budget,
    ),
    (
        LatePattern(
            rf"\bbudget(?: for (?P<purpose>(?:the |my |our )?[\w' -]+?))? (?:is|was raised|has grown|went up|changed)"
            rf"(?: now| up)?(?: to| at)? (?P<amount>{_AMOUNT})",
            re.I,
            most=SENTENCE,
        ),
        _budget,
    ),
    (LatePattern(rf"\b(?P<animal>{_ANIMAL})(?: is)? (?:named|called) (?P<name>[A-Z]\w+)", most=SENTENCE), _pet),
    (LatePattern(rf"\b(?P<animal>{_ANIMAL})'s name is (?P<name>[A-Z]\w+)", most=SENTENCE), _pet),
    (
        LatePattern(r"\bmy name is (?P<value>[A-Z]\w+(?: [A-Z]\w+)*)", re.I, most=SENTENCE),
        _plain("name", "The user's name is {}", "personal/name"),
    ),
    (
        LatePattern(r"\bI (?:live in|(?:have )?moved to) (?P<value>[A-Z][\w' -]*)", most=SENTENCE),
        _plain("lives in", "The user lives in {}", "personal/location"),
    ),
    (
        LatePattern(r"\bI work (?:at|for) (?P<value>[A-Z][\w&' .-]*)", most=SENTENCE),
        _plain("works at", "The user works at {}", "work/employer"),
    ),
    (
        LatePattern(r"\bI (?:really |also )?(?P<verb>like|love|prefer|enjoy) (?P<value>[^.!?]+)", re.I, most=SENTENCE),
        _preference,
    ),
)
"""Tried in this order; of the rules for one kind of fact the first that fits a sentence makes it."""
