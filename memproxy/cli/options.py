"""What the commands share: options, settings, and what is said of a tenant where the whole installation is meant."""

from pathlib import Path
from typing import Annotated

import typer

from memproxy import logs
from memproxy.config_file import load_settings
from memproxy.settings import Settings

Tenant = Annotated[
    str | None,
    typer.Option(
        "--tenant", help="Whose: a tenant's name, or a key's hash; by default that of callers without key.", metavar="T"
    ),
]
Whole = Annotated[
    str | None,
    typer.Option("--tenant", help="Taken, and without effect: this concerns the whole installation.", metavar="T"),
]
Config = Annotated[Path | None, typer.Option("--config", help="Configuration file (YAML).", metavar="FILE")]
Unread = Annotated[Path | None, typer.Option("--config", help="Taken, and not read: nothing depends on it.")]


def quiet_settings(config: Path | None) -> Settings:
    """The settings of a command that ends by itself; of its log only what went wrong is shown.

    Raises:
        ConfigError: the configuration cannot be used.
    """
    settings = load_settings(config)
    logs.setup("error", settings.telemetry.log_format, "command")
    return settings


def told_of_all(tenant: str | None, what: str) -> None:
    """Say, where a tenant is named, that all tenants are concerned: nobody is to take the one for the other."""
    if tenant is not None:
        typer.echo(f"--tenant {tenant}: {what} concerns the whole installation, every tenant.", err=True)
