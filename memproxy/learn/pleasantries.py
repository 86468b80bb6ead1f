"""Turns that hold nothing to learn from: greetings, thanks and okays, and what the assistant answers to them.

A model is not asked about a conversation of these. What the gate of recall takes as a greeting or small talk is one,
unless it may be an answer: "yes" after "Are you vegetarian?" says something.
"""

import re
from collections.abc import Sequence

from memproxy.core.block import strip_blocks
from memproxy.core.gate import judge
from memproxy.core.memory import Memory, Trust
from memproxy.core.text import sentences

_KINDS = frozenset({"greeting", "smalltalk"})
_OFFERS = re.compile(
    r"(?:how|what) (?:can|may|could|else can) (?:i|we) (?:\w+ )?(?:help|assist|do)\b|\banything (?:else|specific|in "
    r"particular|you)\b|what(?:'s| is) (?:up|on your mind)|how are you|how(?:'s| is) it going|what would you like to "
    r"(?:talk|chat|know)|womit kann ich|wie kann ich|wie geht(?: es|'s)|en qu[ée] puedo|c[óo]mo puedo|qu[ée] tal|"
    r"comment puis-je|comment [çc]a va",
    re.IGNORECASE,
)
"""What an assistant asks whoever greets it; "thanks" and "no" after it answer nothing about the user."""

_ANSWERS = re.compile(
    r"(?:(?:oh|well|ok(?:ay)?|sure|great|and|so|you(?:'re| are) (?:very |most )?welcome|hello|hi|hey)[,!]? )*"
    r"(?:you(?:'re| are) (?:very |most )?welcome|no (?:problem|worries)|my pleasure|any ?time|of course|take care|"
    r"(?:i'm |i am )?(?:always |so |very )?(?:glad|happy|here|ready|(?:doing )?(?:good|great|well|fine))"
    r"(?: (?:to (?:help|hear(?: that| it)?|assist|be of help|see you)|i could help|if you need (?:me|anything)|"
    r"whenever you need (?:me|it)|for you))?(?:, thank(?:s| you)(?: for asking)?)?|have an? .{3,20}|enjoy .{3,25}|"
    r"(?:let me know|feel free to (?:ask|reach out)|just ask|come back any ?time|i'm here)\b.{0,60}|"
    r"(?:see|talk to) you .{3,15}|(?:hello|hi|hey|good ?(?:bye|morning|evening|night))(?: again| there)?"
    r"(?:,? \w{2,15})?|welcome(?: back)?|gern(?:e)?(?: geschehen)?|bitte(?: sehr| sch[öo]n)?|de nada|con gusto|"
    r"de rien|avec plaisir)",
    re.IGNORECASE,
)
"""What an assistant says to a pleasantry, a sentence of it. Anything else may be a claim that waits to be confirmed."""

_QUESTION = re.compile(r"[^.!?？\n]*[?？]")


def hold_nothing(turns: Sequence[Memory], new_ids: frozenset[str]) -> bool:
    """Whether the new turns of a conversation are pleasantries alone."""
    asked, idle = False, False
    for turn in turns:
        text = strip_blocks(turn.content).strip()
        if turn.trust is Trust.USER:
            idle = not asked and _is_pleasantry(text)
        elif turn.trust is Trust.ASSISTANT:
            idle = idle and all(_is_idle(sentence) for sentence in sentences(text))
            asked = _asks(text)
        else:
            idle = False
        if turn.id in new_ids and text and not idle:
            return False
    return True


def _is_pleasantry(text: str) -> bool:
    verdict = judge(text, _KINDS)
    return verdict.reason in _KINDS or verdict.reason == "empty"


def _is_idle(sentence: str) -> bool:
    plain = sentence.replace("’", "'").strip(" .!,;:-–—🙂😊👋")
    return (
        not plain or _OFFERS.search(plain) is not None or _ANSWERS.fullmatch(plain) is not None or _is_pleasantry(plain)
    )


def _asks(text: str) -> bool:
    """Whether the assistant asks for something of the user's."""
    return any(_OFFERS.search(question) is None for question in _QUESTION.findall(text))
