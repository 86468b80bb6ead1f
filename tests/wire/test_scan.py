"""Looking for a few bytes in a large body says the same as the language's own search, however rare the byte is."""

from hypothesis import given
from hypothesis import strategies as st

from memproxy.wire.splice import MOST_CANDIDATES, contains, contains_any_case, escapes_small_letters

_BODIES = st.lists(
    st.sampled_from(
        [b"memory_con", b"memory", b"_con", b"_", b"<", b"<Recalled-Memory", b"<recalled", b"\\", b"\\\\", b"a"]
    )
    | st.sampled_from([b"_" * MOST_CANDIDATES, b"<" * MOST_CANDIDATES, b"\\n" * MOST_CANDIDATES]),
    max_size=12,
).map(b"".join)


@given(_BODIES)
def test_it_finds_what_the_language_finds(body: bytes) -> None:
    assert contains(body, b"memory_con", b"_") == (b"memory_con" in body)
    assert contains_any_case(body, b"<recalled-memory", b"<") == (b"<recalled-memory" in body.lower())


@given(_BODIES, st.sampled_from([b"\\u0063", b"\\u005f", b"\\u007A"]), _BODIES)
def test_an_escaped_letter_is_seen_wherever_it_stands(before: bytes, escaped: bytes, after: bytes) -> None:
    before = before.replace(b"\\", b"")  # so that the escape's own backslash is not escaped itself
    assert escapes_small_letters(before + b"\\n" * 100 + escaped + after)
    assert escapes_small_letters(before + escaped + after)
    assert not escapes_small_letters(before + b"\\n" * 100 + b"\\u00e9" * 100)


def test_an_escaped_backslash_before_a_u_is_no_escape() -> None:
    assert not escapes_small_letters(b'{"a": "\\\\u0063"}')
    assert escapes_small_letters(b'{"a": "\\\\\\u0063"}')
