"""What may be seen by whom: every answer and every request upstream is read for words of somebody else."""

import base64
import binascii
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median

import httpx

from tests.isolation.people import MARK, Person, World

_CANARY = re.compile(rf"{MARK}[0-9a-f]{{16}}")
_ENCODED = re.compile(r"[A-Za-z0-9_+/-]{24,}")
_SENDER = re.compile(r"sender-(\d+)-of-this-message")

_OF_THE_ANSWER_ALONE = frozenset({"x-memproxy-request-id", "server-timing", "date"})
"""Headers that are another with every answer."""

NOT_NOW = frozenset({429, 503})
"""Statuses that say "not now", as a busy machine's server does: they tell nothing about what was asked for."""

_DONE = frozenset({200, 202})
"""Done, or queued: two of the same call may differ by them on a busy machine."""


class Leak(AssertionError):
    """Somebody was shown what is another's."""


class NotNow(Exception):
    """The server was too busy for an answer; the operation is broken off, and counted."""


@dataclass
class Watch:
    world: World
    counts: Counter[str] = field(default_factory=Counter)
    statuses: Counter[str] = field(default_factory=Counter)
    times: dict[str, tuple[list[float], list[float]]] = field(default_factory=dict)
    forged: set[str] = field(default_factory=set)
    """Marks of requests that must reach no upstream."""

    evil_port: int = 0
    """A port of ours that no request may be led to (`raw_paths.evil_socket`)."""

    leaks: list[str] = field(default_factory=list)
    """What was found where no answer could be refused for it: in what the upstream received."""

    def answer(self, what: str, person: Person | None, response: httpx.Response, carried: Sequence[str] = ()) -> None:
        """An answer to this person (None: to nobody in particular); ``carried`` are texts of others that the request
        itself held, and that an answer may name again.

        Raises:
            Leak: it holds another's words.
        """
        self.statuses[f"{what} {response.status_code}"] += 1
        if response.status_code >= 500 and response.status_code not in NOT_NOW:
            raise Leak(f"{what}: {response.status_code} {response.text[:300]}")
        headers = "\n".join(f"{name}: {value}" for name, value in response.headers.multi_items())
        self.text(f"the answer of {what} ({response.status_code})", person, f"{headers}\n{response.text}", carried)

    def text(self, where: str, person: Person | None, text: str, carried: Sequence[str] = ()) -> None:
        """A text that this person sees.

        Raises:
            Leak: it holds another's words.
        """
        for one in carried:
            text = text.replace(one, "")
        for canary in canaries(text):
            whose = self.world.owner(canary)
            if whose is not None and whose is not person:
                raise Leak(f"{where}, asked by {_name(person)}, holds words of {_name(whose)}: {_around(text, canary)}")
            self.counts["own words seen"] += 1

    def sent_upstream(self, what: str, text: str) -> None:
        """A request that the upstream received: of one person alone, the one who sent it."""
        found = {whose.number for canary in canaries(text) if (whose := self.world.owner(canary)) is not None}
        senders = {int(number) for number in _SENDER.findall(text)}
        if len(found | senders) > 1:
            names = ", ".join(_name(self.world.people[number]) for number in sorted(found | senders))
            self.leaks.append(f"{what} holds words of {names}")
        if "<recalled-memory" in text:
            self.counts["blocks injected"] += 1
            block = text[text.index("<recalled-memory") : text.rindex("</recalled-memory")]
            self.counts["blocks with own words"] += bool(canaries(block))

    def differs(self, theirs: httpx.Response, nobodys: httpx.Response, names: tuple[str, str]) -> str:
        """In what two answers to the same call differ, about what is another's (by ``names[0]``) and about what is not
        there (``names[1]``); empty when in nothing: not status, nor headers, nor body.
        """
        if _undecided(theirs, nobodys):
            return ""
        one, other = _comparable(theirs, names[0]), _comparable(nobodys, names[1])
        return "" if one == other else f"{one}"[:1000] + " and " + f"{other}"[:1000]

    def alike(self, what: str, theirs: httpx.Response, nobodys: httpx.Response) -> None:
        """Two answers that do not differ: count them, and note how long they took."""
        if _undecided(theirs, nobodys):
            self.counts["pairs not decided"] += 1
            return
        self.counts["pairs compared"] += 1
        others, missing = self.times.setdefault(what, ([], []))
        others.append(theirs.elapsed.total_seconds())
        missing.append(nobodys.elapsed.total_seconds())

    def ratios(self, least: int = 5) -> dict[str, tuple[int, float]]:
        """By call: how many pairs, and the median time about another's over that about nothing."""
        return {
            what: (len(others), median(others) / median(missing))
            for what, (others, missing) in sorted(self.times.items())
            if len(others) >= least
        }

    def nowhere(self, where: str, text: str, more: Iterable[str] = ()) -> None:
        """A text that holds nobody's words and no credentials.

        Raises:
            Leak: it does.
        """
        found = [canary for canary in canaries(text) if self.world.owner(canary) is not None]
        found += [one for one in (*self.world.credentials, *more) if one in text]
        if found:
            raise Leak(f"{where} holds {len(found)} words or keys of people: {_around(text, found[0])}")


def canaries(text: str) -> set[str]:
    """The canaries in a text, whatever their case, also within what is base64 (cursors)."""
    found = set(_CANARY.findall(text.lower()))
    for encoded in _ENCODED.findall(text):
        found.update(_CANARY.findall(_decoded(encoded).lower()))
    return found


def _decoded(encoded: str) -> str:
    try:
        raw = base64.b64decode(encoded + "=" * (-len(encoded) % 4), altchars=b"-_")
    except (binascii.Error, ValueError):
        return ""
    return raw.decode("latin-1")


def _undecided(theirs: httpx.Response, nobodys: httpx.Response) -> bool:
    statuses = {theirs.status_code, nobodys.status_code}
    return bool(statuses & NOT_NOW) or statuses == _DONE


def _comparable(response: httpx.Response, name: str) -> tuple[int, list[tuple[str, str]], str]:
    headers = [
        (key, value.replace(name, "ID"))
        for key, value in response.headers.multi_items()
        if key not in _OF_THE_ANSWER_ALONE
    ]
    return response.status_code, sorted(headers), response.text.replace(name, "ID")


def _name(person: Person | None) -> str:
    return "nobody" if person is None else f"{person.user} of {person.tenant}"


def _around(text: str, found: str) -> str:
    at = text.lower().find(found.lower())
    return repr(text[max(0, at - 120) : at + 120])
