"""LoCoMo against a running memproxy: every conversation goes in through the API, every question comes back out.

    python -m memproxy.evals.locomo --base-url http://127.0.0.1:8484 --data ../shared/eval/locomo_dev.json

Each conversation is a user of its own, each session one call of ``POST /v1/memory/turns`` with the session's date, the
speaker as ``name``, the dia_id as ``id`` and the text as ``content`` (the proxy itself puts the name before the text
where it searches, so the stored turn stays verbatim). Every question is one ``POST /v1/memory/search`` (kind turn,
limit 10). Reported is turn recall: the part of a question's evidence that is among the first 5 or 10 turns.
"""

import json
import re
import statistics
import sys
import time
import uuid
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import httpx
import msgspec
import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table

from memproxy.errors import ConfigError, MemproxyError, RequestError

SCORED_CATEGORIES = (1, 2, 3, 4)
"""Category 5 is adversarial: its questions have no answer in the conversation, its evidence is a near miss."""

CATEGORY_NAMES = {1: "multi-hop", 2: "temporal", 3: "open domain", 4: "single hop", 5: "adversarial"}

_DIA_ID = re.compile(r"D\d+:\d+")
_DATE_FORMAT = "%I:%M %p on %d %B, %Y"


class Turn(msgspec.Struct, frozen=True):
    """One message of a conversation."""

    dia_id: str
    speaker: str
    text: str


class Session(msgspec.Struct, frozen=True):
    """The messages of one session and when it was."""

    name: str
    date: datetime
    turns: list[Turn]


class Question(msgspec.Struct, frozen=True):
    """A question and the dia_ids that hold its answer."""

    text: str
    category: int
    evidence: frozenset[str]


class Conversation(msgspec.Struct, frozen=True):
    """One sample: its sessions in order and its questions that have evidence in them."""

    name: str
    sessions: list[Session]
    questions: list[Question]


class Outcome(msgspec.Struct, frozen=True):
    """One question answered: recall at 5 and at 10 in [0, 1], and how long the call took in milliseconds."""

    category: int
    at_5: float
    at_10: float
    milliseconds: float


def parse_date(text: str) -> datetime:
    """A session's date like ``1:56 pm on 8 May, 2023``, taken as UTC."""
    return datetime.strptime(text.strip(), _DATE_FORMAT).replace(tzinfo=UTC)


def parse_evidence(evidence: Any) -> frozenset[str]:
    """All dia_ids of a question; some entries hold several in one string (``D8:6; D9:17``)."""
    return frozenset(match for entry in evidence or () for match in _DIA_ID.findall(str(entry)))


def load(path: Path) -> list[Conversation]:
    """Read a LoCoMo file.

    Raises:
        ConfigError: it is not there or not LoCoMo.
    """
    try:
        return [_conversation(sample) for sample in json.loads(path.read_text("utf-8"))]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(
            f"--data {path} cannot be read as LoCoMo ({error!r}); give a file like locomo10.json"
        ) from error


def _conversation(sample: dict[str, Any]) -> Conversation:
    sessions = list(_sessions(sample["conversation"]))
    known = {turn.dia_id for session in sessions for turn in session.turns}
    questions = [
        Question(entry["question"], entry["category"], parse_evidence(entry.get("evidence")) & known)
        for entry in sample["qa"]
    ]
    name = str(sample.get("sample_id", "conversation"))
    return Conversation(name, sessions, [question for question in questions if question.evidence])


def _sessions(conversation: dict[str, Any]) -> Iterator[Session]:
    numbers = sorted(int(match[1]) for key in conversation if (match := re.fullmatch(r"session_(\d+)", key)))
    for number in numbers:
        turns = [Turn(turn["dia_id"], turn["speaker"], turn["text"]) for turn in conversation[f"session_{number}"]]
        yield Session(f"session_{number}", parse_date(conversation[f"session_{number}_date_time"]), turns)


class Client:
    """The calls of the memory API that this needs."""

    def __init__(self, http: httpx.Client) -> None:
        self._http = http

    def ingest(self, user: str, session: Session) -> None:
        """Push one session."""
        body = {
            "user_id": user,
            "session_id": f"{user}/{session.name}",
            "timestamp": session.date.isoformat(),
            "messages": [
                {"role": "user", "id": turn.dia_id, "name": turn.speaker, "content": turn.text}
                for turn in session.turns
            ],
        }
        self._post("/v1/memory/turns", body)

    def search(self, user: str, question: str) -> list[str]:
        """The dia_ids found for a question, best first."""
        answer = self._post("/v1/memory/search", {"user_id": user, "query": question, "limit": 10, "kind": "turn"})
        return [found["memory"]["id"] for found in answer["data"]]

    def forget(self, user: str) -> None:
        """Delete what was ingested for this user."""
        self._checked(self._http.delete("/v1/memory", params={"user_id": user}))

    def _post(self, path: str, body: dict[str, Any]) -> Any:
        return self._checked(self._http.post(path, json=body)).json()

    def _checked(self, response: httpx.Response) -> httpx.Response:
        if response.is_error:
            request = response.request
            raise RequestError(f"{request.method} {request.url} answered {response.status_code}: {response.text[:300]}")
        return response


