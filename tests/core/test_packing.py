import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memproxy.core.vectors import checked, length_of, packed, unpacked

FLOATS = st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), max_size=50)


@given(FLOATS)
def test_a_packed_vector_reads_back_bit_for_bit_and_tells_its_length(vector: list[float]) -> None:
    raw = packed(vector)
    assert struct.pack(f"<{len(vector)}f", *unpacked(raw)) == struct.pack(f"<{len(vector)}f", *vector)
    assert length_of(raw) == len(vector)


SIGNALLING = b"\x00\x00\x81\x7f" * 6
"""A NaN that raises the processor's flag when it is made a 64-bit number."""


@pytest.mark.parametrize("raw", [b"abc", struct.pack("<f", math.nan), struct.pack("<f", math.inf), SIGNALLING])
def test_what_is_no_finite_floats_is_refused(raw: bytes) -> None:
    with pytest.raises(ValueError, match="must hold"):
        checked(raw)


@given(st.binary(max_size=30))
def test_any_bytes_are_read_or_refused(raw: bytes) -> None:
    try:
        numbers = checked(raw)
    except ValueError:
        return
    assert all(map(math.isfinite, numbers))
    assert numbers.tolist() == unpacked(raw)
