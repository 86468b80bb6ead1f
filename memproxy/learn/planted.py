"""How injections are worded: orders to a model to drop its rules, to be another, to answer in a given way.

Chosen on published collections of injections and jailbreaks, and on ordinary sentences that use the same words ("ignore
the previous email, the meeting is at 5"). A pattern asks for an order and for what only a model has.
"""

import re
from collections.abc import Iterator

from memproxy.core.late import LatePattern

_ORDER = (
    r"(?:^|[.!?:;,\"'(\[>*\n-]\s?"
    r"|\b(?:and|then|now|please|must|should|will|shall|just|you|so|want you to)\s)"
)
_RULES = (
    r"(?:instructions?|prompts?|rules?|guidelines?|directives?|programming|restrictions?|constraints?|safeguards?"
    r"|safety|polic(?:y|ies)|filters?)"
)
_MODEL = r"(?:assistant|ai|a\.i\.|model|llm|chatbot|chat ?gpt|gpt|bot)"
_EARLIER = r"(?:previous|prior|above|preceding|following|earlier|former|all|any|your|the|these|those)"
_DROP = r"(?:ignore|disregard|forget|override|bypass|discard|do not follow|don't follow)"
_WRITE = r"(?:print|say(?! the word)|output|respond|reply|answer|return|write|repeat)"

_ORDERED = (
    rf"{_DROP}\b.{{0,40}}\b{_EARLIER}\b.{{0,30}}\b{_RULES}\b",
    r"ignore (?:all|any|every|everything|the rest)\b.{0,60}\b(?:text|data|document|input|context|above)\b",
    r"pretend (?:to be|you(?:'re| are))\b",
    rf"(?:just|only|simply) {_WRITE}\b",
)
"""Orders: what they are told by stands before them (`_ORDER`)."""

_DROPPED_RULES = (
    r"forget (?:everything|all) (?:that )?you(?:'ve| have| were)? (?:learned|learnt|been told|told|know)\b(?! about)",
    r"normal (?:restrictions|rules|limits) (?:don't|do not|no longer) apply\b",
    r"(?:bypass|ignores?|violat\w+|adhere to|against)\b.{0,30}\b(?:open ?a[il]|content) (?:content )?polic(?:y|ies)",
)
_ANOTHER_IDENTITY = (
    r"you are now (?:going to |free\b|unrestricted|jailbroken|in \w+ mode|dan\b)",
    rf"you are now (?:an? |the )?(?:[\w-]+ ){{0,3}}(?:{_MODEL}|character|persona)\b",
    r"you(?:'re| are) (?:going|about) to (?:act|pretend|play|immerse|simulate|role)",
    r"you will (?:now )?(?:take on|assume|play) the (?:role|persona|identity) of\b",
    r"(?:from (?:now|here) on|henceforth),? you\b",
    r"stay in character\b",
    r"break(?:ing)? character\b",
    r"(?:act|behave|answer|respond) (?:as|like) (?:an? )?(?:unrestricted|unfiltered|uncensored|jailbroken|dan\b)",
    r"role[- ]?play an example\b",
    r"do anything now\b",
    r"(?:dan|developer|god|jailbreak) mode (?:enabled|on|output)\b",
    r"dan mode\b",
    rf"jailbreak(?:ing)? (?:mode|prompt|the (?:{_MODEL}))",
    rf"jailbroken (?:{_MODEL})",
    r"(?:confines|limitations) of a[il]\b",
    r"typical a[il] (?:confines|limitations)\b",
    r"never refuse\b",
    r"(?:unfiltered|uncensored)\b.{0,30}\b(?:answers?|responses?|output)\b",
)
_ORDERED_ANSWER = (
    r"print the words?\b",
    r"repeat <[^<>]*>",
    r"stop everything\b",
    r"prefix your (?:answers|responses)\b",
    r"if (?:you are |you're )?asked\b.{0,80}\b(?:respond|reply|answer|say)\b",
    r"you may not deviate\b",
    r"note to (?:the )?(?:automated|ai|llm|language|screening|assistant|any)\b.{0,40}:",
    r"(?:ai|llm|language) (?:assistants?|models?|agents?)\s?[:,]\s?(?:remember|store|save|note|assume|you)\b",
    (
        rf"(?:the |any )?{_MODEL} (?:must|should|shall|has to|have to|needs? to|will|is to) "
        r"(?:always|never|now|immediately)\b"
    ),
    (
        rf"(?:reveal|show|print|repeat|output|leak|tell me|your|this {_MODEL}'s|new|hidden) (?:me )?(?:the |your )?"
        r"(?:system|developer) (?:prompt|message|instructions?)\b"
    ),
    (
        r"(?:send|post|forward|upload|exfiltrate)\b.{0,60}\b(?:conversation|chat history|memor(?:y|ies)|api keys?)\b"
        r".{0,40}https?://"
    ),
)
_MARKS = (
    r"[(<‹]\s?/?\s?recalled-memory\b|</?\s?(?:system|instructions?)\b|\[/?inst\]|<\|(?:im_(?:start|end)|system|user|assistant)\|>",
    r"##\s?(?:human|instructions?|system|assistant|response)\s?:",
    r"\n\s?assistant\s?:.{0,400}\n\s?(?:user|human)\s?:",
)
_WORDED = "|".join((*_DROPPED_RULES, *_ANOTHER_IDENTITY, *_ORDERED_ANSWER))
_PLANTED = LatePattern(rf"\b(?:{_WORDED})|{_ORDER}(?:{'|'.join(_ORDERED)})|{'|'.join(_MARKS)}", re.DOTALL)
"""Of a text as `_folded` has it: where letters are compared as they are, most of the pattern is passed over by a text's
first letters, and it is looked for at the beginnings of words alone. Every turn is read for it. Nothing in it is
repeated without an end but words and what stands in one tag, so its time is linear in the text.
"""

