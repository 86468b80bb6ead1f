"""What the commands share: options, settings, and what is said of a tenant where the whole installation is meant."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from memproxy import logs
from memproxy.errors import RequestError

if TYPE_CHECKING:
    from memproxy.settings import Settings


def a_name(option: typer.CallbackParam, given: str | None) -> str | None:
    """A tenant, user, session or project that is named on the command line, as requests can name it.

    Raises:
        BadParameter: no request can name it. Taken as it stands it would mean nobody, or, empty, everybody.
    """
    if given is None:
        return None
    if given != given.strip() or not given:
        otherwise = "" if option.required else ", or leave the option out"
        raise typer.BadParameter(f"{given!r}: give a name, without blanks around it{otherwise}.")
    return a_text(given)


def a_text(given: str) -> str:
    """Some words on one line, which may be none.

    Raises:
        BadParameter: they are too long, or hold control characters.
    """
    from memproxy.auth import clean_id  # noqa: PLC0415 - help and version start twice as fast without it

    try:
        return clean_id(given, "it")
    except RequestError as error:
        raise typer.BadParameter(f"{error.message} Give a name of one line.") from error


Tenant = Annotated[
    str | None,
    typer.Option(
        "--tenant",
        help="Whose: a tenant's name, or a key's hash; by default that of callers without key.",
        metavar="T",
        callback=a_name,
    ),
]
OneTenant = Annotated[
    str | None,
    typer.Option("--tenant", help="Of this tenant alone; by default of all.", metavar="T", callback=a_name),
]
OneUser = Annotated[str | None, typer.Option("--user", help="This user alone.", metavar="U", callback=a_name)]
User = Annotated[str, typer.Option("--user", help="Whose memory.", metavar="U", callback=a_name)]
Whole = Annotated[
    str | None,
    typer.Option(
        "--tenant",
        help="Taken, and without effect: this concerns the whole installation.",
        metavar="T",
        callback=a_name,
    ),
]
Config = Annotated[Path | None, typer.Option("--config", help="Configuration file (YAML).", metavar="FILE")]
Unread = Annotated[Path | None, typer.Option("--config", help="Taken, and not read: nothing depends on it.")]


def quiet_settings(config: Path | None) -> "Settings":
    """The settings of a command that ends by itself; of its log only what went wrong is shown.

    Raises:
        ConfigError: the configuration cannot be used.
    """
    from memproxy.config_file import load_settings  # noqa: PLC0415 - as above

    settings = load_settings(config)
    logs.setup("error", settings.telemetry.log_format, "command")
    return settings


def told_of_all(tenant: str | None, what: str) -> None:
    """Say, where a tenant is named, that all tenants are concerned: nobody is to take the one for the other."""
    if tenant is not None:
        typer.echo(f"--tenant {tenant}: {what} concerns the whole installation, every tenant.", err=True)
