"""Answer every question from what was recalled for it, judge the answers, count.

A model that fails is asked again; a question that goes on failing is left out, counted, and taken up by the next run,
which asks only what the log does not hold yet.
"""

import asyncio
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from tenacity import AsyncRetrying, retry_if_exception, stop_after_attempt, wait_random_exponential

from memproxy.errors import ModelError, ModelRefused
from memproxy.evals.progress import progress
from memproxy.evals.qa import prompts
from memproxy.evals.qa.log import Answered, AnswerLog, key_of
from memproxy.evals.qa.scoring import figures
from memproxy.evals.scoring import Outcome
from memproxy.ports import ChatModel, Credential, ModelReply

TRIES = 4
_VERDICT = re.compile(r"\b(true|yes|correct|false|no|incorrect|wrong)\b", re.IGNORECASE)


class Role(msgspec.Struct, frozen=True):
    """A model and how to reach it."""

    model: ChatModel
    credential: Credential

    @property
    def name(self) -> str:
        """The model's name."""
        return self.credential.model


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """Who answers, who judges, where that is logged, and how many questions are asked at once."""

    reader: Role
    judge: Role
    log: Path
    parallel: int = 4


async def answer_all(
    outcomes: Mapping[str, Sequence[Outcome]], reading: Reading, console: Console, *, total: str
) -> dict[str, Any]:
    """The part of the report about answers, by recipe.

    Raises:
        ModelRefused: a model takes no such key.
        ConfigError: the log cannot be written.
    """
    log = AnswerLog(reading.log)
    try:
        found = {recipe: await _recipe(recipe, asked, reading, log, console) for recipe, asked in outcomes.items()}
    finally:
        log.close()
    return {
        "prompts": prompts.VERSION,
        "reader": reading.reader.name,
        "judge": reading.judge.name,
        "log": reading.log.name,
        "recipes": {recipe: figures(outcomes[recipe], lines, total) for recipe, lines in found.items()},
    }


async def _recipe(
    recipe: str, outcomes: Sequence[Outcome], reading: Reading, log: AnswerLog, console: Console
) -> dict[str, Answered]:
    """The lines of the questions that were answered and judged, by question id."""
    width = asyncio.Semaphore(reading.parallel)
    lines: dict[str, Answered] = {}
    with progress(console, f"answers ({recipe})", len(outcomes)) as step:

        async def one(outcome: Outcome) -> None:
            async with width:
                line = await _one(recipe, outcome, reading, log, console)
            if line is not None:
                lines[outcome.question.id] = line
            step(1)

        try:
            async with asyncio.TaskGroup() as group:
                for outcome in outcomes:
                    group.create_task(one(outcome), name=f"answer {outcome.question.id}")
        except ExceptionGroup as failed:
            # `except*` gives a group again in Python 3.11.2, which Debian 12 has
            if (refused := failed.subgroup(ModelRefused)) is None:
                raise
            raise ModelRefused(str(refused.exceptions[0])) from failed
    return lines


async def _one(recipe: str, outcome: Outcome, reading: Reading, log: AnswerLog, console: Console) -> Answered | None:
    key = key_of(outcome.question, outcome.found.context, recipe, reading.reader.name, reading.judge.name)
    if key in log.known:
        return log.known[key]
    try:
        line = await _asked(key, recipe, outcome, reading)
    except ModelRefused:
        raise
    except ModelError as error:
        console.print(f"{outcome.question.id} is left out: {error.message}")
        return None
    log.add(line)
    return line


async def _asked(key: str, recipe: str, outcome: Outcome, reading: Reading) -> Answered:
    question, context = outcome.question, outcome.found.context
    answer = await _reply(reading.reader, prompts.reader(question, context), json_mode=False)
    verdict = await _reply(reading.judge, prompts.judge(question, answer.text), json_mode=True)
    return Answered(
        key=key,
        recipe=recipe,
        question_id=question.id,
        group=question.group,
        question=question.text,
        right_answer=question.answer,
        context=context,
        answer=answer.text,
        judged=verdict.text,
        correct=read_verdict(verdict.text),
        reader=reading.reader.name,
        judge=reading.judge.name,
        input_tokens=answer.input_tokens + verdict.input_tokens,
        output_tokens=answer.output_tokens + verdict.output_tokens,
    )


async def _reply(role: Role, prompt: tuple[str, str], *, json_mode: bool) -> ModelReply:
    retrying = AsyncRetrying(
        retry=retry_if_exception(lambda error: isinstance(error, ModelError) and not isinstance(error, ModelRefused)),
        stop=stop_after_attempt(TRIES),
        wait=wait_random_exponential(multiplier=0.5, max=20),
        reraise=True,
    )
    system, user = prompt
    async for attempt in retrying:
        with attempt:
            return await role.model.complete(role.credential, system=system, user=user, json_mode=json_mode)
    raise AssertionError("tenacity ends by a result or by raising")


def read_verdict(text: str) -> bool | None:
    """What a judge said: its JSON, else the only kind of verdict that its words hold; None when neither is there."""
    match = re.search(r'"correct"\s*:\s*"?(\w+)', text)
    if match is not None:
        text = match[1]
    verdicts = {word.lower() in ("true", "yes", "correct") for word in _VERDICT.findall(text)}
    return verdicts.pop() if len(verdicts) == 1 else None
