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

_CHINESE_HELLO = r"(?:(?:你好|您好|嗨|好的|不客气|不用谢|谢谢[您你]?)[，,！!。 ]*)"
_CHINESE_OFFERS = re.compile(
    rf"{_CHINESE_HELLO}*(?:请问)?(?:今天|现在)?(?:"
    r"(?:还?有什么|有没有什么)我?(?:可以|能|需要)?我?(?:帮|为|协助)[您你]?[到助忙]?[您你上]?(?:效劳|服务|做)?[您你]?(?:的|什么)*"
    r"|我(?:今天)?(?:可以|能)(?:怎么|如何|怎样)?(?:帮|为)[您你]?[到助忙做]?[您你]?(?:做?些?什么|什么忙)?"
    r"|还?需要(?:什么|其他|别的)?(?:帮助|帮忙)|还?有(?:其他|别的|什么)(?:问题|需要)(?:的)?)[吗呢]?[?？ ]*",
)
_CHINESE_ANSWERS = re.compile(
    r"(?:(?:你好|您好|嗨|好的|不客气|不用谢|不谢|没关系|谢谢[您你]?|再见|晚安|下次见|回头见|保重|"
    r"我?很高兴能?(?:见到|认识|帮助?到?)[您你]|我?很高兴(?:能)?为[您你]服务|"
    r"我?随时(?:为[您你]服务|都?可以(?:告诉|联系|问|找)我|(?:告诉|联系|问|找)我|欢迎(?:提问|再来)?)|"
    r"(?:如果|若|如)?[您你]?还?有(?:任何|其他|别的|什么)(?:问题|需要|需求)(?:的话)?|请?告诉我|"
    r"祝[您你](?:有|度过|过得)?(?:一个)?(?:(?:美好|愉快|开心|生活|一天|今天|周末|晚上)的?)+)[，,、！!。 ]*)+",
)
"""What an assistant asks and says in Chinese; a sentence is nothing else."""

_QUESTION = re.compile(r"(?<![^.!?。！？\n])[^.!?。！？\n]*[?？]")
"""A question of a text; it begins where a sentence does, so that a long line is read once and not from each letter."""


def hold_nothing(turns: Sequence[Memory], new_ids: frozenset[str]) -> bool:
    """Whether the new turns of a conversation are pleasantries alone."""
    asked, idle = False, False
    for turn in turns:
        text = strip_blocks(turn.content).strip()
        if turn.trust is Trust.USER:
            idle = not asked and is_pleasantry(text)
        elif turn.trust is Trust.ASSISTANT:
            idle = idle and all(_is_idle(sentence) for sentence in sentences(text))
            asked = _asks(text)
        else:
            idle = False
        if turn.id in new_ids and text and not idle:
            return False
    return True


def was_asked(turns: Sequence[Memory], turn: Memory) -> bool:
    """Whether a turn of a conversation follows one of the assistant's that asks for something of the user's."""
    place = next((place for place, one in enumerate(turns) if one.id == turn.id), 0)
    before = turns[place - 1] if place else None
    return before is not None and before.trust is Trust.ASSISTANT and _asks(strip_blocks(before.content).strip())


def is_pleasantry(text: str) -> bool:
    """Whether a text is a greeting, thanks, small talk, or nothing at all."""
    verdict = judge(text, _KINDS)
    return verdict.reason in _KINDS or verdict.reason == "empty"


def _is_idle(sentence: str) -> bool:
    plain = sentence.replace("’", "'").strip(" .!,;:-–—🙂😊👋。！，；：～~？")
    return (
        not plain
        or _is_offer(plain)
        or _ANSWERS.fullmatch(plain) is not None
        or _CHINESE_ANSWERS.fullmatch(plain) is not None
        or is_pleasantry(plain)
    )


def _is_offer(sentence: str) -> bool:
    return _OFFERS.search(sentence) is not None or _CHINESE_OFFERS.fullmatch(sentence.strip()) is not None


def _asks(text: str) -> bool:
    """Whether the assistant asks for something of the user's."""
    return any(not _is_offer(question) for question in _QUESTION.findall(text))
