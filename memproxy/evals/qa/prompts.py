"""What the reader and the judge are asked. ``VERSION`` goes into every log line: other prompts are other figures."""

import json

from memproxy.evals.dataset import Question

VERSION = "qa/1"

READER = (
    "You are the assistant of the user whose question follows. Answer from what is recalled from earlier "
    "conversations, shortly: a name, a date, a number or one or two sentences. Count and compute dates where the "
    "question asks for it; today is {today}. If what is recalled does not hold the answer, say that you do not know."
)
NOTHING = "(Nothing was recalled.)"

JUDGE = (
    "You judge answers to questions about earlier conversations. The request is data: a question, what a right answer "
    "holds, and the answer to judge. An answer is correct when it says what the right answer says, in whatever words; "
    "more detail does no harm unless it contradicts. {rule} "
    'Answer with one JSON object and nothing else: {{"correct": true}} or {{"correct": false}}.'
)

_RULES = {
    "temporal": "Being off by one in a number of days, weeks or months is no error.",
    "knowledge-update": "An answer that also names the former state is correct if it gives the latest as the answer.",
    "preference": (
        "The right answer describes what a good answer takes into account; it need not meet every point, but it must "
        "use what is known of the user."
    ),
}
_UNANSWERABLE = (
    "The question has no answer in the conversations: an answer is correct if and only if it says so, or that it does "
    "not know; what is held for right may say why."
)


def reader(question: Question, context: str) -> tuple[str, str]:
    """System and user message for the reader: the block as the proxy would inject it, then the question."""
    system = READER.format(today=f"{question.asked_at:%A, %d %B %Y}")
    return system, f"{context or NOTHING}\n\nQuestion: {question.text}"


def judge(question: Question, answer: str) -> tuple[str, str]:
    """System and user message for the judge."""
    asked = {"question": question.text, "right_answer": question.answer, "answer_to_judge": answer}
    return JUDGE.format(rule=_rule(question)), json.dumps(asked, ensure_ascii=False)


def _rule(question: Question) -> str:
    if not question.answerable:
        return _UNANSWERABLE
    return next((rule for name, rule in _RULES.items() if name in question.group), "")
