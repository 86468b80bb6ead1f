"""The folder of memproxy's own files (`MEMPROXY_HOME`, else `~/.memproxy`) and the secret that lives in it."""

import logging
import os
import secrets
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path

from memproxy.errors import ConfigError
from memproxy.settings import StateSettings, StoreSettings

log = logging.getLogger(__name__)

SECRET_BYTES = 32


def home_dir(environ: Mapping[str, str] | None = None) -> Path:
    """The folder of memproxy's own files; not made here.

    Raises:
        ConfigError: `MEMPROXY_HOME` is not set and the user has no home folder.
    """
    named = (os.environ if environ is None else environ).get("MEMPROXY_HOME")
    try:
        return Path(named or "~/.memproxy").expanduser().absolute()
    except (RuntimeError, OSError) as error:
        raise ConfigError("The home folder of this user is not known; set MEMPROXY_HOME to a folder.") from error


def store_path(settings: StoreSettings, home: Path) -> Path:
    """Folder of the embedded store."""
    return (settings.path or home / "store").absolute()


def state_path(settings: StateSettings, home: Path) -> Path:
    """File of the embedded state."""
    return (settings.path or home / "state.db").absolute()


def secret(environ: Mapping[str, str] | None, home: Path) -> bytes:
    """The secret that keys every tenant hash: `MEMPROXY_SECRET`, else the file ``secret`` below ``home``, made at the
    first start for its owner's eyes only. Processes that start at once agree on one.

    Raises:
        ConfigError: the file cannot be made or read, or is not one of ours.
    """
    from_environment = (os.environ if environ is None else environ).get("MEMPROXY_SECRET")
    if from_environment:
        return from_environment.encode("utf-8", "surrogateescape")
    path = home / "secret"
    try:
        return _read_secret(path) if path.exists() else _make_secret(path)
    except OSError as error:
        raise ConfigError(
            f"The secret {path} cannot be read or made ({error.strerror}); "
            "make the folder writable, or set MEMPROXY_HOME or MEMPROXY_SECRET."
        ) from error


def _read_secret(path: Path) -> bytes:
    value = path.read_bytes().strip()
    if len(value) < SECRET_BYTES:
        raise ConfigError(
            f"The secret {path} is shorter than {SECRET_BYTES} bytes; restore it from a backup. "
            "A new one (delete the file) separates callers from the memory they have."
        )
    if stat.S_IMODE(path.stat().st_mode) & 0o077:
        log.warning("others can read the secret %s; run: chmod 600 %s", path, path)
    return value


def _make_secret(path: Path) -> bytes:
    """Write it under another name, then link it: nobody reads half of it, and the first process wins."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=".secret-", dir=path.parent)  # 0600
    draft = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(secrets.token_hex(SECRET_BYTES).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        path.hardlink_to(draft)
    except FileExistsError:
        log.debug("another process made the secret %s first", path)
    finally:
        draft.unlink()
    return _read_secret(path)
