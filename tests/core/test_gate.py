import json
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memproxy.core.gate import Verdict, is_housekeeping, is_personal, is_vague, judge
from tests.support.shared import EVAL, needs_data

SKIP = frozenset({"greeting", "smalltalk", "tool", "fact"})


@pytest.mark.parametrize(
    "text", ["hi", "Hello!", "thanks", "ok", "hey there", "Thank you!", "Good morning", "你好", "HI!!"]
)
def test_a_greeting_is_not_searched(text: str) -> None:
    assert judge(text, SKIP) == Verdict(searched=False, reason="greeting")


@pytest.mark.parametrize(
    "text",
    [
        "早上好",
        "谢谢你!",
        "好的",
        "再见",
        "नमस्ते",
        "धन्यवाद!",
        "ठीक है",
        "अलविदा",
        "¡Hola!",
        "Buenos días",
        "Muchas gracias",
        "Adiós",
        "Bonjour",
        "Merci beaucoup !",
        "D'accord",
        "Au revoir",
        "السلام عليكم",
        "شكراً",
        "مع السلامة",
        "নমস্কার",
        "ধন্যবাদ",
        "ঠিক আছে",
        "বিদায়",
        "Olá, bom dia",
        "Obrigada!",
        "Tchau",
        "Привет!",
        "Большое спасибо",
        "Хорошо",
        "До свидания",
        "ہیلو",
        "شکریہ",
        "ٹھیک ہے",
        "خدا حافظ",
        "Selamat pagi",
        "Terima kasih",
        "Sampai jumpa",
        "Guten Morgen",
        "Danke schön",
        "Alles klar",
        "Tschüss",
        "こんにちは",
        "ありがとうございます。",
        "わかりました",
        "さようなら",
        "thanks 🎉",
        "👋🏽 hi",
    ],
)
def test_a_greeting_in_any_of_the_languages_most_spoken_is_not_searched(text: str) -> None:
    assert judge(text, SKIP) == Verdict(searched=False, reason="greeting")


@pytest.mark.parametrize(
    "text",
    [
        "¿Cómo estás?",
        "Comment ça va ?",
        "Wie geht es dir?",
        "你好，最近怎么样？",
        "Как дела?",
        "كيف حالك؟",
        "Tudo bem?",
    ],
)
def test_asking_how_it_goes_is_small_talk_in_other_languages_too(text: str) -> None:
    assert judge(text, SKIP) == Verdict(searched=False, reason="smalltalk")


@pytest.mark.parametrize(
    "text",
    [
        "Thank you so much, that was really helpful",
        "I really appreciate all of your help with this",
        "um, I'm not entirely sure about that",
        "no, that is most definitely not correct",
        "it's a maybe for me",
    ],
)
def test_a_reply_that_asks_for_nothing_is_small_talk(text: str) -> None:
    assert judge(text, SKIP) == Verdict(searched=False, reason="smalltalk")


@pytest.mark.parametrize(
    "text",
    [
        "yes, tell me about it",
        "no, the other one",
        "is that right?",
        "thanks, what about the other one",
        "sure, which one was it?",
        "yes, book the hotel",
        "not the blue one",
        "How much?",
        "Why?",
        "And then?",
        "¿Cuánto?",
        "为什么？",
        "Gracias, ¿y mi presupuesto?",
        "你好，我的预算是多少？",
    ],
)
def test_a_reply_that_asks_for_something_is_searched(text: str) -> None:
    assert judge(text, SKIP).searched


@pytest.mark.parametrize(
    "text",
    [
        "Hi, what's my budget?",
        "thank you for remembering my birthday, when is it?",
        "Thanks! And my budget?",
        "ok, which hotel did we book",
        "hey remember my dog",
        "hello world program",
        "good morning routine",
    ],
)
def test_a_greeting_with_a_question_is_searched(text: str) -> None:
    assert judge(text, SKIP).searched


def test_a_general_question_is_a_fact_and_a_personal_one_is_searched() -> None:
    assert judge("What is the capital of France?", SKIP) == Verdict(searched=False, reason="fact")
    assert judge("What is my budget?", SKIP) == Verdict(searched=True, reason="personal")


