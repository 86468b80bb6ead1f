import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memproxy.models.lexical import Bm25Encoder

ENCODER = Bm25Encoder()


def terms(text: str) -> set[int]:
    return set(ENCODER.encode_query(text).indices)


def test_forms_of_a_word_are_one_term() -> None:
    assert terms("budgets") == terms("Budget")
    assert terms("café") == terms("cafe")
    assert terms("10,000") == terms("10000")


def test_stopwords_are_no_terms() -> None:
    assert ENCODER.encode_query("what is the").indices == []


def test_every_query_term_weighs_one_and_comes_once() -> None:
    query = ENCODER.encode_query("dog dog cat")
    assert query.values == [1.0, 1.0]
    assert len(set(query.indices)) == 2


def test_a_word_said_more_often_weighs_more_but_less_and_less() -> None:
    weights = [ENCODER.encode_document("dog " * count + "cat " * (10 - count)).values for count in (1, 2, 3)]
    once, twice, thrice = (max(values) if index else min(values) for index, values in enumerate(weights))
    assert once < twice
    assert thrice > 0


def test_a_word_weighs_less_in_a_longer_text() -> None:
    (index,) = terms("biscuit")
    short, long = (
        dict(zip(vector.indices, vector.values, strict=True))[index]
        for vector in (ENCODER.encode_document("biscuit"), ENCODER.encode_document("biscuit " + "filler words " * 100))
    )
    assert short > long


@pytest.mark.parametrize(
    ("document", "query"),
    [
        ("我的狗叫小白", "狗"),
        ("私の犬は白い", "犬"),
        ("หมาของฉันชื่อบิสกิต", "หมา"),
        ("mein Hund heißt Rex", "Hund"),
        ("I love 寿司!", "寿司"),
    ],
)
def test_unspaced_and_mixed_scripts_are_found(document: str, query: str) -> None:
    found = set(ENCODER.encode_document(document).indices)
    assert len(terms(query) & found) == len(terms(query)) > 0


def test_indices_are_the_same_in_every_process() -> None:
    query = "B().encode_query('Hawaii budget 狗').indices"
    code = f"from memproxy.models.lexical import Bm25Encoder as B; print(sorted({query}))"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert told.strip() == str(sorted(terms("Hawaii budget 狗")))


@given(st.text(st.characters(codec=None), max_size=300))
def test_any_text_is_encoded(text: str) -> None:
    for vector in (ENCODER.encode_document(text), ENCODER.encode_query(text)):
        assert len(vector.indices) == len(vector.values)
        assert all(value > 0 for value in vector.values)


def test_a_huge_text_is_encoded() -> None:
    assert ENCODER.encode_document("dog 狗 \ud800 " * 100_000).indices
