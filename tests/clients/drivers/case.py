"""What a driver is asked to do."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Protocol

KEY = "sk-test-one"
MODEL = "gpt-4o-mini"
WEATHER = "rain, 12 degrees"
TIMEOUT_S = 30.0


@dataclass(frozen=True)
class Case:
    """One case: its name, where to ask (ending in ``/v1``), and what."""

    name: str
    base_url: str
    question: str


class Driver(Protocol):
    """A client, used as its documentation says, with retries off. Results are JSON."""

    async def chat(self, case: Case) -> Any:
        """A plain answer, as much of it as the client shows."""

    def stream(self, case: Case) -> AsyncIterator[Any]:
        """The pieces of a streamed answer; closed early, the client must let go of its connection."""

    async def tools(self, case: Case) -> Any:
        """A question that needs the tool ``weather(city)``, until the last answer."""

    async def tools_stream(self, case: Case) -> Any:
        """The same, streamed."""


def weather(city: str) -> str:
    """Say what the weather is in a city."""
    assert city == "Paris", city
    return WEATHER
