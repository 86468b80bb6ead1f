"""A value put right within the sentence that says it: "at 9, no wait, 10" says "at 10".

Only where the word of repair stands between two values of one sort; the sentence is then read as if the first had never
been said.
"""

import re

from memproxy.learn.rules.frames import NUMBER_WORDS

_MARK = re.compile(
    r"[\s,.;:–—-]*[\s,.;–—-](?:(?:oh|uh|um|er|err|ah|hm+|argh|haha|lol|well|no|nope)[,.]?\s+)*"
    r"(?:no,?\s+wait|wait,?\s+no|wait|sorry|scratch that|strike that|i mean|i meant|make that|or rather|correction|"
    r"oops|"
    r"whoops|no)[,:.]*\s+(?:(?:it's|its|it is|that's|that is|make that|make it|i mean|i meant|rather|actually)\s+)*",
    re.IGNORECASE,
)
_WHEN = r"(?:on |at |in |the )*"
_MONTHS = (
    "january|february|march|april|may|june|july|august|september|october|november|december|jan|feb|mar|apr|jun|jul|aug|"
    "sept?|oct|nov|dec"
)
_SORTS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"(?:\d{{1,2}}(?:st|nd|rd|th)?(?: of)? (?:{_MONTHS})|(?:{_MONTHS}) \d{{1,2}}(?:st|nd|rd|th)?)\b",
        r"\d{1,2}(?:st|nd|rd|th)\b",
        r"(?:mon|tues|wednes|thurs|fri|satur|sun)days?\b",
        rf"(?:{_MONTHS})\b",
        r"\d{1,2}(?:[:.]\d\d)? ?(?:[ap]m\b)",
        r"[$€£¥]\d[\d.,]*\d?k?\b",
        r"\d(?:[\d.,:]*\d)?(?:[ -]?[a-z]+\b)?",
        rf"(?:{NUMBER_WORDS})(?:-[a-z]+\b)?",
        r"(?:light |dark )?(?:red|orange|yellow|green|blue|purple|pink|brown|black|white|gr[ae]y|beige|teal|silver)\b",
        r"(?-i:[A-Z][a-z]+(?: [A-Z][a-z]+)?)\b",
    )
)
_NEAR = 45
"""Characters before the word of repair in which the wrong value stands."""


_NAMES_WRONG = re.compile(
    r"\b(?:not|n't|isn't|said|say|wrote|told you|instead of|rather than|mistyped|typed|gave you) (?:[\w']+ ){0,2}$",
    re.IGNORECASE,
)
"""What stands behind these is called wrong by the sentence itself, which the rules of corrections read."""


def repaired(sentence: str) -> str:
    """The sentence with the right value alone, else as it is."""
    for mark in _MARK.finditer(sentence):
        after = sentence[mark.end() :]
        for sort in _SORTS:
            new = re.compile(rf"{_WHEN}(?P<x>{sort.pattern})", re.IGNORECASE).match(after)
            if new is None:
                continue
            held = [one for one in sort.finditer(sentence[: mark.start()]) if mark.start() - one.end() <= _NEAR]
            if held and _NAMES_WRONG.search(sentence[: held[-1].start()]):
                return sentence
            if held and held[-1].group().casefold() != new["x"].casefold():
                begin, end = held[-1].span()
                between = sentence[end : mark.start()]
                rest = after[new.end() :]
                new_value = _completed(held[-1].group(), new["x"])
                return f"{_with_article(sentence[:begin], new_value)}{between}{rest}"
            break
    return sentence


def _completed(old: str, new: str) -> str:
    """“5” said for “4 pm” is “5 pm”."""
    unit = re.search(r"(?<=\d)(?P<unit>[ -]?[a-z]+)$", old, re.IGNORECASE)
    return new + unit["unit"] if unit is not None and re.fullmatch(r"\d[\d.,:]*", new) else new


def _with_article(before: str, value: str) -> str:
    article = "an " if value[:1].lower() in "aeio8" else "a "
    return re.sub(r"\ban? $", article, before) + value
