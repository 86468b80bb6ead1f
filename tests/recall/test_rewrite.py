from memproxy.recall.rewrite import QUERY_CHARACTERS, with_context


def test_a_vague_query_takes_the_key_terms_of_the_three_messages_before_it() -> None:
    queries = ["I like tulips", "Planning Hawaii vacation", "Looking at hotels", "Four stars", "How much?"]
    assert with_context(queries) == "How much? hawaii vacation hotels four stars"


def test_a_self_contained_query_is_left_alone() -> None:
    query = "What's my budget for the Hawaii trip?"
    assert with_context(["Looking at hotels", query]) == query


def test_without_history_the_query_stands_alone() -> None:
    assert with_context(["How much?"]) == "How much?"
    assert with_context([]) == ""


def test_a_pasted_document_keeps_its_beginning_and_its_end() -> None:
    text = "What does this say about Hawaii? " + "filler " * 5000 + "And the budget?"
    query = with_context([text])
    assert query.startswith("What does this say about Hawaii?")
    assert query.endswith("And the budget?")
    assert len(query) <= QUERY_CHARACTERS + 1
