"""The command line. Exit codes: 0 done, 1 it failed (the message says why), 2 bad usage."""

import gc
from typing import Annotated

import typer

from memproxy.commands import keeping, keys, memories, moving, running
from memproxy.commands.options import Group, everywhere
from memproxy.errors import MemproxyError
from memproxy.evals.cli import app as evaluations

app = typer.Typer(
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    cls=Group,
    pretty_exceptions_enable=False,
)


@app.callback()
def _whole(
    *,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """A reverse proxy for OpenAI-compatible chat APIs that gives any application long-term memory."""
    # typer's help is this function's docstring; `Group` has told the version before it is called


app.command()(running.serve)
app.command()(running.demo)
app.command()(running.check)
app.command()(keeping.mine)
app.command(hidden=True)(keeping.dream)  # the contract names it; it is not built yet (`NotBuilt`)
app.command()(keeping.reindex)
app.command()(keeping.forget)
app.command("export")(moving.export_command)
app.command("import")(moving.import_command)
app.command()(keeping.prune)
app.command()(moving.backup)
app.command()(moving.restore)
app.command()(running.version)
app.command()(running.audit)
app.add_typer(memories.app, name="memories")
app.add_typer(keys.app, name="keys")
app.add_typer(evaluations, name="eval")
everywhere(app)


def main() -> None:
    """Run the command line."""
    try:
        app(prog_name="memproxy")  # also as a module: completion goes by this name
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
