"""The HTTP server of both processes: uvicorn, told to add nothing of its own and to leave signals to us."""

import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterator

import uvicorn

from memproxy.settings import ServerSettings

CLIENT_KEEP_ALIVE_S = 75
"""Idle client connections stay open this long; nginx's number, longer than clients' own pools keep them."""


class Server(uvicorn.Server):
    """Uvicorn without signal handlers of its own: the process's `main` owns them."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield


class Unfinished(logging.Filter):
    """Drops uvicorn's remark on answers that we leave unfinished on purpose, after our own log line said why."""

    def filter(self, record: logging.LogRecord) -> bool:
        return "without completing response" not in record.getMessage()


def server_config(app: Callable[..., Awaitable[None]], settings: ServerSettings, **more: object) -> uvicorn.Config:
    """Uvicorn's settings: only the bytes that the application sends, no headers, logs or signals of its own."""
    return uvicorn.Config(
        app,
        http="httptools",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        timeout_keep_alive=CLIENT_KEEP_ALIVE_S,
        timeout_graceful_shutdown=max(1, round(settings.shutdown_grace_s)),
        **more,  # type: ignore[arg-type]
    )


def quiet_logs() -> None:
    """Leave uvicorn's warnings, without those that we know better."""
    logger = logging.getLogger("uvicorn.error")
    logger.addFilter(Unfinished())
    logger.setLevel(logging.WARNING)