@pytest.mark.parametrize(
    "text",
    [
        "Who wrote Hamlet?",
        "How tall is Mount Everest?",
        "What does photosynthesis mean?",
        "When did Neil Armstrong land on the moon?",
        "Define entropy",
        "Can you tell me what photosynthesis is?",
        "is it okay to use butter instead of margarine",
        "how to do an oil change",
        "calories in an apple",
        "cooking time for lasagna",
        "lasagna takes how long to cook",
        "What kind of dog breed is the oldest?",
        "When did Hawaii become a state?",
        "How tall is the Eiffel Tower?",
        "What is Teflon?",
    ],
)
def test_general_knowledge_is_not_searched(text: str) -> None:
    assert judge(text, SKIP) == Verdict(searched=False, reason="fact")


@pytest.mark.parametrize(
    "text",
    [
        "Where did I park?",
        "What did you recommend last time?",
        "What was the name of that restaurant again?",
        "What's our wifi password?",
        "Where does Sarah live?",
        "What is Biscuit's favourite food?",
        "What's the budget for the trip?",
        "How is the deploy of payment-service done?",
        "Which event happened first, the concert or the move?",
        "What are the deploy steps of payment-service?",
        "Plan a dinner for tonight",
        "What is Joanna allergic to?",
        "Who supports Caroline in tough times?",
        "When is Melanie going camping?",
        "Is Sarah coming?",
        "What gift did the kids make for Anna?",
        "What pets does Nate have?",
        "What is on the shopping list?",
        "When is the water bill due?",
        "What are the best restaurants in Chicago?",
        "What would be a good gift for a friend of chess?",
        "What name do you have for me?",
        "What did you recommend?",
        "Who was it again?",
        "Order pizza as usual",
        "the same wine as last time",
        "Was kostet das Hotel, das ich gebucht habe?",
        "我的狗叫什么名字？",
    ],
)
def test_what_may_be_about_the_user_is_searched(text: str) -> None:
    assert judge(text, SKIP).searched


@pytest.mark.parametrize(
    "text",
    [
        "what's 15% of 68",
        "12 * 7 =",
        "What's the weather like today?",
        "what time is it in Tokyo",
        "set a timer for 10 minutes",
        "Set an alarm for my meeting at 7",
        "translate good morning into French",
        "how many ounces are in 4 pounds",
        "convert 10 miles to kilometers",
        "flip a coin",
        "what's the exchange rate between euros and dollars",
    ],
)
def test_a_tool_command_is_not_searched_even_with_personal_words(text: str) -> None:
    assert judge(text, SKIP) == Verdict(searched=False, reason="tool")


@pytest.mark.parametrize(
    "text",
    [
        "What time is my appointment?",
        "what's the time for my appointment",
        "What was the weather like on my trip?",
        "How many days passed between 7/22 and my birthday?",
        "What did I spend on the flight?",
        "When is my flight?",
    ],
)
def test_what_only_sounds_like_a_tool_command_is_searched(text: str) -> None:
    assert judge(text, SKIP).searched


@pytest.mark.parametrize(
    "text",
    [
        "set the thermostat as usual",
        "play the usual playlist",
        "set an alarm like last time",
        "when did I set the alarm for",
        "tell me a joke like the one you told me",
        "do you remember the joke",
    ],
)
def test_a_command_that_refers_to_the_past_is_searched(text: str) -> None:
    assert judge(text, SKIP) == Verdict(searched=True, reason="personal")


@pytest.mark.parametrize(
    "text",
    [
        "how are you",
        "Hi, how are you today?",
        "who made you",
        "tell me a joke",
        "are you a robot?",
        "What's your name?",
        "ai, what is your given name",
        "do you prefer cats or dogs more",
        "what languages can you speak",
        "do you take orders from someone else",
    ],
)
def test_small_talk_is_not_searched(text: str) -> None:
    assert judge(text, SKIP) == Verdict(searched=False, reason="smalltalk")


@pytest.mark.parametrize("text", ["", "   ", "???", "👍", "…"])
def test_nothing_to_search_for_is_empty(text: str) -> None:
    assert judge(text, SKIP) == Verdict(searched=False, reason="empty")


def test_a_kind_that_is_not_configured_to_be_skipped_is_searched() -> None:
    assert judge("hello", frozenset()) == Verdict(searched=True, reason="greeting")
    assert judge("What is the capital of France?", frozenset({"greeting"})).searched


