"""The command line. Exit codes: 0 done, 1 it failed (the message says why), 2 bad usage."""

import gc

import typer

from memproxy.cli import keeping, keys, moving, running
from memproxy.errors import MemproxyError
from memproxy.evals.cli import app as evaluations

app = typer.Typer(
    help="A reverse proxy for OpenAI-compatible chat APIs that gives any application long-term memory.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(running.serve)
app.command()(running.demo)
app.command()(running.check)
app.command()(keeping.mine)
app.command()(keeping.dream)
app.command()(keeping.reindex)
app.command()(keeping.forget)
app.command("export")(moving.export_command)
app.command("import")(moving.import_command)
app.command()(keeping.prune)
app.command()(moving.backup)
app.command()(moving.restore)
app.command()(running.version)
app.command()(running.audit)
app.add_typer(keys.app, name="keys")
app.add_typer(evaluations, name="eval")


def main() -> None:
    """Run the command line."""
    try:
        app()
    except MemproxyError as error:
        typer.echo(f"memproxy: {error.message}", err=True)
        raise SystemExit(1) from error
    except OSError as error:
        # a disk that is full, a folder that may not be read: said in a line, as any other failure of a command
        place = f"{error.filename}: " if error.filename else ""
        typer.echo(f"memproxy: {place}{error.strerror or error}.", err=True)
        raise SystemExit(1) from error
    finally:
        gc.freeze()  # the process ends: there is nothing to look through for garbage any more
