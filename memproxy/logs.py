"""Logging: one setup for every process, text or JSON lines. Keys, tokens and message text are never logged.

A record may have ``fields`` (by ``extra``), words and numbers of which its message is made: in JSON they are keys of
the line's own.
"""

import json
import logging
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TextIO


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, process, message, and the error's trace when there is one."""

    def __init__(self, process: str) -> None:
        super().__init__()
        self._process = process

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "process": self._process,
            "message": record.getMessage(),
        }
        line |= getattr(record, "fields", {})
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def setup(level: str, form: str, process: str, stream: TextIO | None = None) -> None:
    """Send all logs of this process to ``stream`` (stderr): ``form`` is ``text`` or ``json``."""
    handler = logging.StreamHandler(stream or sys.stderr)
    text = f"%(asctime)s %(levelname)-7s {process} %(name)s: %(message)s"
    handler.setFormatter(JsonFormatter(process) if form == "json" else logging.Formatter(text))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    ours, others = logging.getLogger("memproxy"), logging.getLogger()
    ours.setLevel(others.level)
    # debug and info lines of libraries may quote what clients wrote
    others.setLevel(max(logging.WARNING, others.level))


class LogLimit:
    """Limits a log line for something that may happen a thousand times a second: the first time, and then once in
    ``every_s`` seconds with how often it happened since.
    """

    def __init__(self, every_s: float = 60.0, now: Callable[[], float] = time.monotonic) -> None:
        self._every_s = every_s
        self._now = now
        self._told: dict[str, float] = {}
        self._untold: dict[str, int] = {}

    def due(self, cause: str) -> int:
        """Note that it happened for this cause. How often since the last line, if one is due now; else 0."""
        count, now = self._untold.get(cause, 0) + 1, self._now()
        if cause in self._told and now - self._told[cause] < self._every_s:
            self._untold[cause] = count
            return 0
        self._told[cause], self._untold[cause] = now, 0
        return count