@pytest.mark.parametrize(
    "text",
    ["How much?", "And that one?", "What about it?", "this one", "why?", "How much does it cost?", "Tell me more"],
)
def test_a_query_that_leans_on_earlier_messages_is_vague(text: str) -> None:
    assert is_vague(text)


@pytest.mark.parametrize(
    "text",
    [
        "What's my budget for the Hawaii trip?",
        "What is my budget?",
        "Biscuit's vet appointment",
        "我下周去夏威夷的预算是多少",
    ],
)
def test_a_self_contained_query_is_not_vague(text: str) -> None:
    assert not is_vague(text)


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


@pytest.mark.parametrize("text", HOUSEKEEPING)
def test_a_clients_own_prompt_is_recognised(text: str) -> None:
    assert is_housekeeping(text)


@pytest.mark.parametrize(
    "text",
    [
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
    ],
)
def test_a_users_request_is_not_taken_for_housekeeping(text: str) -> None:
    assert not is_housekeeping(text)


@given(st.text(st.characters(codec=None), max_size=400))
def test_any_text_is_judged(text: str) -> None:
    verdict = judge(text, SKIP)
    assert verdict.reason in {"greeting", "smalltalk", "tool", "fact", "empty", "personal", "default"}
    assert isinstance(is_vague(text), bool)
    assert isinstance(is_housekeeping(text), bool)
    assert isinstance(is_personal(text), bool)


@pytest.mark.parametrize(
    "unit",
    [
        "a",
        "hi ",
        "yes, ",
        "1+",
        "7 ",
        "\ud800",
        "👍🏽",
        "what is ",
        "what is the ",
        "who has a ",
        "tell me ",
        "title conversation ",
        "play ",
        "在",
        "not ",
        "a b",
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


_FIRST_PERSON = re.compile(r"\b(?:i|me|my|mine|myself|we|us|our|ours|ourselves)\b", re.IGNORECASE)


def searched_share(kind: str, *, first_person: bool | None = None) -> float:
    """Of the development set's lines of this kind (with or without first-person words), how many are searched for."""
    rows = [json.loads(line) for line in (EVAL / "gate_dev.jsonl").read_text("utf-8").splitlines()]
    texts = [row["text"] for row in rows if row["kind"] == kind]
    kept = [text for text in texts if first_person in (None, _FIRST_PERSON.search(text) is not None)]
    return sum(judge(text, SKIP).searched for text in kept) / len(kept)


@needs_data("gate_dev.jsonl")
def test_personal_memory_questions_of_the_development_set_pass() -> None:
    assert searched_share("personal-memory") >= 0.99
    assert searched_share("personal-lookup") >= 0.97


@needs_data("gate_dev.jsonl")
@pytest.mark.parametrize(
    ("kind", "most"), [("greeting", 1 / 74), ("general-fact", 0.10), ("small-talk-about-bot", 0.10), ("tool", 0.10)]
)
def test_what_needs_no_memory_in_the_development_set_is_rarely_searched(kind: str, most: float) -> None:
    assert searched_share(kind, first_person=False) <= most


@needs_data("locomo_dev.json")
def test_questions_about_people_by_name_pass() -> None:
    samples = json.loads((EVAL / "locomo_dev.json").read_text("utf-8"))
    questions = [asked["question"] for sample in samples for asked in sample["qa"]]
    assert sum(judge(text, SKIP).searched for text in questions) / len(questions) >= 0.98
    assert sum(judge(text.lower(), SKIP).searched for text in questions) / len(questions) >= 0.95


@pytest.mark.parametrize(
    "text",
    [
        "Where am I employed?",
        "Where am I staying?",
        "What's the cost limit for redoing the kitchen?",
        "What is the cabin's wifi password?",
    ],
)
def test_what_only_the_user_s_own_matters_answer_is_searched(text: str) -> None:
    assert judge(text, SKIP) == Verdict(searched=True, reason="personal")


@pytest.mark.parametrize("text", ["Where am I?", "where am I right now", "Show me where I am on the map"])
def test_where_the_user_is_now_is_a_tool_s_matter(text: str) -> None:
    assert judge(text, SKIP) == Verdict(searched=False, reason="tool")
