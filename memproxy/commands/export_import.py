"""``memproxy export`` and ``import``: taking memories along.

Both go through the memory API a piece at a time, so that no size of file needs more memory, and an import that was
broken off is gone on with by running it again (what is there already changes nothing).
"""

import asyncio
import gc
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal

import msgspec
import typer

from memproxy.commands.installation import installation, without_learning
from memproxy.commands.options import (
    Config,
    Json,
    Show,
    Tenant,
    User,
    named,
    progress,
    quiet_settings,
    show,
    tell_of_tenants,
    whose,
)
from memproxy.core.transfer_lines import FORMAT, MEDIA_TYPE, line
from memproxy.errors import ConfigError
from memproxy.importers import IMPORTERS
from memproxy.settings import Settings

app = typer.Typer()

Format = Literal["memproxy", "mem0", "chatgpt", "zep"]

EXPORT_LIMIT = 200
PIECE_BYTES = 16 * 1024 * 1024
PIECE_LINES = 8_000
OBJECTS = 50_000
"""New objects after which Python collects garbage during an import."""

MOST_SHOWN = 20
"""Wrong lines that are shown one by one."""


@app.command("export")
def export_command(
    user: User,
    tenant: Tenant = None,
    config: Config = None,
    *,
    vectors: Annotated[
        bool, typer.Option("--vectors", help="With the vectors: a larger file, nothing to embed when it is imported.")
    ] = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print the count on standard error as one line of JSON.")
    ] = False,
) -> None:
    """Write everything of a user to standard output as JSON Lines: memories with their history, turns, places. Where
    nothing is found it says so and ends with 1.
    """
    settings = quiet_settings(config)
    with progress("exporting") as shows:
        out = typer.get_binary_stream("stdout")
        done = asyncio.run(export(settings, out, shows, tenant=tenant, user=user, vectors=vectors))
    show({"memories": done}, [f"{done} memories of user {user!r} of {whose(tenant)}."], as_json=json, err=True)
    if done:
        return
    tell_of_tenants(tenant)
    raise typer.Exit(1)


@app.command("import")
def import_command(
    file: Annotated[Path, typer.Argument(help="The file.", metavar="FILE")],
    file_format: Annotated[Format, typer.Option("--format", help="Whose export it is.")] = "memproxy",
    user: Annotated[str | None, named("--user", "Whose all of it becomes; by default as the file says.", "U")] = None,
    tenant: Tenant = None,
    config: Config = None,
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check and count; write nothing.")] = False,
    json: Json = False,
) -> None:
    """Take over an export of memproxy or of another product, with its times. The same file twice changes nothing, so
    that a broken off import goes on when it is run again.
    """
    settings = quiet_settings(config)
    with progress("importing") as shows:
        result = asyncio.run(
            import_file(settings, file, shows, file_format=file_format, tenant=tenant, user=user, dry_run=dry_run)
        )
    unit = "line" if file_format == FORMAT else "entry"
    for number, message in result.errors:
        typer.echo(f"{file}, {unit} {number}: {message}", err=True)
    for note in result.notes:
        typer.echo(note, err=True)
    would = "would be " if dry_run else ""
    rest = f"{result.turns} messages; {result.rejected} rejected."
    lines = [
        f"{result.imported} memories {would}imported, {result.replaced} replaced, {result.unchanged} unchanged; {rest}"
    ]
    if result.queued:
        lines.append("The store is away: some of it waits in the journal and is written when the store answers.")
    show(result, lines, as_json=json)
    if result.rejected:
        raise typer.Exit(1)


class ImportResult(msgspec.Struct, kw_only=True):
    """What became of a file: counts of memories and of messages, wrong lines, and whether some of it only waits in the
    journal (the store is away).
    """

    imported: int = 0
    replaced: int = 0
    unchanged: int = 0
    turns: int = 0
    rejected: int = 0
    errors: list[tuple[int, str]] = []
    notes: list[str] = []
    queued: bool = False

    def add(self, answer: dict[str, Any], numbers: list[int], *, queued: bool) -> None:
        """Add the API's answer to a piece; ``numbers`` are its lines' numbers in the file."""
        for name in ("imported", "replaced", "unchanged", "turns", "rejected"):
            setattr(self, name, getattr(self, name) + answer[name])
        wrong = [(numbers[error["line"] - 1], error["message"]) for error in answer["errors"]]
        # the header goes with every piece, and is one line
        new = [error for error in wrong if error not in self.errors]
        self.rejected -= len(wrong) - len(new)
        self.errors += new[: MOST_SHOWN - len(self.errors)]
        self.notes += [note for note in answer["notes"] if note not in self.notes]
        self.queued = self.queued or queued


