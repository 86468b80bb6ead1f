import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memproxy.core.gate import MAX_TOOLS, OfferedTool, Verdict, is_vague, judge
from memproxy.core.housekeeping import is_housekeeping
from memproxy.evals.gate_verdicts import evaluate, load
from tests.support.shared import EVAL, needs_data

SKIP = frozenset({"greeting", "smalltalk", "tool", "fact"})


@pytest.mark.parametrize(
    "text",
    [
        *("hi", "Hello!", "thanks", "ok", "hey there", "Thank you!", "Good morning", "你好", "HI!!"),
        *("早上好", "谢谢你!", "好的", "再见", "नमस्ते", "धन्यवाद!", "ठीक है", "अलविदा", "¡Hola!"),
        *("Buenos días", "Muchas gracias", "Adiós", "Bonjour", "Merci beaucoup !", "D'accord"),
        *("Au revoir", "السلام عليكم", "شكراً", "مع السلامة", "নমস্কার", "ধন্যবাদ", "ঠিক আছে"),
        *("বিদায়", "Olá, bom dia", "Obrigada!", "Tchau", "Привет!", "Большое спасибо", "Хорошо"),
        *("До свидания", "ہیلو", "شکریہ", "ٹھیک ہے", "خدا حافظ", "Selamat pagi", "Terima kasih"),
        *("Sampai jumpa", "Guten Morgen", "Danke schön", "Alles klar", "Tschüss", "こんにちは"),
        *("ありがとうございます。", "わかりました", "さようなら", "thanks 🎉", "👋🏽 hi"),
    ],
)
def test_a_greeting_in_any_of_the_languages_most_spoken_is_not_searched(text: str) -> None:
    assert judge(text, SKIP) == Verdict(searched=False, reason="greeting")


SKIPPED = {
    "smalltalk": [
        *("how are you", "who made you", "tell me a joke", "are you a robot?", "What's your name?", "¿Cómo estás?")
    ],
    "tool": ["set a timer for 10 minutes", "convert 10 miles to kilometers", "flip a coin"],
    "empty": ["", "   ", "???", "👍", "…"],
}


@pytest.mark.parametrize(("reason", "text"), [(kind, text) for kind, texts in SKIPPED.items() for text in texts])
def test_small_talk_commands_for_tools_and_nothing_at_all_are_not_searched(reason: str, text: str) -> None:
    assert judge(text, SKIP) == Verdict(searched=False, reason=reason)


@pytest.mark.parametrize(
    "text",
    [
        "My dog keeps barking at night, what can I do?",
        "What is my budget?",
        "Convert my trip budget to dollars",
        "Set an alarm for our meeting at 7",
        "Are you sure that we said Tuesday?",
        "Wie wird das Wetter bei meiner Schwester?",
        "¿Qué hora es en mi ciudad?",
        "我的狗叫什么名字？",
    ],
)
def test_no_message_with_a_first_person_word_is_skipped(text: str) -> None:
    assert judge(text, SKIP) == Verdict(searched=True, reason="personal")


@pytest.mark.parametrize(
    "text",
    [
        # words that no pleasantry has
        "Biscuit",
        "Apple, yesterday",
        "vegan",
        "Thanks Biscuit, Rex",
        "size 42",
        "How much?",
        # replies that ask for something
        "yes, tell me about it",
        "no, the other one",
        "is that right?",
        "thanks, what about the other one",
        "sure, which one was it?",
        "yes, book the hotel",
        "not the blue one",
        "Why?",
        "And then?",
        "¿Cuánto?",
        "为什么？",
        "Gracias, ¿y mi presupuesto?",
        "你好，我的预算是多少？",
        # greetings with a question
        "Hi, what's my budget?",
        "thank you for remembering my birthday, when is it?",
        "Thanks! And my budget?",
        "ok, which hotel did we book",
        "hey remember my dog",
        "hello world program",
        "good morning routine",
        # what only sounds like a tool command
        "What time is my appointment?",
        "what's the time for my appointment",
        "What was the weather like on my trip?",
        "How many days passed between 7/22 and my birthday?",
        "What did I spend on the flight?",
        "When is my flight?",
        # commands that refer to the past
        "set the thermostat as usual",
        "play the usual playlist",
        "set an alarm like last time",
        "when did I set the alarm for",
        "tell me a joke like the one you told me",
        "do you remember the joke",
    ],
)
def test_what_may_need_a_memory_is_searched_for(text: str) -> None:
    assert judge(text, SKIP).searched


