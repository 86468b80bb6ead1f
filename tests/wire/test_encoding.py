import gzip
import zlib
from collections.abc import Callable

import brotli
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from memproxy.wire.encoding import BodyDecoder
from tests.wire.strategies import splits


def raw_deflate(body: bytes) -> bytes:
    compressor = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return compressor.compress(body) + compressor.flush()


WAYS: dict[bytes, Callable[[bytes], bytes]] = {
    b"gzip": gzip.compress,
    b"x-gzip": gzip.compress,
    b" GZIP ": gzip.compress,
    b"deflate": zlib.compress,
    b"Deflate": raw_deflate,
    b"br": brotli.compress,
    b"zstd": zstandard.compress,
    b"identity": bytes,
    b"": bytes,
}


@given(st.binary(max_size=400), st.sampled_from(sorted(WAYS)), st.data())
def test_a_body_decodes_however_it_is_cut(body: bytes, encoding: bytes, data: st.DataObject) -> None:
    decoder = BodyDecoder(encoding)
    pieces = data.draw(splits(WAYS[encoding](body)))
    assert b"".join(decoder.feed(piece) for piece in pieces) == body
    assert decoder.usable


def test_no_encoding_is_identity_and_does_not_copy() -> None:
    body = b"text"
    assert BodyDecoder(None).feed(body) is body


def test_a_gzip_body_of_several_members_decodes() -> None:
    assert BodyDecoder(b"gzip").feed(gzip.compress(b"one ") + gzip.compress(b"two")) == b"one two"


@pytest.mark.parametrize("encoding", [b"gzip", b"deflate"])
def test_padding_after_the_end_is_ignored(encoding: bytes) -> None:
    decoder = BodyDecoder(encoding)
    assert decoder.feed(WAYS[encoding](b"text") + b"\0" * 20) == b"text"
    assert decoder.usable


def test_gzip_that_is_called_deflate_decodes() -> None:
    assert BodyDecoder(b"deflate").feed(gzip.compress(b"text")) == b"text"


@pytest.mark.parametrize("encoding", [b"gzip, br", b"compress", b"snappy"])
def test_another_encoding_is_not_supported(encoding: bytes) -> None:
    decoder = BodyDecoder(encoding)
    assert (decoder.supported, decoder.usable, decoder.feed(b"anything")) == (False, False, b"")


@pytest.mark.parametrize("encoding", [b"gzip", b"deflate", b"br", b"zstd"])
@given(body=st.binary(min_size=1, max_size=100), extra=st.binary(max_size=50))
def test_damaged_data_is_said_and_never_raises(encoding: bytes, body: bytes, extra: bytes) -> None:
    decoder = BodyDecoder(encoding)
    decoder.feed(body)
    decoder.feed(extra)


def test_data_that_is_not_compressed_is_broken() -> None:
    decoder = BodyDecoder(b"gzip")
    assert decoder.feed(b'{"plain": "json"}') == b""
    assert (decoder.broken, decoder.usable) == (True, False)


@pytest.mark.parametrize("encoding", [b"gzip", b"deflate", b"br", b"zstd", b"identity"])
def test_a_bomb_stops_at_the_limit(encoding: bytes) -> None:
    decoder = BodyDecoder(encoding, limit=1000)
    body = WAYS[encoding](b"\0" * 10_000_000)
    assert decoder.feed(body) == b"\0" * 1000
    assert decoder.truncated
    assert decoder.feed(body) == b""


@pytest.mark.parametrize("encoding", [b"gzip", b"deflate", b"br", b"zstd", b"identity"])
def test_a_body_as_long_as_the_limit_is_whole(encoding: bytes) -> None:
    decoder = BodyDecoder(encoding, limit=1000)
    assert decoder.feed(WAYS[encoding](b"x" * 1000)) == b"x" * 1000
    assert decoder.usable
