import pytest

from memproxy.core.gate import MAX_TOOLS, OfferedTool, Verdict, judge

SKIP = frozenset({"greeting", "smalltalk", "tool", "fact"})
TOOLS = [
    OfferedTool("get_stock_price", "Get the current price of a stock"),
    OfferedTool("createTicket", "Create a ticket in the issue tracker"),
    OfferedTool("search_web"),
    OfferedTool("run_sql", "Executes a query on the sales figures"),
    OfferedTool("search_memory", "Search what the user told before"),
    OfferedTool("restaurant_search", "Finds restaurants near a place"),
]


@pytest.mark.parametrize(
    "text",
    ["Stock price of Apple please", "Create ticket: login page is broken", "Search the web for asyncio timeouts"],
)
def test_a_message_that_asks_for_an_offered_tool_is_the_tools(text: str) -> None:
    assert judge(text, SKIP, offered=TOOLS) == Verdict(searched=False, reason="tool")
    assert judge(text, SKIP).searched


@pytest.mark.parametrize(
    "text",
    [
        "What's my budget?",
        "What did I pay for the stock?",
        "What was the stock price when we talked last time?",
        "Which wine goes with it?",
        "How much?",
        "Does Sarah know the stock price?",
        "A good restaurant for dinner",
        "Let's plan dinner with friends",
    ],
)
def test_that_tools_are_offered_does_not_keep_a_question_from_being_searched(text: str) -> None:
    assert judge(text, SKIP, offered=TOOLS).searched


def test_a_request_that_forces_a_tool_call_is_the_tools() -> None:
    assert judge("Where did the order go", SKIP, tool_forced=True) == Verdict(searched=False, reason="tool")


def test_tools_are_searched_for_when_they_are_not_configured_to_be_skipped() -> None:
    assert judge("Stock price of Apple please", SKIP - {"tool"}, offered=TOOLS) == Verdict(searched=True, reason="tool")
    assert judge("Where did the order go", SKIP - {"tool"}, tool_forced=True).searched


@pytest.mark.parametrize("name", ["", "get", "___", "123", "\ud800", "x" * 5000])
def test_a_name_that_says_nothing_matches_nothing(name: str) -> None:
    assert judge("get the price", SKIP, offered=[OfferedTool(name)]).searched


def test_tools_beyond_the_limit_are_not_compared() -> None:
    many = [OfferedTool(f"tool_{place}x") for place in range(MAX_TOOLS)]
    assert judge("Stock price of Apple please", SKIP, offered=[*many, TOOLS[0]]).searched