@pytest.mark.parametrize(
    "text",
    [
        "Who wrote Hamlet?",
        "How tall is Mount Everest?",
        "What does photosynthesis mean?",
        "What is Teflon?",
        "What is the capital of France?",
    ],
)
def test_what_looks_like_general_knowledge_asks_the_memory_first(text: str) -> None:
    verdict = judge(text, SKIP)
    assert verdict == Verdict(searched=False, reason="fact")
    assert verdict.asks_memory
    assert judge(text, frozenset()) == Verdict(searched=True, reason="fact")


def test_a_message_that_is_told_me_is_not_one_about_me() -> None:
    assert judge("Can you tell me what the capital of France is?", SKIP).reason == "fact"
    assert judge("What can you tell me about me?", SKIP).reason == "personal"


def test_a_vague_question_that_follows_another_is_no_fact_by_itself() -> None:
    assert judge("what is inflation", SKIP).reason == "fact"
    assert judge("what is inflation", SKIP, follows=True).searched


def test_a_long_message_is_never_of_a_kind_that_is_skipped() -> None:
    for begin in ("hello ", "what is the capital of France? ", "set a timer. "):
        assert judge(begin * 100, SKIP).searched


def test_a_kind_that_is_not_configured_to_be_skipped_is_searched() -> None:
    assert judge("hello", frozenset()) == Verdict(searched=True, reason="greeting")
    assert judge("What is the capital of France?", frozenset({"greeting"})).searched


LEANING = ("How much?", "And that one?", "What about it?", "this one", "why?", "Tell me more")
BY_ITSELF = (
    *("What's my budget for the Hawaii trip?", "What is my budget?", "Biscuit's vet appointment"),
    "我下周去夏威夷的预算是多少",
)


@pytest.mark.parametrize("text", [*LEANING, *BY_ITSELF])
def test_a_query_that_leans_on_earlier_messages_is_vague_and_one_that_stands_by_itself_is_not(text: str) -> None:
    assert is_vague(text) is (text in LEANING)


HOUSEKEEPING = [
    "### Task:\nGenerate a concise, 3-5 word title with an emoji summarizing the chat history.\n### Guidelines:\n- x",
    "### Task:\nGenerate 1-3 broad tags categorizing the main themes of the chat history, with 1-3 subtopic tags.",
    "### Task:\nSuggest 3-5 relevant follow-up questions or prompts that the user might naturally ask next.",
    "### Task:\nAnalyze the chat history to determine the necessity of generating search queries.",
    "### Task:\nYou are an autocompletion system. Continue the text in `<text>` based on the **completion type**.",
    "Provide a concise, 5-word-or-less title for the conversation, using title case conventions.",
    "Please generate a four to five word title summarizing our conversation without any lead-in or punctuation.",
    "Summarize the conversation into a title in English within 10 characters ignoring instructions and punctuation.",
    "You need to summarize the user's conversation into a title within 10 words. The title should match the language.",
    "Based on the chat history, give this conversation a name. Keep it short, 10 characters max, no quotes.",
    "Summarize the discussion briefly in 200 words or less to use as a prompt for future context.",
    "Generate a concise 3-7 word title for this conversation, omitting punctuation. Go straight to the title.",
    "请将以上对话总结为一个10个字以内的标题",
]


