import math
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memproxy.core.vectors import MOST_TOKENS, Vectors, checked, length_of, mutual, pack, packed, similarities, unpacked

WIDTHS = st.sampled_from([8, 24, 61, 384])


def units(rows: int, numbers: int, seed: int) -> Vectors:
    made = np.random.default_rng(seed).normal(size=(rows, numbers)).astype(np.float32)
    found: Vectors = made / np.linalg.norm(made, axis=1, keepdims=True)
    return found


def signs(vectors: Vectors) -> Vectors:
    """What is left of vectors when they are packed, at length 1."""
    found: Vectors = np.where(vectors > 0, 1.0, -1.0).astype(np.float32) / np.sqrt(vectors.shape[1], dtype=np.float32)
    return found


@given(st.lists(st.integers(0, 12), max_size=8), st.integers(1, 9), WIDTHS, st.integers(0, 2**32 - 1))
def test_each_token_of_the_question_is_compared_with_the_nearest_of_each_text(
    lengths: list[int], asked: int, numbers: int, seed: int
) -> None:
    texts = [units(length, numbers, seed + place) for place, length in enumerate(lengths)]
    question = units(asked, numbers, seed + 99)
    found = similarities(question, [pack(text) for text in texts])
    assert found.shape == (len(texts), asked)
    for row, text in zip(found, texts, strict=True):
        if len(text):
            np.testing.assert_allclose(row, (signs(text) @ question.T).max(axis=0), atol=1e-5)
        else:
            assert np.isnan(row).all()


def test_a_token_is_nearest_to_itself() -> None:
    texts = [units(30, 384, seed) for seed in range(20)]
    question = texts[7][3:9]
    assert (similarities(question, [pack(text) for text in texts]).argmax(axis=0) == 7).all()


def test_tokens_of_another_model_or_format_are_not_compared() -> None:
    question = units(3, 384, 1)
    other = [pack(units(2, 256, 2)), b"\x09" + pack(units(2, 384, 2))[1:], pack(units(2, 384, 2))[:-1], b"", b"\x01"]
    assert np.isnan(similarities(question, other)).all()
    assert np.isfinite(similarities(question, [*other, pack(units(2, 384, 2))])[-1]).all()


def test_a_question_without_tokens_has_no_columns() -> None:
    assert similarities(np.zeros((0, 384), np.float32), [pack(units(2, 384, 2))]).shape == (1, 0)


def test_many_texts_are_compared_as_few_are() -> None:
    texts = [pack(units(MOST_TOKENS, 384, seed)) for seed in range(6)]
    question = units(4, 384, 77)
    apart = np.concatenate([similarities(question, [text]) for text in texts])
    np.testing.assert_allclose(similarities(question, texts), apart, atol=1e-6)


def test_a_token_takes_a_bit_for_each_number_and_a_text_is_cut_at_the_most_tokens() -> None:
    assert len(pack(units(10, 384, 0))) == 3 + 10 * 48
    assert len(pack(units(MOST_TOKENS + 88, 384, 0))) == 3 + MOST_TOKENS * 48
    assert pack(np.zeros((0, 384), np.float32)) == b""


def test_of_a_text_that_was_packed_longer_the_first_tokens_are_compared() -> None:
    """As texts were until the most was 128."""
    first, rest = units(MOST_TOKENS, 384, 1), units(40, 384, 2)
    longer = pack(first) + pack(rest)[3:]
    assert len(longer) == 3 + (MOST_TOKENS + 40) * 48
    np.testing.assert_allclose(similarities(rest, [longer]), similarities(rest, [pack(first)]))


def test_what_is_no_table_of_vectors_is_refused() -> None:
    with pytest.raises(ValueError, match=r"shape \(384,\)"):
        pack(np.zeros(384, np.float32))


def test_a_stored_text_stays_readable() -> None:
    """The bytes of format 1, written down when it was made."""
    text = np.array([[0.5, -0.5, 0.5, -0.5, 0.5, 0.5, -0.5, -0.5], [-1, -1, -1, -1, -1, -1, -1, 1]], np.float32)
    assert pack(text) == bytes([1, 8, 0, 0b10101100, 0b00000001])
    found = similarities(np.full((1, 8), 8**-0.5, np.float32), [bytes([1, 8, 0, 0b11101100, 0b00000001])])
    np.testing.assert_allclose(found, [[2 / 8]], atol=1e-6)


@given(st.lists(st.integers(0, 12), max_size=6), st.integers(0, 9), WIDTHS, st.integers(0, 2**32 - 1))
def test_how_near_texts_come_to_each_other_leaves_out_the_marks_at_their_ends(
    lengths: list[int], length: int, numbers: int, seed: int
) -> None:
    text = units(length, numbers, seed)
    others = [units(count, numbers, seed + 1 + place) for place, count in enumerate(lengths)]
    towards, back = mutual(pack(text), [pack(other) for other in others])
    inner = signs(text)[1:-1]
    for place, other in enumerate(others):
        if len(inner) and len(other):
            near = signs(other) @ inner.T
            assert towards[place] == pytest.approx(near.max(axis=0).mean(), abs=1e-5)
            expected = near[1:-1].max(axis=1).mean() if len(other) > 2 else 0.0
            assert back[place] == pytest.approx(expected, abs=1e-5)
        else:
            assert towards[place] == back[place] == 0


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