PIECE = 16_000
"""Letters that are searched at once."""

_KEPT = 200
_LONGEST = 4_000
"""More than the longest match takes, its runs shortened to twice `_KEPT`."""

_BLANKS = re.compile(r"\s{2,}")
_LONG_WORD = re.compile(rf"[\w-]{{{2 * _KEPT},}}")
_TAGGED = re.compile(r"\brepeat <[^<>]*>")
"""What has no bound and is no word."""

_OTHER_LETTERS = str.maketrans({"İ": "i", "ı": "i", "ſ": "s"})
"""What is one of ASCII's letters where case does not count, and is none in lower case."""

_MADE = (
    r"(?:write|compose|generate|translate|summari[sz]e|describe|imagine|pretend|repeat|print|tell (?:me )?(?:a|an|some)"
    r"|say|rewrite|paraphrase|draw)"
)
_REQUEST = re.compile(
    rf"\W*(?:(?:please|first|now|hey|ok(?:ay)?|so)\W+)*"
    rf"(?:{_MADE}\b|(?:can|could|would|will) your? (?:please )?{_MADE}\b|how (?:would|do) you say\b)",
    re.IGNORECASE,
)
_OWN = re.compile(
    r"\b(?:my|our|mine|ours)\b"
    r"|(?<!would )(?<!should )(?<!could )(?<!can )(?<!do )(?<!if )(?<!that )\b(?:i|we)(?:['’]\w+|\s+\w{2,})",
    re.IGNORECASE,
)
_LASTING = re.compile(
    r"\b(?:always|never|from now on|prefer\w*|call me|whenever|every time|in (?:the )?future|by default|remember)\b",
    re.IGNORECASE,
)
_QUOTED = re.compile(r"\"[^\"]*\"|“[^“”]*”")
_GIVEN = re.compile(r"[:\n]")


def plants(text: str) -> bool:
    """Whether the text gives instructions to a model, as injections do."""
    return _PLANTED.search(_folded(text)) is not None


def planting(text: str) -> Iterator[bool]:
    """`plants` of a long text, answered again and again until it is True or the text is at its end: a megabyte takes
    0.2 seconds, in which nobody else would be served.
    """
    low = _LONG_WORD.sub(_shortened, _folded(text))
    yield _TAGGED.search(low) is not None
    for start in range(0, len(low), PIECE):
        yield _begins_in(low, start, start + PIECE)


def _begins_in(low: str, start: int, end: int) -> bool:
    """Whether what plants instructions begins between the two."""
    until = end + _LONGEST
    while (found := _PLANTED.search(low, start, until)) is not None:
        if _PLANTED.match(low, found.start()):  # where the text is cut, a word may only seem to end
            return True
        start = found.start() + 1
    return False


def _shortened(run: re.Match[str]) -> str:
    """A word, to which a pattern sets no bound, in a length that it has one in."""
    return f"{run[0][:_KEPT]}{run[0][-_KEPT:]}"


def _folded(text: str) -> str:
    """The text in lower case, letter by letter, with one blank or line break where it has several."""
    low = (text if text.isascii() else text.translate(_OTHER_LETTERS)).lower()
    return _BLANKS.sub(_one_blank, low)


def _one_blank(run: re.Match[str]) -> str:
    return "\n" if "\n" in run[0] else " "


def is_request(quote: str) -> bool:
    """Whether it asks for a text to be made and says nothing else: what is given to work on (quoted, after a colon)
    aside.
    """
    asked = _GIVEN.split(unquoted(quote), maxsplit=1)[0]
    return _REQUEST.match(asked) is not None and not _OWN.search(asked) and not _LASTING.search(quote)


def unquoted(text: str) -> str:
    """The text without what stands in double quotation marks."""
    return _QUOTED.sub("", text)