async def export(settings: Settings, out: BinaryIO, show: Show, *, tenant: str | None, user: str, vectors: bool) -> int:
    """Write everything of a user to ``out`` as JSON Lines; how many memories that were."""
    done, cursor = 0, None
    async with installation(without_learning(settings)) as running:
        while True:
            query: dict[str, Any] = {"limit": EXPORT_LIMIT, "vectors": str(vectors).lower()}
            query |= {"cursor": cursor} if cursor else {}
            piece = await running.answer("GET", "/v1/memory/export", tenant=tenant, user=user, params=query)
            out.write(piece.content)
            done += piece.content.count(b'{"memory":')
            show(done, int(piece.headers["x-memproxy-total"]))
            if (cursor := piece.headers.get("x-memproxy-next-cursor")) is None:
                return done


async def import_file(
    settings: Settings,
    path: Path,
    show: Show,
    *,
    file_format: Format,
    tenant: str | None,
    user: str | None,
    dry_run: bool,
) -> ImportResult:
    """Take over a file of ours or of another product. ``user``: whose all of it becomes.

    Raises:
        ConfigError: the file cannot be read, or is not of that format.
        MemproxyError: it could not be done; the message says why.
    """
    query = {"dry_run": str(dry_run).lower()} | ({"user_id": user} if user is not None else {})
    result, headers = ImportResult(), {"content-type": MEDIA_TYPE}
    async with installation(without_learning(settings)) as running:
        with _readable(path):
            size = (await asyncio.to_thread(path.stat)).st_size
        with _rare_garbage_collection():
            for piece, numbers, at in _pieces(_lines(path, file_format)):
                answer = await running.answer(
                    "POST", "/v1/memory/import", tenant=tenant, params=query, content=piece, headers=headers
                )
                result.add(answer.json(), numbers, queued=answer.status_code == 202)
                show(min(at, size), size)
                gc.collect()  # few objects, but a piece's bytes may hang on them
    return result


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.") from error


@contextmanager
def _rare_garbage_collection() -> Iterator[None]:
    """Collect garbage less often within it: a memory is many objects that go by themselves, and looking through them
    took about a tenth of an import.
    """
    usual = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(OBJECTS, *usual[1:])
    try:
        yield
    finally:
        gc.set_threshold(*usual)
        gc.unfreeze()


_Line = tuple[bytes, int]
"""A line, and how many bytes of the file were read with it."""


def _lines(path: Path, file_format: Format) -> Iterator[_Line]:
    """The lines of a file in our own form. How far a converted one is cannot be told."""
    at = 0
    if file_format != FORMAT:
        for value in IMPORTERS[file_format](path):
            raw = line(value)
            at += len(raw)
            yield raw, at
        return
    with _readable(path), path.open("rb") as file:
        for number, raw in enumerate(file):
            if number == 0 and not _is_ours(raw):
                raise ConfigError(
                    f"{path} is no export of memproxy. For another product's, say --format {' or '.join(IMPORTERS)}."
                )
            at += len(raw)
            yield raw if raw.endswith(b"\n") else raw + b"\n", at
    if not at:
        raise ConfigError(f"{path} is empty: an export has a line at least. Export again, or name another file.")


def _is_ours(raw: bytes) -> bool:
    try:
        value = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return isinstance(value, dict) and bool({"format", "memory", "place", "turns"} & value.keys())


def _pieces(lines: Iterable[_Line]) -> Iterator[tuple[bytes, list[int], int]]:
    """Pieces of a file with the numbers of their lines; a header goes before every piece."""
    header, header_numbers, piece, numbers, size, at = b"", list[int](), [], [], 0, 0
    for number, (raw, at) in enumerate(lines, start=1):
        if raw.startswith(b'{"format"'):
            header, header_numbers = raw, [number]
            continue
        piece.append(raw)
        numbers.append(number)
        size += len(raw)
        if size >= PIECE_BYTES or len(piece) >= PIECE_LINES:
            whole, piece_numbers = b"".join([header, *piece]), header_numbers + numbers
            piece, numbers, size = [], [], 0  # before it is taken: it is there once
            yield whole, piece_numbers, at
    if piece or header:
        yield b"".join([header, *piece]), header_numbers + numbers, at
