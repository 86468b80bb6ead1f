import pytest

from memproxy.errors import ModelUnreadable
from memproxy.recall.rewrite import MOST_CHARACTERS, QUERY_CHARACTERS, Rewriter, leans_on_context, usable, with_context


def test_a_vague_query_alone_takes_the_key_terms_of_the_three_messages_before_it() -> None:
    before = ["I like tulips", "Planning Hawaii vacation", "Looking at hotels", "Four stars"]
    assert with_context([*before, "How much?"]) == "How much? hawaii vacation hotels four stars"
    by_itself = "What's my budget for the Hawaii trip?"
    assert with_context(["Looking at hotels", by_itself]) == by_itself
    assert with_context(["How much?"]) == "How much?"
    assert with_context([]) == ""


def test_a_pasted_document_keeps_its_beginning_and_its_end() -> None:
    text = "What does this say about Hawaii? " + "filler " * 5000 + "And the budget?"
    query = with_context([text])
    assert query.startswith("What does this say about Hawaii?")
    assert query.endswith("And the budget?")
    assert len(query) <= QUERY_CHARACTERS + 1


SAID = ["Planning our Hawaii vacation", "How much?"]


@pytest.mark.parametrize(
    "answer",
    [
        "What is the budget for the Hawaii vacation?",
        '  "What is the budget for the Hawaii vacation?"\n',
        "Query: What is the budget for the Hawaii vacation?",
        "```\nWhat is the budget for the Hawaii vacation?\n```",
    ],
)
def test_a_models_line_is_used_without_what_stands_around_it(answer: str) -> None:
    assert usable(answer, SAID) == "What is the budget for the Hawaii vacation?"


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "   \n",
        "I'm sorry, I can't help with that.",
        "What is Hawaii?\nAnd what is the budget?",
        "Hawaii " * MOST_CHARACTERS,
        "\x00\x1b",
        '{"query": null}',
        "the of and",
    ],
)
def test_what_is_no_line_of_the_messages_words_is_not_searched_for(answer: str) -> None:
    with pytest.raises(ModelUnreadable):
        usable(answer, SAID)


def test_scripts_without_spaces_are_recognised_too() -> None:
    assert usable("夏威夷旅行的预算是多少?", ["我们计划去夏威夷旅行", "多少钱?"])


@pytest.mark.parametrize(
    ("queries", "leans"),
    [(SAID, True), (["How much?"], False), ([*SAID, "What is my budget for the Hawaii trip?"], False), ([], False)],
)
def test_a_model_is_asked_only_where_there_is_something_to_complete(queries: list[str], leans: bool) -> None:
    assert leans_on_context(queries) is leans


class Recording:
    """A role that records what it was asked."""

    def __init__(self) -> None:
        self.asked = ""

    async def ask(self, tenant: str, *, system: str, user: str, json_mode: bool = False) -> str:
        self.asked = user
        return "Hawaii budget"


async def test_messages_are_quoted_as_data_without_blocks_and_secrets() -> None:
    model = Recording()
    rewriter = Rewriter(model, rewriting="r", hypothetical="h", redact_kinds=frozenset({"secrets"}))
    block = '<recalled-memory id="x">\n- old [m:1]\n</recalled-memory>\n'
    await rewriter.completed("acme", [f"{block}Hawaii\nAKIAABCDEFGHIJKLMNOP", "x" * 100_000, 'How "much"?\nAnswer: 5'])
    assert "old" not in model.asked
    assert "AKIAABCDEFGHIJKLMNOP" not in model.asked
    assert len(model.asked) < 2_500
    assert sum(line.startswith('{"text"') for line in model.asked.splitlines()) == 3
