from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from memproxy.core.scope import paid_by
from memproxy.core.text import estimate
from memproxy.errors import EmbedderUnavailable, StateUnavailable
from memproxy.learn.budget import QuestionTally, TokenMeter
from memproxy.models.embed_remote import OpenAIEmbedder
from memproxy.settings import EmbeddingSettings
from memproxy.stores.sqlite_state import SqliteState
from tests.models.test_embed import Service
from tests.support.opening import opening
from tests.support.waiting import eventually

NOW = datetime(2026, 5, 1, 12, 30, tzinfo=UTC)
HOUR = NOW.replace(minute=0)


class Noon:
    """A clock that stands."""

    def now(self) -> datetime:
        return NOW


class Away(SqliteState):
    """A real state that can be away."""

    away = False

    async def note_tokens(
        self, tenant: str, source: str, *, input_tokens: int, output_tokens: int, at: datetime
    ) -> None:
        if self.away:
            raise StateUnavailable("it is away")
        await super().note_tokens(tenant, source, input_tokens=input_tokens, output_tokens=output_tokens, at=at)


def opened(folder: Path) -> AbstractAsyncContextManager[Away]:
    return opening(Away(folder / "state.db", sync="normal"))


def tally(state: Away, *, write_s: float) -> QuestionTally:
    return QuestionTally(TokenMeter(state, Noon(), None), write_s=write_s)


async def test_questions_count_for_their_tenants_and_the_rest_is_written_at_the_end(tmp_path: Path) -> None:
    async with opened(tmp_path) as state:
        counted = tally(state, write_s=3600)
        counted.add("a", "Where does my sister live?")
        counted.add("a", "And my brother?")
        counted.add("b", "What is my dog called?")
        assert await state.tokens_spent("a", since=HOUR) == {}
        await counted.close()
        tokens = estimate("Where does my sister live?") + estimate("And my brother?")
        assert await state.tokens_spent("a", since=HOUR) == {"embed": (tokens, 0)}
        assert await state.tokens_spent("b", since=HOUR) == {"embed": (estimate("What is my dog called?"), 0)}


async def test_a_count_is_written_by_itself_and_later_when_the_state_was_away(tmp_path: Path) -> None:
    async with opened(tmp_path) as state:
        counted = tally(state, write_s=0.01)
        state.away = True
        counted.add("a", "one question")
        counted.add("a", "another")
        state.away = False
        tokens = estimate("one question") + estimate("another")

        async def written() -> bool:
            return await state.tokens_spent("a", since=HOUR) == {"embed": (tokens, 0)}

        await eventually(written)
        await counted.close()
        assert await written()


async def test_what_cannot_be_written_at_the_end_does_not_stop_it(tmp_path: Path) -> None:
    async with opened(tmp_path) as state:
        counted = tally(state, write_s=3600)
        counted.add("a", "one question")
        state.away = True
        await counted.close()
        state.away = False
        assert await state.tokens_spent("a", since=HOUR) == {}
        await counted.close()
        assert await state.tokens_spent("a", since=HOUR) == {"embed": (estimate("one question"), 0)}


async def test_a_paid_question_is_told_once_with_its_tenant_and_not_when_it_failed_or_is_our_own() -> None:
    told: list[tuple[str, str]] = []
    service = Service([3, 4])
    async with service.embedder() as asked:
        embedder = OpenAIEmbedder(asked._settings, spent=lambda tenant, text: told.append((tenant, text)))
        with paid_by("acme"):
            await embedder.embed_question("mine")
            await embedder.embed_question("mine")
        await embedder.embed_question("our own")
        await embedder.close()
    refused = OpenAIEmbedder(
        EmbeddingSettings(provider="openai", model="m", base_url="http://127.0.0.1:9/v1"),
        spent=lambda tenant, text: told.append((tenant, text)),
    )
    with paid_by("acme"), pytest.raises(EmbedderUnavailable):
        await refused.embed_question("fails")
    await refused.close()
    assert told == [("acme", "mine")]
