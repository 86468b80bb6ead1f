"""``memproxy serve``, ``demo`` and ``version``."""

import os
from functools import partial
from typing import Annotated

import typer

from memproxy import __version__, logs
from memproxy.commands.options import Config, Json, Unread, Whole, show, tell_of_all_tenants

app = typer.Typer()


def _upstream_address(address: str | None) -> str | None:
    """The address that is named on the command line."""
    if address is None:
        return None
    from memproxy.settings import http_address  # noqa: PLC0415 - `version` starts faster without it

    try:
        return http_address(address)
    except ValueError as error:
        raise typer.BadParameter(f"{address!r} {error}.") from error


@app.command()
def serve(
    config: Config = None,
    upstream: Annotated[
        str | None, typer.Option(help="Upstream base URL.", metavar="URL", callback=_upstream_address)
    ] = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="Port to listen on (0: any free one).")] = None,
    tenant: Whole = None,
) -> None:
    """Run the proxy."""
    from memproxy.serve import supervisor  # noqa: PLC0415 - `version` starts faster without it
    from memproxy.settings.loading import load_settings  # noqa: PLC0415 - the same

    overrides = {"upstream.base_url": upstream, "server.host": host, "server.port": port}
    read = partial(load_settings, config, overrides=overrides)
    settings = read()
    tell_of_all_tenants(tenant, "serve")
    logs.setup(settings.telemetry.log_level, settings.telemetry.log_format, "serve")
    supervisor.serve(settings, dict(os.environ), read)


@app.command()
def demo(
    *,
    serve: Annotated[bool, typer.Option("--serve", help="Leave it running, to be tried by hand.")] = False,
    config: Unread = None,  # noqa: ARG001 - every command takes it
    tenant: Whole = None,
) -> None:
    """Show memory at work: two sessions with a scripted model, a kill in between. No key, no network."""
    from memproxy.demo.story import run_demo  # noqa: PLC0415 - `version` starts faster without it

    tell_of_all_tenants(tenant, "demo")
    raise typer.Exit(run_demo(serve=serve))


@app.command()
def version(config: Unread = None, tenant: Whole = None, *, json: Json = False) -> None:  # noqa: ARG001 - every command takes both
    """Print the version."""
    show({"version": __version__}, [__version__], as_json=json)
