import pytest
from hypothesis import given
from hypothesis import strategies as st

from memproxy.core.text import (
    MAX_PARTS,
    PART_TOKENS,
    embedder_tokens,
    estimate,
    key_terms,
    sentences,
    spaced,
    split_parts,
    words,
)

ANYTHING = st.text(st.characters(codec=None), max_size=300)


def test_key_terms_are_the_words_that_carry_the_topic() -> None:
    assert key_terms("What's my budget for the Hawaii trip?") == ["budget", "hawaii", "trip"]
    assert key_terms("Planning Hawaii vacation") == ["hawaii", "vacation"]
    assert key_terms("How much?") == []


def test_key_terms_come_once_and_in_order() -> None:
    assert key_terms("hotel, beach, hotel and Beach") == ["hotel", "beach"]


def test_an_unspaced_script_is_searched_by_characters_and_pairs() -> None:
    assert spaced("我的狗").split() == ["我", "的", "狗", "我的", "的狗"]
    assert spaced("my 狗!").split() == ["my", "狗", "!"]


def test_thousands_separators_do_not_split_a_number() -> None:
    assert spaced("$10,000 in 2,5") == "$10000 in 2,5"


def test_a_short_text_is_one_part() -> None:
    assert split_parts("I have a dog.") == ["I have a dog."]
    assert split_parts("") == [""]


@pytest.mark.parametrize(
    "unit", ["A sentence of some seven words. ", "word ", "狗", "x", "a\n", "é", "🐕 ", "no-break "]
)
def test_a_long_text_is_cut_into_parts_the_embedder_can_read(unit: str) -> None:
    parts = split_parts(unit * 2000)
    assert 1 <= len(parts) <= MAX_PARTS
    assert all(embedder_tokens(part) <= PART_TOKENS + 5 for part in parts)
    assert all(part.strip() for part in parts)


def test_parts_end_where_sentences_end() -> None:
    parts = split_parts("The quick brown fox jumps over the lazy dog. " * 40)
    assert len(parts) > 1
    assert all(part.endswith("dog.") for part in parts)


@pytest.mark.parametrize(
    "text", ["أين سيارتي؟ هي في المرآب.", "मैं दिल्ली में रहता हूँ। मुझे चाय पसंद है।", "میں لاہور میں ہوں۔ آپ کہاں ہیں؟"]
)
def test_sentences_of_other_scripts_end_at_their_own_marks(text: str) -> None:
    assert len(sentences(text)) == 2


def test_an_abbreviation_ends_no_sentence() -> None:
    assert sentences("My doctor is Dr. Brown. She works in St. Gallen, e.g. on Mondays.") == [
        "My doctor is Dr. Brown.",
        "She works in St. Gallen, e.g. on Mondays.",
    ]
    assert sentences("I burnt a CDr. Then?") == ["I burnt a CDr.", "Then?"]


def test_nothing_is_lost_between_the_parts() -> None:
    text = " ".join(f"word{number}" for number in range(2000))
    assert " ".join(split_parts(text, max_parts=1000)).split() == text.split()


@given(ANYTHING)
def test_any_text_can_be_taken_apart(text: str) -> None:
    assert split_parts(text, max_tokens=20)
    assert all(isinstance(word, str) for word in words(text))
    assert len(key_terms(text)) <= 12
    spaced(text).encode("utf-8")


@given(ANYTHING)
def test_every_text_has_a_number_of_tokens(text: str) -> None:
    assert estimate(text) >= (1 if text.strip() else 0)


@given(ANYTHING, ANYTHING)
def test_more_text_never_has_fewer_tokens(first: str, second: str) -> None:
    assert estimate(f"{first} {second}") >= estimate(first) - 1


def test_the_estimate_is_near_what_is_known_of_o200k() -> None:
    # Counted with o200k_base: 10, 25, and about one per character.
    assert 9 <= estimate("The quick brown fox jumps over the lazy dog.") <= 13
    assert 8 <= estimate("我有一只狗，名叫小白。") <= 14
