"""One line of JSON for each question that was answered and judged: to read, and to go on from after an interruption."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import msgspec

from memproxy.errors import ConfigError
from memproxy.evals.dataset import Question
from memproxy.evals.qa.prompts import VERSION


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """One question. ``key`` names everything that the line depends on; ``correct`` None: the verdict cannot be read."""

    key: str
    recipe: str
    question_id: str
    group: str
    question: str
    right_answer: str
    context: str
    answer: str
    judged: str
    correct: bool | None
    reader: str
    judge: str
    input_tokens: int = 0
    output_tokens: int = 0
    version: str = VERSION


def key_of(question: Question, context: str, recipe: str, reader: str, judge: str) -> str:
    """The same for the same question with the same context, models and prompts."""
    named = "\0".join((VERSION, recipe, reader, judge, question.id, question.text, question.answer, context))
    return hashlib.sha256(named.encode()).hexdigest()[:24]


class AnswerLog:
    """Appends lines to a file and knows those of earlier runs."""

    def __init__(self, path: Path) -> None:
        """Reads what is there.

        Raises:
            ConfigError: the file cannot be read or written.
        """
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self.known = {line.key: line for line in _lines(path) if line.correct is not None}
            self._file = path.open("a", encoding="utf-8")
            if path.stat().st_size and not path.read_bytes().endswith(b"\n"):
                self._file.write("\n")  # the end of a line that was cut short
        except OSError as error:
            raise ConfigError(f"--qa-log {path} cannot be opened ({error.strerror}); name another file") from error

    def add(self, line: Answered) -> None:
        """On disk when it returns, as far as the operating system is concerned."""
        self.known[line.key] = line
        self._file.write(msgspec.json.encode(line).decode() + "\n")
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _lines(path: Path) -> Iterator[Answered]:
    """The lines that can be read; the last one may have been cut short."""
    if not path.exists():
        return
    for line in path.read_text("utf-8").splitlines():
        try:
            yield msgspec.json.decode(line, type=Answered)
        except msgspec.DecodeError:
            continue