def evaluate(client: Client, conversations: Sequence[Conversation], console: Console, *, keep: bool) -> list[Outcome]:
    """Push all conversations, then ask all questions; what was ingested is deleted again unless ``keep``."""
    run = uuid.uuid4().hex[:8]
    users = {conversation.name: f"locomo-{run}-{conversation.name}" for conversation in conversations}
    sessions = [(users[one.name], session) for one in conversations for session in one.sessions]
    for user, session in track(sessions, "sessions in", console=console):
        client.ingest(user, session)
    questions = [(users[one.name], question) for one in conversations for question in one.questions]
    outcomes = [ask(client, user, question) for user, question in track(questions, "questions", console=console)]
    for user in () if keep else users.values():
        client.forget(user)
    return outcomes


def ask(client: Client, user: str, question: Question) -> Outcome:
    """One question."""
    start = time.perf_counter()
    found = client.search(user, question.text)
    milliseconds = (time.perf_counter() - start) * 1000
    recalls = [len(question.evidence.intersection(found[:k])) / len(question.evidence) for k in (5, 10)]
    return Outcome(question.category, recalls[0], recalls[1], milliseconds)


def summary(outcomes: Sequence[Outcome]) -> dict[str, dict[str, float]]:
    """Questions, recall@5 and recall@10 by category, for categories 1-4 together, and for all."""
    groups: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        groups[f"{outcome.category} {CATEGORY_NAMES.get(outcome.category, '')}".strip()].append(outcome)
    groups = defaultdict(list, sorted(groups.items()))
    groups["categories 1-4"] = [outcome for outcome in outcomes if outcome.category in SCORED_CATEGORIES]
    groups["all"] = list(outcomes)
    return {
        name: {
            "questions": len(group),
            "recall_at_5": round(statistics.fmean(one.at_5 for one in group), 4),
            "recall_at_10": round(statistics.fmean(one.at_10 for one in group), 4),
        }
        for name, group in groups.items()
        if group
    }


def latency(outcomes: Sequence[Outcome]) -> dict[str, float]:
    """Median and 95th percentile of a search call, in milliseconds."""
    times = sorted(outcome.milliseconds for outcome in outcomes)
    return {"p50_ms": round(times[len(times) // 2], 2), "p95_ms": round(times[int(len(times) * 0.95)], 2)}


def show(report: dict[str, Any], console: Console) -> None:
    """Print the table."""
    table = Table("category", "questions", "recall@5", "recall@10", title="LoCoMo turn recall")
    for name, row in report["recall"].items():
        table.add_row(name, f"{row['questions']:.0f}", f"{row['recall_at_5']:.3f}", f"{row['recall_at_10']:.3f}")
    console.print(table)
    times = report["latency"]
    console.print(f"search latency: p50 {times['p50_ms']} ms, p95 {times['p95_ms']} ms")


def main(
    data: Annotated[Path, typer.Option(help="LoCoMo file, for example locomo10.json.")],
    base_url: Annotated[str, typer.Option(help="Where memproxy listens.")] = "http://127.0.0.1:8484",
    api_key: Annotated[str | None, typer.Option(help="Bearer key to call with.")] = None,
    json_out: Annotated[Path | None, typer.Option("--json", help="Write the figures there.")] = None,
    keep: Annotated[bool, typer.Option(help="Leave what was ingested in the store.")] = False,
) -> None:
    """Measure LoCoMo turn recall of a running memproxy."""
    console = Console(stderr=not sys.stdout.isatty())
    headers = {"authorization": f"Bearer {api_key}"} if api_key else {}
    try:
        with httpx.Client(base_url=base_url, headers=headers, timeout=120) as http:
            outcomes = evaluate(Client(http), load(data), console, keep=keep)
    except httpx.TransportError as error:
        console.print(f"no answer from {base_url} ({error}); start it with: memproxy serve")
        raise typer.Exit(1) from error
    except MemproxyError as error:
        console.print(error.message)
        raise typer.Exit(1) from error
    report = {"data": data.name, "recall": summary(outcomes), "latency": latency(outcomes)}
    show(report, Console())
    if json_out is not None:
        json_out.write_text(json.dumps(report, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    typer.run(main)
