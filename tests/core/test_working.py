"""Keys of working memory, and the words that a search looks at."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from memproxy.core.scope import Scope
from memproxy.core.working_memory import check_key, may_write, namespace_of, words_of

PIECES = st.text("abcXYZ019._-", min_size=1, max_size=9).filter(lambda piece: piece.strip("."))


@given(st.lists(PIECES, min_size=2, max_size=5))
def test_a_namespace_is_the_beginning_of_its_key(pieces: list[str]) -> None:
    key = check_key("/".join(pieces))
    assert key.startswith(namespace_of(key) + "/")
    assert namespace_of(key).count("/") <= 1
    assert may_write(Scope(tenant="t", user="u"), key)


@given(st.text(max_size=40))
def test_a_key_that_is_taken_is_ascii_and_climbs_nowhere(key: str) -> None:
    try:
        check_key(key)
    except ValueError:
        return
    assert key.isascii()
    assert not {"", ".", ".."} & set(key.split("/"))


DATA = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=5), inner),
)


@given(DATA)
def test_any_data_has_words_of_bounded_length(data: Any) -> None:
    assert len(words_of("a/b", None, ["t"], data)) <= 4_000
