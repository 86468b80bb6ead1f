import pytest
from hypothesis import given
from hypothesis import strategies as st

from memproxy.models.lexical import Bm25Encoder
from memproxy.recall.query import Query
from memproxy.recall.reading import Reader
from tests.recall.making import NOW, turn

LEXICAL = Bm25Encoder()


def found(query: str, text: str) -> frozenset[int]:
    reader = Reader(LEXICAL)
    terms = sorted(reader.terms(query))
    held = reader.held_terms(query, terms, [reader.read(turn(text))])
    return frozenset(term for term, (has,) in zip(terms, held.tolist(), strict=True) if has)


def in_common(query: str, text: str) -> frozenset[int]:
    """What the encoder itself says."""
    return frozenset(LEXICAL.encode_query(query).indices) & frozenset(LEXICAL.encode_document(text).indices)


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("Which cities did I run in?", "Running through the city of Rome"),
        ("my café", "the cafe at the corner"),
        ("the cafe", "mein Café an der Ecke"),
        ("a budget of 10000", "It was $10,000, all in all"),
        ("我的狗", "我有一只狗"),
        ("What's Anna's “dog” called?", "Anna’s dog — Biscuit"),
        ("payment-service", "helm upgrade payment.service"),
        ("studies", "I study law"),
    ],
)
def test_a_text_has_the_terms_that_the_encoder_finds_in_it(query: str, text: str) -> None:
    assert found(query, text) == in_common(query, text) != frozenset()


WORDS = st.lists(st.sampled_from("run runs running city cities sky skis bees bee 10 100 I'm a, b. die".split()))  # noqa: SIM905


@given(WORDS.map(" ".join), WORDS.map(" ".join))
def test_any_words_are_found_as_the_encoder_finds_them(query: str, text: str) -> None:
    assert found(query, text) == in_common(query, text)


def test_a_pasted_query_is_found_too() -> None:
    words = " ".join(f"{letter}{other}word" for letter in "abcdefgh" for other in "abcdefgh")
    assert len(found(words, words[:300])) > 30


def pairs(query: str) -> list[bytes]:
    return Query(query, NOW).word_pairs


def test_a_phrase_has_a_word_with_a_topic() -> None:
    assert pairs("What is my support group's name?") == [b" my support ", b" support group ", b" group s "]
    assert pairs("") == pairs("Any tips?") == []
