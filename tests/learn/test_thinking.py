"""Models that think within the token limit of their answer, and messages that a model need not be asked about."""

import logging
from pathlib import Path

import prometheus_client
import pytest

from tests.learn.rig import ANN, PATIENCE_S, budget, rig


def cut() -> float:
    value = prometheus_client.REGISTRY.get_sample_value("memproxy_model_answers_cut_total", {"source": "extract"})
    return value or 0.0


async def test_a_model_that_thinks_gets_a_higher_limit_once_and_keeps_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with rig(tmp_path, every_turns=1000) as r:
        r.server.thinks, before = 1500, cut()
        for place in range(10):
            await r.say(f"My budget for trip {place} is $10,00{place}")
        r.server.answers.append({"candidates": [budget("$10,000", "budget for trip 0 is $10,000")]})
        with caplog.at_level(logging.WARNING, "memproxy.models.chat_client"):
            assert await r.worker.learned(ANN, PATIENCE_S)
            assert r.server.limits == [500, 4000]
            await r.teach("My dog is Biscuit", {"content": "User has a dog named Biscuit"})
        assert r.server.limits == [500, 4000, 4000]
        assert len(await r.facts()) == 2
        (line,) = [record.getMessage() for record in caplog.records]
        assert "models.extract.max_tokens" in line
        assert cut() == before + 1


async def test_an_answer_that_never_begins_is_not_asked_for_in_pieces_and_says_why(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with rig(tmp_path, every_turns=1000, max_attempts=1) as r:
        r.server.thinks = 10**6
        for place in range(10):
            await r.say(f"My budget for trip {place} is $10,00{place}")
        await r.worker.learned(ANN, PATIENCE_S)
        (parked,) = [one.getMessage() for one in caplog.records if "is parked" in one.getMessage()]
        assert "models.extract.max_tokens" in parked
        assert r.server.limits == [500, 4000]
