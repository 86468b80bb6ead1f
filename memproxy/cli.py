"""The command line. Exit codes: 0 done, 1 it failed (the message says why), 2 bad usage."""

import os
from pathlib import Path
from typing import Annotated

import typer

from memproxy import __version__, logs
from memproxy.config_file import load_settings
from memproxy.errors import ConfigError, MemproxyError
from memproxy.evals.cli import app as evaluations
from memproxy.home import home_dir, secret

app = typer.Typer(
    help="A reverse proxy for OpenAI-compatible chat APIs that gives any application long-term memory.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
keys = typer.Typer(help="Keys and what stands for them.", no_args_is_help=True)
app.add_typer(keys, name="keys")
app.add_typer(evaluations, name="eval")

Config = Annotated[Path | None, typer.Option("--config", help="Configuration file (YAML).", metavar="FILE")]


@app.command()
def serve(
    config: Config = None,
    upstream: Annotated[str | None, typer.Option(help="Upstream base URL.", metavar="URL")] = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on (0: any free one).")] = None,
) -> None:
    """Run the proxy."""
    from memproxy import supervisor  # noqa: PLC0415 - other commands start faster without it

    overrides = {"upstream.base_url": upstream, "server.host": host, "server.port": port}
    settings = load_settings(config, overrides=overrides)
    logs.setup(settings.telemetry.log_level, settings.telemetry.log_format, "serve")
    supervisor.serve(settings, dict(os.environ))


@app.command()
def demo(
    *, serve: Annotated[bool, typer.Option("--serve", help="Leave it running, to be tried by hand.")] = False
) -> None:
    """Show memory at work: two sessions with a scripted model, a kill in between. No key, no network."""
    from memproxy.demo.run import run_demo  # noqa: PLC0415 - other commands start faster without it

    raise typer.Exit(run_demo(serve=serve))


@app.command()
def check(config: Config = None) -> None:
    """Check configuration, upstream, state, store and embedder; each with a line and a remedy."""
    from memproxy.check import run_check  # noqa: PLC0415 - other commands start faster without it

    raise typer.Exit(run_check(config))


@app.command()
def version() -> None:
    """Print the version."""
    typer.echo(__version__)


@keys.command("hash")
def keys_hash() -> None:
    """Print the hash of an API key (read from standard input), to name its tenant in auth.tenants."""
    from memproxy.auth import key_hash  # noqa: PLC0415 - other commands start faster without it

    key = typer.prompt("API key", hide_input=True) if os.isatty(0) else typer.get_text_stream("stdin").read()
    if not key.strip():
        raise ConfigError("No key was given: pipe it in, or type it.")
    typer.echo(key_hash(secret(None, home_dir()), key.strip()))


def main() -> None:
    """Run the command line."""
    try:
        app()
    except MemproxyError as error:
        typer.echo(f"memproxy: {error.message}", err=True)
        raise SystemExit(1) from error


if __name__ == "__main__":
    main()
