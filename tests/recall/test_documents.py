from memproxy.models.lexical import Bm25Encoder
from memproxy.recall.documents import bm25_text, dense_text
from tests.recall.making import fact, turn


def weight(text: str, word: str) -> float:
    encoder = Bm25Encoder()
    vector = encoder.encode_document(text)
    (index,) = encoder.encode_query(word).indices
    return dict(zip(vector.indices, vector.values, strict=True)).get(index, 0.0)


def test_the_speakers_name_is_part_of_a_named_turn() -> None:
    assert dense_text(turn("I bought a car", metadata={"name": "Dave"})) == "Dave: I bought a car"
    assert dense_text(turn("I bought a car")) == "I bought a car"
    assert dense_text(fact("User bought a car", metadata={"name": "Dave"})) == "I bought a car"


def test_a_turn_is_found_by_its_neighbours_words_but_more_by_its_own() -> None:
    text = bm25_text(
        turn("a golden retriever"), turn("We adopted a dog of a rare breed."), turn("We met him in Lisbon.")
    )
    assert weight(text, "retriever") > weight(text, "breed") > 0
    assert weight(text, "Lisbon") > 0


def test_a_bare_question_lends_its_neighbours_no_words() -> None:
    asked, told = turn("What is the name of my dog?"), turn("My dog is called Biscuit.")
    assert bm25_text(turn("a golden retriever"), asked, None) == bm25_text(turn("a golden retriever"), None, None)
    assert "Biscuit" in bm25_text(turn("a golden retriever"), told, None)


def test_tags_entities_category_and_date_are_searched() -> None:
    memory = turn("we went", tags=["holiday"], entities=["Maui"], category="user-preferences/travel")
    text = bm25_text(memory, None, None)
    assert all(weight(text, word) for word in ("holiday", "Maui", "travel", "November", "2026"))


def test_the_day_a_fact_was_learned_is_not_searched() -> None:
    assert bm25_text(fact("User moved"), None, None) == "User moved"
