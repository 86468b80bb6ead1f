"""One person's calls: sent as that person, read by the watch."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import httpx

from tests.isolation.people import Person, World
from tests.isolation.watching import NOT_NOW, Leak, NotNow, Watch

Pairs = list[tuple[str, str]]

_TRIES = 4
"""Answers that differ are asked for so many times before they count as different."""


@dataclass(frozen=True)
class Caller:
    client: httpx.AsyncClient
    world: World
    watch: Watch
    random: Random

    def proof(self, person: Person) -> Pairs:
        """The headers by which this person is known; who is bound to a key need not be named, but may be."""
        headers = [("authorization", f"Bearer {person.key}")]
        if self.world.mode == "passthrough" or self.random.random() < 0.2:
            headers.append(("x-memproxy-user", person.user))
        return headers

    async def call(
        self,
        what: str,
        person: Person,
        method: str,
        path: str,
        *,
        headers: Sequence[tuple[str, str]] = (),
        carried: Sequence[str] = (),
        instead: Sequence[tuple[str, str]] | None = None,
        **arguments: Any,
    ) -> httpx.Response:
        """A call of this person, its answer watched. ``instead`` are headers in place of the person's proof."""
        proof = self.proof(person) if instead is None else instead
        response = await self.client.request(method, path, headers=[*proof, *headers], **arguments)
        self.watch.answer(what, person, response, [*carried, *person.taken])
        return response

    async def pair(
        self,
        what: str,
        person: Person,
        theirs: str,
        method: str,
        path: str,
        *,
        headers: Sequence[tuple[str, str]] = (),
        json: Mapping[str, Any] | None = None,
    ) -> None:
        """The same call about what is another's and about what is not there, in either order: ``ID`` in the path and in
        the body stands for which.

        Raises:
            Leak: the answers differ.
        """
        nobodys, proof = imagined(theirs, self.random), self.proof(person)

        async def ask(name: str) -> httpx.Response:
            body = None if json is None else {key: name if value == "ID" else value for key, value in json.items()}
            return await self.call(
                what,
                person,
                method,
                path.replace("ID", name),
                headers=headers,
                carried=[theirs, nobodys],
                instead=proof,
                **({} if body is None else {"json": body}),
            )

        await self.compare(what, ask, (theirs, nobodys))

    async def compare(self, what: str, ask: Callable[[str], Awaitable[httpx.Response]], names: tuple[str, str]) -> None:
        """Ask by another's name and by nobody's, in either order, and compare what is answered. What differs is asked
        again: what a person said himself a moment ago may have been written between the two.

        Raises:
            Leak: they go on being different.
        """
        for tries in range(_TRIES):
            answers = {name: await ask(name) for name in self.random.sample(names, 2)}
            differs = self.watch.differs(answers[names[0]], answers[names[1]], names)
            if not differs:
                self.watch.alike(what, answers[names[0]], answers[names[1]])
                return
            self.watch.counts[f"pairs asked again ({what})"] += tries + 1 < _TRIES
        raise Leak(f"{what}: another's is told from what is not there: {differs}")


def imagined(name: str, random: Random) -> str:
    """A name of the same form that nothing has: letters and digits are others, the rest stays."""
    letters, digits = "abcdef", "0123456789"

    def other(char: str) -> str:
        if char in letters:
            return random.choice(letters)
        return random.choice(digits) if char in digits else char

    head, mark, rest = name.rpartition("_") if "_" in name else ("", "", name)
    made = f"{head}{mark}{''.join(other(char) for char in rest)}"
    return made if made != name else imagined(name, random)


def decided(response: httpx.Response) -> httpx.Response:
    """The response, if it says anything but "not now".

    Raises:
        NotNow: it does not; of what was asked for nothing is known.
    """
    if response.status_code in NOT_NOW:
        raise NotNow(f"{response.request.method} {response.request.url} {response.status_code}: {response.text[:300]}")
    return response


def must(response: httpx.Response, *statuses: int) -> httpx.Response:
    """The response, if it has one of these statuses.

    Raises:
        Leak: it has another.
        NotNow: the server was too busy for an answer.
    """
    if decided(response).status_code not in statuses:
        raise Leak(f"{response.request.method} {response.request.url} {response.status_code}: {response.text[:300]}")
    return response
