"""Looking for a few bytes in a large body, faster than the language does it.

CPython looks for a substring at some 2 GB/s, for a single byte (by the C library's ``memchr``) thirty times as fast. So
a rare byte of what is looked for is found first, and what stands around it compared.
"""

MOST_CANDIDATES = 64
"""After this many candidates (some 5 microseconds) the byte is not rare here, and the usual search takes over."""


def contains(body: bytes, wanted: bytes, rare: bytes) -> bool:
    """The same as ``wanted in body``; ``rare`` is the byte of ``wanted`` that few bodies have many of."""
    before = wanted.index(rare)
    place = body.find(rare)
    for _ in range(MOST_CANDIDATES):
        if place < 0:
            return False
        if place >= before and body.startswith(wanted, place - before):
            return True
        place = body.find(rare, place + 1)
    return place >= 0 and body.find(wanted, max(0, place - before)) >= 0


def contains_any_case(body: bytes, wanted: bytes, rare: bytes) -> bool:
    """The same as ``wanted in body.lower()``, for a ``rare`` byte that has no case."""
    before = wanted.index(rare)
    place = body.find(rare)
    for _ in range(MOST_CANDIDATES):
        if place < 0:
            return False
        start = place - before
        if start >= 0 and body[start : start + len(wanted)].lower() == wanted:
            return True
        place = body.find(rare, place + 1)
    return place >= 0 and wanted in body[max(0, place - before) :].lower()


def escapes_small_letters(body: bytes, start: int = 0, end: int | None = None) -> bool:
    r"""Whether small letters or underscores may be written as escapes in it (``\u0063``), as no client does.

    Only then a name can be there without its own bytes.
    """
    stop = len(body) if end is None else end
    place = body.find(b"\\", start, stop)
    for _ in range(MOST_CANDIDATES):
        if place < 0:
            return False
        if body.startswith(_ESCAPED, place, stop):
            return True
        place = body.find(b"\\", place + 2, stop)
    place = body.find(_ANY_ESCAPED, place, stop) if place >= 0 else place
    return place >= 0 and any(body.find(escaped, place, stop) >= 0 for escaped in _ESCAPED)


_ANY_ESCAPED = b"\\u00"
_ESCAPED = (b"\\u005", b"\\u006", b"\\u007")
