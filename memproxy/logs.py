"""Logging: one setup for every process, text or JSON lines. Keys, tokens and message text are never logged."""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import TextIO


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, process, message, and the error's trace when there is one."""

    def __init__(self, process: str) -> None:
        super().__init__()
        self._process = process

    def format(self, record: logging.LogRecord) -> str:
        """Render one record."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "process": self._process,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def setup(level: str, form: str, process: str, stream: TextIO | None = None) -> None:
    """Send all logs of this process to ``stream`` (stderr): ``form`` is ``text`` or ``json``."""
    handler = logging.StreamHandler(stream or sys.stderr)
    text = f"%(asctime)s %(levelname)-7s {process} %(name)s: %(message)s"
    handler.setFormatter(JsonFormatter(process) if form == "json" else logging.Formatter(text))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    for chatty in ("httpx", "httpx2", "httpcore", "httpcore2", "openai", "uvicorn.access", "asyncio"):
        logging.getLogger(chatty).setLevel(max(logging.WARNING, logging.getLogger().level))
