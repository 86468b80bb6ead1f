"""The command line. Exit codes: 0 done, 1 it failed (the message says why), 2 bad usage.

Each command is in a module of its own or its kind's, beside its work, and imported when it is asked for: `serve` needs
nothing of a backup, and its supervisor stays for months.
"""

import gc
import importlib
import signal
from typing import Annotated, Any

import typer
from typer.main import get_group

from memproxy.commands.options import Group, everywhere
from memproxy.errors import MemproxyError

RUNNING, UPKEEP, TRANSFER = "memproxy.commands.running", "memproxy.commands.upkeep", "memproxy.commands.export_import"
COMMANDS = {
    "serve": RUNNING,
    "demo": RUNNING,
    "check": "memproxy.commands.check",
    "mine": UPKEEP,
    "dream": UPKEEP,
    "reindex": UPKEEP,
    "forget": UPKEEP,
    "export": TRANSFER,
    "import": TRANSFER,
    "prune": UPKEEP,
    "backup": "memproxy.commands.backup",
    "restore": "memproxy.commands.restore",
    "move": "memproxy.commands.move",
    "version": RUNNING,
    "audit": UPKEEP,
    "mcp": "memproxy.commands.mcp_stdio",
    "top": "memproxy.commands.top",
}
"""The module of each command."""

GROUPS = {"memories": "memproxy.commands.memories", "keys": "memproxy.commands.keys", "eval": "memproxy.evals.cli"}
"""The module of each group of commands."""


class Commands(Group):
    """All commands, in the order of the help."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - typer's own signature
        return [*COMMANDS, *GROUPS]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002 - the same
        if (module := COMMANDS.get(cmd_name) or GROUPS.get(cmd_name)) is None:
            return None
        group = get_group(everywhere(importlib.import_module(module).app))
        group.name = cmd_name
        return group if cmd_name in GROUPS else group.commands[cmd_name]


app = typer.Typer(
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    cls=Commands,
    pretty_exceptions_enable=False,
)


@app.callback()
def _whole(*, version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False) -> None:
    """A reverse proxy for OpenAI-compatible chat APIs that gives any application long-term memory."""
    # typer's help is this function's docstring; `Group` has told the version before it is called


def _end(number: int, _: object) -> None:
    raise SystemExit(128 + number)


def main() -> None:
    """Run the command line. SIGTERM ends a command as Ctrl-C does: what it was at is left in order."""
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _end)
    try:
        app(prog_name="memproxy")  # also as a module: completion goes by this name
    except MemproxyError as error:
        typer.echo(f"memproxy: {error.message}", err=True)
        raise SystemExit(1) from error
    except OSError as error:
        # a disk that is full, a folder that may not be read: said in a line, as any other failure of a command
        file = f"{error.filename}: " if error.filename else ""
        typer.echo(f"memproxy: {file}{error.strerror or error}.", err=True)
        raise SystemExit(1) from error
    finally:
        gc.freeze()  # the process ends: there is nothing to look through for garbage any more
