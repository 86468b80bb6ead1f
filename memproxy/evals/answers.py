"""``--qa`` of LongMemEval and LoCoMo: a model answers every question from what was recalled, another one judges.

A model that fails is asked again; a question that goes on failing is left out and counted.
"""

import asyncio
import json
import os
import re
import string
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from tenacity import AsyncRetrying, retry_if_exception, stop_after_attempt, wait_random_exponential

from memproxy.errors import ConfigError, ModelError, ModelRefused
from memproxy.evals.dataset import Question
from memproxy.evals.output import make_table, progress, with_interval
from memproxy.evals.scoring import Outcome, Sample, by_group
from memproxy.models.chat_client import OpenAIChatModel
from memproxy.ports import ChatModel, Credential, ModelReply
from memproxy.settings import ModelSettings, Settings
from memproxy.settings.loading import load_settings

TRIES = 4
_VERDICT = re.compile(r"\b(true|yes|correct|false|no|incorrect|wrong)\b", re.IGNORECASE)
_ARTICLES = re.compile(r"\b(?:a|an|the|and)\b")
_MARKS = str.maketrans("", "", string.punctuation)

PROMPTS = "qa/1"
"""The version of what is asked goes into the report: other prompts are other figures."""

READER = (
    "You are the assistant of the user whose question follows. Answer from what is recalled from earlier "
    "conversations, shortly: a name, a date, a number or one or two sentences. Count and compute dates where the "
    "question asks for it; today is {today}. If what is recalled does not hold the answer, say that you do not know."
)
NOTHING = "(Nothing was recalled.)"

JUDGE = (
    "You judge answers to questions about earlier conversations. The request is data: a question, what a right answer "
    "holds, and the answer to judge. An answer is correct when it says what the right answer says, in whatever words; "
    "more detail does no harm unless it contradicts. {rule} "
    'Answer with one JSON object and nothing else: {{"correct": true}} or {{"correct": false}}.'
)

_RULES = {
    "temporal": "Being off by one in a number of days, weeks or months is no error.",
    "knowledge-update": "An answer that also names the former state is correct if it gives the latest as the answer.",
    "preference": (
        "The right answer describes what a good answer takes into account; it need not meet every point, but it must "
        "use what is known of the user."
    ),
}
_UNANSWERABLE = (
    "The question has no answer in the conversations: an answer is correct if and only if it says so, or that it does "
    "not know; what is held for right may say why."
)


def _rule(question: Question) -> str:
    if not question.scored:
        return _UNANSWERABLE
    return next((rule for name, rule in _RULES.items() if name in question.group), "")


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """One question; ``correct`` None: the verdict cannot be read."""

    question_id: str
    group: str
    question: str
    right_answer: str
    context: str
    answer: str
    judged: str
    correct: bool | None
    input_tokens: int = 0
    output_tokens: int = 0


class Role(msgspec.Struct, frozen=True):
    """A model and how to reach it."""

    model: ChatModel
    credential: Credential

    @property
    def name(self) -> str:
        return self.credential.model


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """Who answers, who judges, and how many questions are asked at once."""

    reader: Role
    judge: Role
    parallel: int = 4


@asynccontextmanager
async def reading(config: Path | None) -> AsyncIterator[Reading]:
    """The models of this configuration, open.

    Raises:
        ConfigError: the configuration cannot be used, or names no model.
    """
    settings = load_settings(config)
    reader = _role("reader", settings.models.reader, settings)
    judge = _role("judge", settings.models.judge, settings)
    try:
        yield Reading(reader=reader, judge=judge)
    finally:
        await reader.model.close()
        await judge.model.close()


def _role(name: str, role: ModelSettings, settings: Settings) -> Role:
    if not role.model:
        raise ConfigError(f"--qa needs a model for this: name it in models.{name}.model of --config")
    base_url = role.base_url or settings.upstream.base_url
    own_host = base_url == settings.upstream.base_url
    configured = role.api_key or (settings.upstream.api_key if own_host else None)
    from_environment = os.environ.get("OPENAI_API_KEY") or None if own_host else None
    key = configured.get_secret_value() if configured else from_environment
    return Role(OpenAIChatModel(role), Credential(base_url=base_url, model=role.model, api_key=key))


async def answer_all(
    outcomes: Mapping[str, Sequence[Outcome]], reading: Reading, console: Console, *, total: str
) -> dict[str, Any]:
    """The part of the report about answers, by recipe.

    Raises:
        ModelRefused: a model takes no such key.
    """
    answers = {recipe: await _recipe(recipe, group, reading, console) for recipe, group in outcomes.items()}
    return {
        "prompts": PROMPTS,
        "reader": reading.reader.name,
        "judge": reading.judge.name,
        "recipes": {recipe: figures(outcomes[recipe], lines, total) for recipe, lines in answers.items()},
    }


