"""Searches by words alone find what was told in other words than it is asked for."""

from memproxy.models.lexical import Bm25Encoder
from memproxy.recall.other_words import ALIKE_WEIGHT, MOST_TERMS, OtherWords
from tests.recall.making import Bench, asking, turn

LEXICAL = Bm25Encoder()
WORDING = OtherWords(LEXICAL)


def weight(query: str, word: str) -> float:
    """What a word counts in a search for the query."""
    made = WORDING.encoded(query)
    (term,) = LEXICAL.encode_query(word).indices
    return dict(zip(made.indices, made.values, strict=True)).get(term, 0.0)


def test_irregular_forms_count_as_the_word_itself_and_words_of_like_meaning_for_a_part() -> None:
    assert weight("Who bought it?", "bought") == weight("Who bought it?", "buy") == 1.0
    assert weight("Who bought it?", "purchased") == weight("Do my pets sleep?", "puppies") == ALIKE_WEIGHT
    assert weight("Which wife?", "women") == 0.0


def test_a_word_that_is_in_the_query_counts_in_full_whatever_else_it_is_like() -> None:
    assert weight("Did the dog see the puppy?", "puppy") == 1.0


def test_a_long_query_is_searched_by_its_own_words() -> None:
    pasted = " ".join(f"bought{place}" for place in range(MOST_TERMS)) + " bought"
    assert weight(pasted, "bought") == 1.0
    assert weight(pasted, "buy") == 0.0


async def test_without_a_model_a_message_is_found_that_has_none_of_the_querys_words(it: Bench) -> None:
    for one in (turn("we bought an automobile", id="told"), turn("nothing new under the sun", id="other")):
        await it.put(one)
    answer = await it.recall.recall(asking("Which car did they purchase?"))
    assert [one["memory_id"] for one in answer.candidates] == ["told"]
