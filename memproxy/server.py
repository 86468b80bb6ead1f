"""The HTTP server of both processes: uvicorn, told to add nothing of its own and to leave signals to us."""

import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterator

import uvicorn

CLIENT_KEEP_ALIVE_S = 75
"""Idle client connections stay open this long; nginx's number, longer than clients' own pools keep them."""


CUT_OFF_S = 1
"""What uvicorn still gives open requests: they had their grace before it was told to stop."""


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


def server_config(app: Callable[..., Awaitable[None]], **more: object) -> uvicorn.Config:
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
        timeout_graceful_shutdown=CUT_OFF_S,
        **more,  # type: ignore[arg-type]
    )


def quiet_logs() -> None:
    """Leave uvicorn's warnings, without those that we know better."""
    logger = logging.getLogger("uvicorn.error")
    logger.addFilter(Unfinished())
    logger.setLevel(logging.WARNING)
