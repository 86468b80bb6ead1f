"""``memproxy restore``: a backup in the place of the configured store and state.

First everything is looked at that could be in the way, and said: nothing is written before. Then what the manifest
lists is unpacked beside its place, and nothing else; what was there gets another name when all of it is there. No link
is followed: a backup may come from anybody.
"""

import contextlib
import os
import re
import shlex
import shutil
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

import memproxy
from memproxy.commands.backup import (
    DUMP,
    Damaged,
    check_backends,
    descriptor,
    digest_of,
    read_manifest,
    snapshot_address,
    synced,
    unpacked,
)
from memproxy.commands.installation import holding
from memproxy.commands.options import (
    Config,
    Finding,
    Json,
    Show,
    Whole,
    progress,
    quiet_settings,
    show,
    tell_of_all_tenants,
)
from memproxy.core.backup_manifest import MANIFEST, PACKED, SECRET, STATE, STORE, BackedUp, Manifest, Snapshot
from memproxy.engine import sparse
from memproxy.errors import ConfigError
from memproxy.settings import Settings
from memproxy.settings.home import home_dir, state_path, store_path
from memproxy.wiring.state_stores import newer_form

app = typer.Typer()

SPARE = 1024 * 1024
"""Bytes that folders and the ends of files take beside what is unpacked."""

_HEAD = 4096
"""Bytes of each file that are kept to tell the versions of the store and of the state."""

_SQLITE_BESIDE = ("-wal", "-shm")


@app.command()
def restore(
    folder: Annotated[Path, typer.Argument(help="A backup, or the folder of several: the newest.", metavar="DIR")],
    config: Config = None,
    tenant: Whole = None,
    *,
    force: Annotated[
        bool, typer.Option("--force", help="Replace what is there; it is kept under another name.")
    ] = False,
    only_look: Annotated[
        bool, typer.Option("--check", help="Say whether it could be restored here, and change nothing.")
    ] = False,
    json: Json = False,
) -> None:
    """Put a backup in the place of the configured store and state. No server may be running on them.

    First it says whether it may: versions, damage, what is there already, room on the disk.
    """
    settings = quiet_settings(config)
    tell_of_all_tenants(tenant, "restore")
    with restoring(settings, folder, force=force, only_look=only_look) as restoration:
        with progress("checking") as shows:
            findings = restoration.look(shows)
        for finding in findings:
            # of --json the result alone is on standard output
            typer.echo(f"{'ok  ' if finding.works else 'FAIL'} {finding.part:8} {finding.text}", err=json)
        require(findings)
        if only_look:
            possible = {"possible": True, "folder": str(restoration.folder)}
            show(possible, ["It can be restored; nothing was changed."], as_json=json)
            return
        with progress("restoring") as shows:
            aside = restoration.run(shows)
    lines = [f"What was there before is now {path}; remove it when it is not needed." for path in aside]
    result: dict[str, Any] = {"restored": str(restoration.folder), "aside": [str(path) for path in aside]}
    if restoration.manifest.snapshot is not None:
        lines += (steps := remaining_steps(settings, restoration.manifest.snapshot))
        result["steps"] = steps
    show(result, [f"Restored from {restoration.folder}.", *lines], as_json=json)


_KEY = "QDRANT_API_KEY"


def remaining_steps(settings: Settings, snapshot: Snapshot) -> list[str]:
    """What the operator does next: commands that bring back what is on servers, each after a line that says what it is
    for.
    """
    url, address = (settings.store.url or "").rstrip("/"), snapshot_address(settings, snapshot)
    curl = "curl --fail-with-body -H 'content-type: application/json'"
    curl += ' -H "api-key: $QDRANT_API_KEY"' if settings.store.api_key else ""
    body: dict[str, Any] = {"location": address, "priority": "snapshot", "checksum": snapshot.sha256}
    if settings.store.api_key:
        body["api_key"] = _KEY
    recover = shlex.quote(msgspec.json.encode({name: value for name, value in body.items() if value}).decode())
    recover = recover.replace(_KEY, "'\"$QDRANT_API_KEY\"'")
    steps = [
        "Then the memories, before a server is started. Qdrant fetches its snapshot itself:",
        f"{curl} -X PUT {url}/collections/{snapshot.collection}/snapshots/recover?wait=true -d {recover}",
    ]
    if snapshot.collection != settings.store.collection:  # a reindex has switched
        alias = {"collection_name": snapshot.collection, "alias_name": f"{settings.store.collection}__current"}
        actions = shlex.quote(msgspec.json.encode({"actions": [{"create_alias": alias}]}).decode())
        steps += [
            "The name by which memproxy finds that collection, where it is gone:",
            f"{curl} -X POST {url}/collections/aliases -d {actions}",
        ]
    if settings.state.backend == "postgres":
        steps.append(f"The state, from its dump: {DUMP}")
    return steps


