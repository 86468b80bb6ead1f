import gzip
import itertools
import random
import zlib
from collections.abc import Callable
from functools import partial
from typing import Any

import brotli
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from memproxy.wire.encoding import MOST_EXPANSION, MOST_MEMBERS, SURELY_EXPANDED, BodyDecoder
from tests.wire.strategies import splits


def raw_deflate(body: bytes) -> bytes:
    compressor = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return compressor.compress(body) + compressor.flush()


WAYS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    " GZIP ": gzip.compress,
    "deflate": zlib.compress,
    "Deflate": raw_deflate,
    "br": partial(brotli.compress, quality=5),  # by default it takes seconds for a long body
    "zstd": zstandard.compress,
    "identity": bytes,
    "": bytes,
}


PACKED = pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd"])


@given(st.binary(max_size=400), st.sampled_from(sorted(WAYS)), st.data())
def test_a_body_decodes_however_it_is_cut(body: bytes, encoding: str, data: st.DataObject) -> None:
    decoder = BodyDecoder(encoding)
    pieces = data.draw(splits(WAYS[encoding](body)))
    assert b"".join(decoder.feed(piece) for piece in pieces) == body
    assert decoder.usable


def test_no_encoding_is_identity_and_does_not_copy() -> None:
    body = b"text"
    assert BodyDecoder(None).feed(body) is body


def test_a_gzip_body_of_several_members_decodes() -> None:
    assert BodyDecoder("gzip").feed(gzip.compress(b"one ") + gzip.compress(b"two")) == b"one two"


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_padding_after_the_end_is_ignored(encoding: str) -> None:
    decoder = BodyDecoder(encoding)
    assert decoder.feed(WAYS[encoding](b"text") + b"\0" * 20) == b"text"
    assert decoder.usable


def test_gzip_that_is_called_deflate_decodes() -> None:
    assert BodyDecoder("deflate").feed(gzip.compress(b"text")) == b"text"


@pytest.mark.parametrize("encoding", ["gzip, br", "compress", "snappy"])
def test_another_encoding_is_not_supported(encoding: str) -> None:
    decoder = BodyDecoder(encoding)
    assert (decoder.supported, decoder.usable, decoder.feed(b"anything")) == (False, False, b"")


@PACKED
@given(body=st.binary(min_size=1, max_size=100), extra=st.binary(max_size=50))
def test_damaged_data_is_said_and_never_raises(encoding: str, body: bytes, extra: bytes) -> None:
    decoder = BodyDecoder(encoding)
    decoder.feed(body)
    decoder.feed(extra)


def test_data_that_is_not_compressed_is_broken() -> None:
    decoder = BodyDecoder("gzip")
    assert decoder.feed(b'{"plain": "json"}') == b""
    assert (decoder.broken, decoder.usable) == (True, False)


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd", "identity"])
def test_a_bomb_stops_at_the_limit_and_a_body_as_long_as_that_is_whole(encoding: str) -> None:
    decoder, body = BodyDecoder(encoding, limit=1000), WAYS[encoding](b"\0" * 10_000_000)
    assert decoder.feed(body) == b"\0" * 1000
    assert decoder.truncated
    assert decoder.feed(body) == b""
    decoder = BodyDecoder(encoding, limit=1000)
    assert decoder.feed(WAYS[encoding](b"x" * 1000)) == b"x" * 1000
    assert decoder.usable


class Counted:
    """Stands for zlib's decoder: counts what it is handed and hands back: the bytes that are copied."""

    def __init__(self, counts: list[int], *form: Any) -> None:
        self._counts = counts
        self._real = DECOMPRESSOBJ(*form)

    def decompress(self, data: bytes, room: int) -> bytes:
        decoded = self._real.decompress(data, room)
        self._counts.append(len(data) + len(self._real.unused_data) + len(self._real.unconsumed_tail))
        return decoded

    def __getattr__(self, name: str) -> object:
        return getattr(self._real, name)


DECOMPRESSOBJ = zlib.decompressobj


@pytest.mark.parametrize("longest", [1_000, 60_000])
def test_the_work_of_many_gzip_members_grows_as_they_do(monkeypatch: pytest.MonkeyPatch, longest: int) -> None:
    """Of incompressible members, so that each takes as many bytes as it holds."""
    counts: list[int] = []
    monkeypatch.setattr(zlib, "decompressobj", lambda *form: Counted(counts, *form))
    handled = []
    for members in (100, 200, 400, 800):
        body = gzip.compress(random.Random(1).randbytes(longest)) * members
        counts.clear()
        decoder = BodyDecoder("gzip")
        assert len(decoder.feed(body)) == longest * members
        assert decoder.usable
        handled.append(sum(counts))
    assert all(more < 2.2 * less for less, more in itertools.pairwise(handled))
    assert handled[-1] < 12 * len(body)


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_more_members_than_that_are_not_decoded(encoding: str) -> None:
    for members, usable in ((MOST_MEMBERS, True), (MOST_MEMBERS + 1, False), (100_000, False)):
        decoder = BodyDecoder(encoding)
        decoder.feed(WAYS[encoding](b"") * members)
        assert decoder.usable is usable


def test_zstd_that_asks_for_more_memory_than_http_allows_is_not_decoded() -> None:
    wide = zstandard.ZstdCompressionParameters(window_log=25)
    packed = zstandard.ZstdCompressor(compression_params=wide).compressobj()
    decoder = BodyDecoder("zstd")
    assert decoder.feed(packed.compress(b"x" * 100) + packed.flush()) == b""
    assert decoder.broken


@PACKED
def test_a_body_comes_in_parts_between_which_one_may_stop(encoding: str) -> None:
    parts = BodyDecoder(encoding).parts(WAYS[encoding](b"\0" * 50_000_000))
    assert len(next(part for part in parts if part)) <= 34_000_000


@PACKED
def test_what_was_packed_to_be_unpacked_is_not(encoding: str) -> None:
    decoder = BodyDecoder(encoding)
    body = WAYS[encoding](b"\0" * 50_000_000)
    assert len(decoder.feed(body)) == max(SURELY_EXPANDED, MOST_EXPANSION * len(body))
    assert decoder.truncated


@PACKED
def test_what_comes_piece_by_piece_is_unpacked_as_a_whole_is(encoding: str) -> None:
    text = b"".join(b"line %d of an answer\n" % number for number in range(200_000))
    body, decoder = WAYS[encoding](text), BodyDecoder(encoding)
    assert b"".join(decoder.feed(body[start : start + 1000]) for start in range(0, len(body), 1000)) == text
    assert decoder.usable
