"""What the commands share: options, settings, how a result is printed, and what is said of a tenant where the whole
installation is meant.
"""

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from memproxy import __version__, logs
from memproxy.errors import RequestError

if TYPE_CHECKING:
    from memproxy.settings import Settings


def a_name(option: typer.CallbackParam, text: str | None) -> str | None:
    """A tenant, user, session or project that is named on the command line, as requests can name it.

    Raises:
        BadParameter: no request can name it. Taken as it stands it would mean nobody, or, empty, everybody.
    """
    if text is None:
        return None
    if text != text.strip() or not text:
        otherwise = "" if option.required else ", or leave the option out"
        raise typer.BadParameter(f"{text!r}: give a name, without blanks around it{otherwise}.")
    return a_text(text)


def a_text(text: str) -> str:
    """Some words on one line, which may be none.

    Raises:
        BadParameter: they are too long, or hold control characters.
    """
    from memproxy.auth.headers import clean_id  # noqa: PLC0415 - help and version start twice as fast without it

    try:
        return clean_id(text, "it")
    except RequestError as error:
        raise typer.BadParameter(f"{error.message} Give a name of one line.") from error


def named(flag: str, words: str, metavar: str, **more: Any) -> Any:
    """An option that names a tenant, user, session, project or agent."""
    return typer.Option(flag, help=words, metavar=metavar, callback=a_name, **more)


Tenant = Annotated[
    str | None,
    named("--tenant", "Whose: a tenant's name, or a key's hash; by default that of callers without key.", "T"),
]
OneTenant = Annotated[str | None, named("--tenant", "Of this tenant alone; by default of all.", "T")]
OneUser = Annotated[str | None, named("--user", "This user alone.", "U")]
User = Annotated[str, named("--user", "Whose memory.", "U")]
Whole = Annotated[
    str | None, named("--tenant", "Taken, and without effect: this concerns the whole installation.", "T", hidden=True)
]
"""Every command takes a tenant. Where it has no effect the help does not list it, and `tell_of_all_tenants` says so
when one is named.
"""
Config = Annotated[Path | None, typer.Option("--config", help="Configuration file (YAML).", metavar="FILE")]
Unread = Annotated[
    Path | None, typer.Option("--config", help="Taken, and not read: nothing depends on it.", hidden=True)
]
Session = Annotated[str | None, named("--session", "Of this conversation alone.", "S")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask; needed where nobody can be asked (scripts).")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as one line of JSON.")]


def show(result: Any, lines: Iterable[str], *, as_json: bool, err: bool = False) -> None:
    """Print what a command found or did, in ``lines`` for people or as one JSON document for programs."""
    if as_json:
        import msgspec  # noqa: PLC0415 - help starts faster without it

        typer.echo(msgspec.json.encode(result).decode(), err=err)
        return
    for line in lines:
        typer.echo(line, err=err)


def one_line(text: str) -> str:
    """What somebody said as one line, without what a terminal would obey."""
    plain = " ".join(text.split())
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in plain)


def whose(tenant: str | None) -> str:
    """The tenant as messages name it."""
    return f"tenant {tenant or 'anonymous'}"


def tell_of_tenants(tenant: str | None) -> None:
    """Say, where nothing was found, that what is sought may be another tenant's, or in another installation."""
    hint = (
        "Memories that came with a key are its tenant's: name it by --tenant (memproxy keys list shows that of "
        "proxy keys, memproxy keys hash prints that of others)."
        if tenant is None
        else "A key's tenant has another name in another installation: this looked into the one that --config or "
        "MEMPROXY_HOME names."
    )
    typer.echo(hint, err=True)


def confirmed(action: str, *, yes: bool) -> None:
    """Return when somebody wants this done for good.

    Raises:
        BadParameter: nobody can be asked, and ``--yes`` was not given.
        Abort: no.
    """
    if not yes and not os.isatty(0):
        raise typer.BadParameter(f"nobody can be asked here: give --yes to {action} for good", param_hint="--yes")
    if not yes:
        typer.confirm(f"{action[0].upper()}{action[1:]} for good?", abort=True, err=True)


def told_forgotten(
    forget: Callable[[], Coroutine[Any, Any, int]], subject: str, tenant: str | None, *, yes: bool, as_json: bool
) -> None:
    """Ask whether this is to be forgotten for good, have it done, and say how many memories it was."""
    confirmed(f"forget {subject}", yes=yes)
    with progress("forgetting"):
        gone = asyncio.run(forget())
    show({"deleted": gone}, [f"{gone} memories forgotten: {subject} of {whose(tenant)}."], as_json=as_json)
    if not gone:
        tell_of_tenants(tenant)
        raise typer.Exit(1)


class Finding(NamedTuple):
    """What was found out of one part. ``works`` None: not a fault, but worth knowing."""

    part: str
    works: bool | None
    text: str


class Command(TyperCommand):
    """A command that also tells the version: ``memproxy check --version``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        _tell_version(ctx, args)
        return super().parse_args(ctx, args)


class Group(TyperGroup):
    """A group of commands that also tells the version."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        _tell_version(ctx, args)
        return super().parse_args(ctx, args)


def _tell_version(ctx: Any, args: list[str]) -> None:
    if args[:1] == ["--version"] and not ctx.resilient_parsing:
        typer.echo(__version__)
        ctx.exit()


def everywhere(app: typer.Typer) -> typer.Typer:
    """``app``, every command of which is a `Command`."""
    app.info.cls = Group
    for command in app.registered_commands:
        command.cls = Command
    return app


def quiet_settings(config: Path | None) -> "Settings":
    """The settings of a command that ends by itself; of its log only what went wrong is shown."""
    from memproxy.settings.loading import load_settings  # noqa: PLC0415 - as above

    settings = load_settings(config)
    logs.setup("error", settings.telemetry.log_format, "command")
    return settings


def tell_of_all_tenants(tenant: str | None, action: str) -> None:
    """Say, where a tenant is named, that all tenants are concerned: nobody is to take the one for the other."""
    if tenant is not None:
        typer.echo(f"--tenant {tenant}: {action} concerns the whole installation, every tenant.", err=True)


Show = Callable[[int, int], None]
"""Tells how far it is: steps that are done, of how many."""


@contextmanager
def progress(title: str) -> Iterator[Show]:
    """A progress bar on a terminal, a line now and then elsewhere."""
    from rich.console import Console  # noqa: PLC0415 - `serve` does without
    from rich.progress import Progress  # noqa: PLC0415 - the same

    console, tenths = Console(file=sys.stderr), set[int]()

    def print_tenth(done: int, total: int) -> None:
        if (tenth := done * 10 // total if total else 10) not in tenths:
            tenths.add(tenth)
            console.print(f"{title}: {done:,} of {total:,}", highlight=False)

    if not console.is_terminal:
        yield print_tenth
        return
    with Progress(console=console) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