class Restoration:
    """A backup and where it would go. No server starts there meanwhile (`restoring`).

    Args:
        folder: The backup, or a folder of several: then the newest.
        force: Whether what is there may be replaced.
        free: Tells the free bytes of a folder's disk.
        served: Which server has the place, in words: it can only be looked at then.

    Raises:
        ConfigError: the folder is no backup and holds none, or its form is another version's.
    """

    def __init__(
        self, settings: Settings, folder: Path, *, force: bool, free: Callable[[Path], int], served: str | None = None
    ) -> None:
        home = home_dir()
        self.folder, self._other_backups = _choose(folder)
        self.manifest = read_manifest(self.folder)
        self._force = force
        self._free = free
        self._served = served
        _check_is_of(self.manifest, settings)
        self._targets = {}
        if self.manifest.snapshot is None:
            self._targets[STORE] = store_path(settings.store, home)
        if STATE in self.manifest.files:
            self._targets[STATE] = state_path(settings.state, home)
        if SECRET in self.manifest.files:
            self._targets[SECRET] = home / SECRET

    def look(self, show: Show) -> list[Finding]:
        """Read the whole backup, and say of everything that is needed whether it is so. Nothing is written."""
        needed = dict.fromkeys(self._targets, 0)
        heads: dict[str, bytes] = {}
        damaged: list[str] = []
        total, done = self._size(), 0
        for name, expected in self.manifest.files.items():
            try:
                for piece in unpacked(self.folder, name, expected):
                    needed[name.partition("/")[0]] += sum(end - start for start, end in sparse.data_runs(piece))
                    heads.setdefault(name, piece[:_HEAD])
            except Damaged as error:
                damaged.append(f"{self.folder / (name + PACKED)} is damaged: {error}")
            done += expected.size
            show(done, total)
        return [
            self._about_backup(),
            self._about_version(heads),
            _about_files(damaged),
            *([Finding("server", False, self._served)] if self._served else []),
            self._about_targets(),
            *self._about_room(needed),
        ]

    def run(self, show: Show) -> list[Path]:
        """Put it in its place; where those that were there are now.

        Raises:
            ConfigError: a file is not as the manifest says: nothing was restored.
        """
        try:
            self._draft_all(show)
            aside = [moved for path in self._targets.values() for moved in _moved_aside(path)]
            for path in self._targets.values():
                _draft(path).rename(path)
                synced(path.parent)
        finally:
            for path in self._targets.values():
                _remove(_draft(path))
        return aside

    def _size(self) -> int:
        return sum(file.size for file in self.manifest.files.values())

    def _about_backup(self) -> Finding:
        made_at, files = self.manifest.made_at, self.manifest.files
        newest = f", the newest of {self._other_backups + 1} there" if self._other_backups else ""
        origin = f"made {made_at:%Y-%m-%d %H:%M:%S} UTC by memproxy {self.manifest.memproxy}"
        text = f"{self.folder}{newest}: {origin}, {len(files)} files, {self.manifest.size:,} bytes"
        return Finding("backup", True, text)

    def _about_version(self, heads: Mapping[str, bytes]) -> Finding:
        theirs, ours = self.manifest.memproxy, memproxy.__version__
        newer = newer_form(heads)
        if newer is None and _numbers(theirs) > _numbers(ours):
            newer = f"memproxy {theirs} made it"
        if newer is not None:
            remedy = f"install memproxy {theirs} or a newer one"
            return Finding("version", False, f"{newer}, and this is memproxy {ours}: {remedy}")
        return Finding("version", True, f"memproxy {ours} can read it")

    def _about_targets(self) -> Finding:
        in_use = [path for name, path in self._targets.items() if _is_used(path, self.manifest.files.get(name))]
        shown = ", ".join(map(str, in_use))
        if in_use and not self._force:
            return Finding("place", False, f"{shown} would be replaced. Say --force: what is there is kept beside it")
        text = f"{shown} will be replaced, and kept under another name" if in_use else "nothing is there yet"
        return Finding("place", True, text)

    def _about_room(self, needed: Mapping[str, int]) -> Iterator[Finding]:
        disks: dict[int, tuple[Path, int]] = {}
        for name, path in self._targets.items():
            folder = next(parent for parent in path.parents if parent.exists())
            disk = folder.stat().st_dev
            disks[disk] = (folder, disks.get(disk, (folder, SPARE))[1] + needed[name])
        for folder, required in disks.values():
            free = self._free(folder)
            text = f"{required:,} bytes are needed in {folder}, {free:,} are free"
            works = free >= required
            yield Finding("disk", works, text if works else f"{text}: free some space")

    def _draft_all(self, show: Show) -> None:
        """Unpack all that is listed beside its place, durably."""
        for path in self._targets.values():
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _remove(_draft(path))
        store = _draft(self._targets[STORE]) if STORE in self._targets else None
        if store is not None:
            store.mkdir(mode=0o700)
        total, done = self._size(), 0
        for name, expected in self.manifest.files.items():
            first, _, below = name.partition("/")
            draft = _draft(self._targets[first]) / below
            draft.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            try:
                _write(draft, unpacked(self.folder, name, expected), expected)
            except Damaged as error:
                raise ConfigError(
                    f"{self.folder / (name + PACKED)} is damaged ({error}): nothing was restored. Use another backup."
                ) from error
            done += expected.size
            show(done, total)
        for path in () if store is None else (store, *store.rglob("*")):
            if path.is_dir():
                synced(path)


