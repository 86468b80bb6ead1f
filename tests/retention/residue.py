"""Looks for text in files, in every form in which it might have been written."""

import base64
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

_ZEROS = re.compile(rb"\0{64,}")
PIECE = 12
"""Characters of a piece: shorter ones come about by chance."""


def pieces(text: str) -> set[str]:
    """The text cut into pieces that overlap by half, so that a part of it is found too."""
    if len(text) <= PIECE:
        return {text}
    starts = range(0, len(text) - PIECE + 1, PIECE // 2)
    return {text[start : start + PIECE] for start in (*starts, len(text) - PIECE)}


def forms(text: str) -> Iterator[tuple[str, bytes]]:
    """How a piece may be written."""
    for name, cased in (("as said", text), ("in lower case", text.lower()), ("in upper case", text.upper())):
        yield f"{name}, utf-8", cased.encode()
        yield f"{name}, utf-16", cased.encode("utf-16-le")
        yield f"{name}, utf-32", cased.encode("utf-32-le")
        yield f"{name}, JSON-escaped", json.dumps(cased)[1:-1].encode()
    yield "in a slug", text.lower().replace(" ", "-").encode()
    for shift in range(3):
        encoded = base64.b64encode(b"\0" * shift + text.encode())
        yield f"in base64 at {shift}", encoded[4:-4]


def files_below(*folders: Path) -> Iterator[Path]:
    """Every file, whatever it is called."""
    for folder in folders:
        yield from (path for path in [folder, *sorted(folder.rglob("*"))] if path.is_file())


def residue(texts: Iterable[str], *folders: Path, ignored: frozenset[str] = frozenset()) -> list[str]:
    """Where something of these texts is: one line for each find. ``ignored`` are names of files of the test's own."""
    wanted = {
        (form, data): piece
        for text in texts
        for piece in pieces(text)
        for form, data in forms(piece)
        if len(data) >= min(PIECE, len(piece)) // 2
    }
    found = []
    for path in files_below(*folders):
        if path.name in ignored:
            continue
        content = _ZEROS.sub(b"\0" * 8, path.read_bytes())  # files of the store are mostly holes
        found += [f"{path.name}: {piece!r} {form}" for (form, data), piece in wanted.items() if data in content]
    return found
