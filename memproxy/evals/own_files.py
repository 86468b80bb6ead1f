"""The files of an evaluation: the one that ``--data`` names, or our own, which lie in ``data`` beside its package."""

from collections.abc import Iterator
from importlib import resources
from pathlib import Path

from memproxy.errors import ConfigError


def texts(path: Path | None, package: str, holding: str) -> Iterator[tuple[str, str]]:
    """Name and text of the file, or of each of our own of ``package``; ``holding`` is what such a file holds.

    Raises:
        ConfigError: the file cannot be read.
    """
    if path is not None:
        yield path.name, _text(path, holding)
        return
    folder = resources.files(package).joinpath("data")
    for entry in sorted(folder.iterdir(), key=lambda one: one.name):
        if entry.name.endswith(".yaml"):
            yield entry.name, entry.read_text("utf-8")


def _text(path: Path, holding: str) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"--data {path} cannot be read ({error}); name a file of {holding}") from error