def _check_is_of(manifest: Manifest, settings: Settings) -> None:
    """Refuse a backup of an installation that keeps things elsewhere. Raises `ConfigError`."""
    theirs = "edge" if manifest.snapshot is None else "qdrant"
    if settings.store.backend != theirs:
        raise ConfigError(
            f"It is of an installation with store.backend: {theirs}, and here it is {settings.store.backend}: nothing "
            "was restored. Name that installation's configuration with --config."
        )
    if (STATE in manifest.files) != (settings.state.backend == "sqlite"):
        finding = "holds none, and here it is in a file" if STATE not in manifest.files else "holds one"
        raise ConfigError(
            f"It {finding} (state.backend: {settings.state.backend}): nothing was restored. Name that installation's "
            "configuration with --config."
        )


def _about_files(damaged: list[str]) -> Finding:
    if not damaged:
        return Finding("files", True, "all are there and as they were written (SHA-256)")
    more = f" and {len(damaged) - 3} more" if len(damaged) > 3 else ""
    return Finding("files", False, f"{'; '.join(damaged[:3])}{more}. Nothing is restored from it; use another backup")


@contextlib.contextmanager
def restoring(
    settings: Settings,
    folder: Path,
    *,
    force: bool,
    only_look: bool = False,
    free: Callable[[Path], int] = lambda folder: shutil.disk_usage(folder).free,
) -> Iterator[Restoration]:
    """A restoration that can be looked at and run. Within it no server starts on what would be replaced.

    Raises:
        AlreadyServed: a server is running on the store or state; said before anything is looked at. With ``only_look``
            it is one of the findings: a backup can be checked where its server runs.
        ConfigError: the folder is no backup, and holds none; or the store is a server's.
    """
    check_backends(settings)
    with contextlib.ExitStack() as held:
        served = None
        try:
            held.enter_context(holding(settings))
        except ConfigError as error:  # `AlreadyServed`, mostly
            if not only_look:
                raise
            served = error.message.rstrip(".")
        yield Restoration(settings, folder, force=force, free=free, served=served)


def require(findings: list[Finding]) -> None:
    """Raise `ConfigError` where something of it is not so; the message holds everything that is not."""
    problems = [f"{finding.part}: {finding.text}." for finding in findings if not finding.works]
    if problems:
        raise ConfigError("Nothing was restored. " + " ".join(problems))


def _choose(folder: Path) -> tuple[Path, int]:
    """The backup that is meant by a folder, and how many older ones are beside it: the folder itself, or the newest
    below it.
    """
    if (folder / MANIFEST).exists() or not folder.is_dir():
        return folder, 0
    below = [path for path in folder.iterdir() if not path.name.startswith(".") and (path / MANIFEST).exists()]
    if not below:
        return folder, 0
    # one that cannot be read is not passed over: it may be the newest
    return max(below, key=lambda path: (read_manifest(path).made_at, path.name)), len(below) - 1


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version.partition("+")[0])[:3]))


def _is_used(path: Path, backed_up: BackedUp | None) -> bool:
    """Whether something is there that is not what the backup has."""
    if path.is_dir():
        return any(child.name != "lock" for child in path.iterdir())
    if path.name == SECRET:
        return path.exists() and not digest_of(path).is_same(backed_up)
    return path.exists()


def _draft(path: Path) -> Path:
    return path.with_name(f".{path.name}.restoring")


def _remove(draft: Path) -> None:
    """Remove it, whatever it is; what a link leads to stays."""
    if draft.is_dir() and not draft.is_symlink():
        shutil.rmtree(draft)
    else:
        draft.unlink(missing_ok=True)


def _write(draft: Path, pieces: Iterator[bytes], expected: BackedUp) -> None:
    """Write a file, durably, and leave holes where there are zeros."""
    at = 0
    with descriptor(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL) as file:
        for piece in pieces:
            sparse.write(file, at, piece)
            at += len(piece)
        os.ftruncate(file, expected.size)
        os.fsync(file)


def _moved_aside(path: Path) -> list[Path]:
    """Give what is there another name; an own write-ahead log of a state goes with it."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    moved = []
    for file in (path, *(path.with_name(path.name + end) for end in _SQLITE_BESIDE)):
        if file.exists():
            renamed = file.with_name(f"{path.name}.before-restore-{stamp}{file.name.removeprefix(path.name)}")
            file.rename(renamed)
            moved.append(renamed)
    return moved