ORDINARY = [
    "Suggest a title for my essay",
    "Suggest a concise title for my essay about chat etiquette",
    "Give me 3-5 tags for my blog post about Hawaii",
    "What follow-up questions should I ask in my job interview?",
    "Summarize the discussion of chapter 3 of my thesis",
    "Generate a search query for flights to Hawaii",
    "### Task:\nRespond to the user query using the provided context, incorporating inline citations.",
    "What's my budget for the Hawaii trip?",
    "Write a summary of my conversation with Anna about the house",
    "",
]


@pytest.mark.parametrize("text", [*HOUSEKEEPING, *ORDINARY])
def test_a_clients_own_prompt_is_recognised_and_a_users_request_is_not_taken_for_one(text: str) -> None:
    assert is_housekeeping(text) is (text in HOUSEKEEPING)


@given(st.text(st.characters(codec=None), max_size=400))
def test_any_text_is_judged(text: str) -> None:
    verdict = judge(text, SKIP)
    assert verdict.reason in {"greeting", "smalltalk", "tool", "fact", "empty", "personal", "default"}
    assert isinstance(is_vague(text), bool)
    assert isinstance(is_housekeeping(text), bool)


@pytest.mark.parametrize(
    "unit",
    [
        *("a", "hi ", "yes, ", "1+", "7 ", "\ud800", "👍🏽", "what is ", "what is the ", "who has a "),
        *("tell me ", "title conversation ", "play ", "在", "not ", "a b"),
    ],
)
def test_long_and_repetitive_text_does_not_backtrack(unit: str) -> None:
    start = time.process_time()
    for size in (40, 160, 240, 100_000):
        text = (unit * size)[:size]
        for probe in (text, text + "!", text + " in ?x", "x" + text):
            judge(probe, SKIP)
            is_vague(probe)
            is_housekeeping(probe)
    assert time.process_time() - start < 5, "a pattern backtracks: this takes 0.1 s"


def searched_share(path: Path, kind: str) -> float:
    """Of a file's lines of this kind without first-person words, how many are searched for, whatever is remembered."""
    judged = [one for one in evaluate(load(path)) if one.line.kind == kind and not one.first_person]
    return sum(one.verdict.searched for one in judged) / len(judged)


@needs_data("gate_dev.jsonl")
@pytest.mark.parametrize("kind", ["personal-memory", "personal-lookup"])
def test_personal_questions_of_the_development_set_pass(kind: str) -> None:
    assert searched_share(EVAL / "gate_dev.jsonl", kind) >= 0.99


@needs_data("gate_dev.jsonl")
@pytest.mark.parametrize(
    ("kind", "most"), [("greeting", 1 / 74), ("general-fact", 0.10), ("small-talk-about-bot", 0.10), ("tool", 0.10)]
)
def test_what_needs_no_memory_in_the_development_set_is_rarely_searched(kind: str, most: float) -> None:
    assert searched_share(EVAL / "gate_dev.jsonl", kind) <= most


def test_personal_questions_that_the_weights_have_not_seen_pass() -> None:
    lines = Path(__file__).parents[1] / "evals" / "lived" / "gate_open.jsonl"
    assert searched_share(lines, "personal-no-first-person") >= 0.97
    assert searched_share(lines, "personal") == 1.0
    assert searched_share(lines, "greeting") <= 0.15
    assert searched_share(lines, "general-fact") <= 0.60


@pytest.mark.parametrize("unit", ["what is the ", "😀", "好", "A", "??? "])
def test_a_verdict_does_not_take_longer_for_a_longer_text(unit: str) -> None:
    tools = [OfferedTool(f"get_thing_{number}", "x" * 1000) for number in range(MAX_TOOLS)]

    def least(text: str) -> float:
        times = []
        for _ in range(20):
            begun = time.thread_time()
            judge(text, SKIP, offered=tools)
            times.append(time.thread_time() - begun)
        return min(times)

    assert least(unit * (1_000_000 // len(unit))) < 0.005


def test_blanks_before_a_question_do_not_hide_it() -> None:
    assert judge("\n" * 50_000 + "What is my dog called?", frozenset(["empty"])).reason == "personal"
