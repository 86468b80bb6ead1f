"""`memproxy mcp`: memory tools for an agent that starts them as a program, over standard input and output."""

import asyncio
import contextlib
import importlib.util
import signal
from typing import Annotated, Any

import httpx
import typer

from memproxy.commands.installation import served
from memproxy.commands.options import Config, Tenant, named, quiet_settings, tell_of_tenants
from memproxy.errors import ConfigError, MemproxyError, StoreUnavailable
from memproxy.settings import Settings

app = typer.Typer()


@app.command()
def mcp(
    user: Annotated[str | None, named("--user", "Whose memory it is; default the user `default`.", "U")] = None,
    project: Annotated[str | None, named("--project", "The project it works in; default all.", "P")] = None,
    agent: Annotated[str | None, named("--agent", "Its name among the user's agents.", "A")] = None,
    tenant: Tenant = None,
    config: Config = None,
) -> None:
    """Offer memory to an agent as MCP tools on standard input and output, through the running server."""
    settings = quiet_settings(config)
    if importlib.util.find_spec("mcp") is None:
        raise ConfigError(
            'The library of the protocol is not installed; run: pip install "PATH[mcp]" (PATH: the wheel or '
            "folder that memproxy came from)."
        )
    tell_of_tenants(tenant)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)  # a thread waits for standard input, which no clean end would wake
    asyncio.run(_serve(settings, {"tenant": tenant, "user": user or "default", "project": project, "agent": agent}))


async def _serve(settings: Settings, who: dict[str, Any]) -> None:
    from memproxy.mcp.tools import make_server, refused  # noqa: PLC0415 - an extra

    async with contextlib.AsyncExitStack() as held:
        running = await held.enter_async_context(served(settings))

        async def call(_context: Any, method: str, path: str, **arguments: Any) -> dict[str, Any]:
            nonlocal running
            arguments |= who
            try:
                try:
                    answer = await running.answer(method, path, **arguments)
                except StoreUnavailable as error:
                    if not isinstance(error.__cause__, httpx.ConnectError):
                        raise  # it may have been done
                    # an agent outlives its server, and one that was started anew is found at another socket
                    running = await held.enter_async_context(served(settings))
                    answer = await running.answer(method, path, **arguments)
            except MemproxyError as error:
                raise refused(error.message) from error
            return dict(answer.json()) if answer.content else {}

        await make_server(call).run_stdio_async()