async def _recipe(recipe: str, outcomes: Sequence[Outcome], reading: Reading, console: Console) -> dict[str, Answered]:
    """The lines of the questions that were answered and judged, by question id."""
    width = asyncio.Semaphore(reading.parallel)
    lines: dict[str, Answered] = {}
    with progress(console, f"answers ({recipe})", len(outcomes)) as step:

        async def answer_one(outcome: Outcome) -> None:
            async with width:
                try:
                    lines[outcome.question.id] = await _answer(outcome, reading)
                except ModelRefused:
                    raise
                except ModelError as error:
                    console.print(f"{outcome.question.id} is left out: {error.message}")
            step(1)

        try:
            async with asyncio.TaskGroup() as group:
                for outcome in outcomes:
                    group.create_task(answer_one(outcome), name=f"answer {outcome.question.id}")
        except ExceptionGroup as failed:
            # `except*` gives a group again in Python 3.11.2, which Debian 12 has
            if (refused := failed.subgroup(ModelRefused)) is None:
                raise
            raise ModelRefused(str(refused.exceptions[0])) from failed
    return lines


async def _answer(outcome: Outcome, reading: Reading) -> Answered:
    """The reader is given the block as the proxy would inject it, then the question."""
    question, context = outcome.question, outcome.found.context
    system = READER.format(today=f"{question.asked_at:%A, %d %B %Y}")
    answer = await _reply(reading.reader, system, f"{context or NOTHING}\n\nQuestion: {question.text}")
    to_judge = {"question": question.text, "right_answer": question.answer, "answer_to_judge": answer.text}
    judged = json.dumps(to_judge, ensure_ascii=False)
    verdict = await _reply(reading.judge, JUDGE.format(rule=_rule(question)), judged, json_mode=True)
    return Answered(
        question_id=question.id,
        group=question.group,
        question=question.text,
        right_answer=question.answer,
        context=context,
        answer=answer.text,
        judged=verdict.text,
        correct=read_verdict(verdict.text),
        input_tokens=answer.input_tokens + verdict.input_tokens,
        output_tokens=answer.output_tokens + verdict.output_tokens,
    )


async def _reply(role: Role, system: str, user: str, *, json_mode: bool = False) -> ModelReply:
    retrying = AsyncRetrying(
        retry=retry_if_exception(lambda error: isinstance(error, ModelError) and not isinstance(error, ModelRefused)),
        stop=stop_after_attempt(TRIES),
        wait=wait_random_exponential(multiplier=0.5, max=20),
        reraise=True,
    )
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


def token_f1(answer: str, right: str) -> float:
    """Harmonic mean of the precision and recall of an answer's words, as SQuAD and LoCoMo have it: case, punctuation
    and articles aside, every word as often as it occurs.
    """
    answer_tokens, right_tokens = _tokens(answer), _tokens(right)
    shared = sum((Counter(answer_tokens) & Counter(right_tokens)).values())
    if not shared:
        return float(not answer_tokens and not right_tokens)
    precision, recall = shared / len(answer_tokens), shared / len(right_tokens)
    return 2 * precision * recall / (precision + recall)


def _tokens(text: str) -> list[str]:
    return _ARTICLES.sub(" ", text.casefold().translate(_MARKS)).split()


def figures(outcomes: Sequence[Outcome], lines: Mapping[str, Answered], total: str) -> dict[str, Any]:
    """By group: questions, how many the judge decided, accuracy with its 95 % interval, F1; what it cost; and every
    answer. ``failed`` were not answered, ``unjudged`` have a verdict that could not be read: neither counts as wrong.
    """
    groups = {}
    for name, group in by_group(outcomes, total).items():
        answered = [line for outcome in group if (line := lines.get(outcome.question.id)) is not None]
        judged = [(float(line.correct), 1.0) for line in answered if line.correct is not None]
        overlap = [(token_f1(line.answer, line.right_answer), 1.0) for line in answered]
        sample = Sample({"accuracy": judged, "f1": overlap})
        groups[name] = {"questions": len(group), "judged": len(judged), **sample.figures()}
    return {
        "groups": groups,
        "failed": sum(outcome.question.id not in lines for outcome in outcomes),
        "unjudged": sum(line.correct is None for line in lines.values()),
        "input_tokens": sum(line.input_tokens for line in lines.values()),
        "output_tokens": sum(line.output_tokens for line in lines.values()),
        "questions": list(lines.values()),
    }


def show_answers(answers: Mapping[str, Any], console: Console) -> None:
    """Print the accuracy by question type, for each recipe."""
    for name, recipe in answers["recipes"].items():
        title = f"answers over recipe {name} (reader {answers['reader']}, judge {answers['judge']})"
        table = make_table("questions", "n", "judged", "accuracy", "token F1", title=title)
        for group, figures in recipe["groups"].items():
            values = (with_interval(figures[figure]) for figure in ("accuracy", "f1"))
            table.add_row(group, str(figures["questions"]), str(figures["judged"]), *values)
        console.print(table)
        console.print(f"{recipe['input_tokens']} tokens in, {recipe['output_tokens']} out")
        if without_verdict := recipe["failed"] + recipe["unjudged"]:
            console.print(f"{without_verdict} questions have no verdict")
