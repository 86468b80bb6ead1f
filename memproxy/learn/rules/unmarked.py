"""Whose a thing or somebody is where it goes without saying: "Mum's 79", "house is from 1962", "the cat's called Moo".

People near, and the few things that everybody has one of, are said without "my"; with "the" when they come up for the
first time. What came up before (somebody else's dog) stays as it is written.
"""

import re

from memproxy.learn.rules.words import PETS

_KIN = (
    r"mum|mom|mommy|mummy|dad|daddy|grandma|grandpa|granny|gran|granddad|hubby|wifey|husband|wife|boyfriend|girlfriend|"
    r"(?:my )?(?:bro|sis)"
)
_THINGS = (
    r"house|flat|apartment|rent|mortgage|salary|landlord|landlady|internet|heating|boiler|commute|budget|car|bike|"
    r"phone|laptop|kitchen|garden|balcony|bedroom|living room|job|boss|manager|team|company|wedding|shift|"
    r"school|nursery|gym|kids|twins|baby|due date|flight|blood type|shoe size|height|weight|birthday"
)
_BE = (
    r"(?:(?P<is>'s|’s)(?= (?:an?|the|not|now|on|in|at|from|only|still|about|around|turning|getting|having|coming|"
    r"moving|going|working|living|retiring|starting|visiting|allergic|vegan|vegetarian|diabetic|deaf|blind|retired|"
    r"pregnant|called|named|due|scared|afraid|into|obsessed|\d))"
    r"|(?P<has>'s|’s)(?= (?:got|been|gone|moved|had|become|started|stopped)\b)"
    r"|(?P<verb> (?:is|are|has|have|was|were|lives?|works?|starts?|ends?|opens?|costs?|goes|comes|moved|turns|turned|"
    r"wants|needs|takes|eats|plays|speaks|hates|loves|likes|cannot|does not|retired|died|had|got|went)\b))"
)
_FAMILY = re.compile(rf"(?P<who>{_KIN}){_BE}", re.IGNORECASE)
_OWN = re.compile(rf"(?P<who>{_THINGS}){_BE}", re.IGNORECASE)
_RELATIONAL = (
    rf"(?:(?:new|old|little|big|older|younger) )?(?:{'|'.join(sorted(map(re.escape, PETS), key=len, reverse=True))}|"
    r"kids|twins|baby|landlord|landlady|boss|wife|husband|missus|hubby|neighbours|neighbors|choir|band|car|van)"
)
_THE = re.compile(rf"the (?P<who>{_RELATIONAL}){_BE}", re.IGNORECASE)
_LASTING = re.compile(
    r"(?:is|are|'s|’s|has|have) (?:called|named|\d|(?:now )?(?-i:[A-Z])\w|an? |allergic|with (?:me|us)|vegan|from)|"
    r"(?:lives?|goes|go|works?|eats?|plays?|speaks?|starts?|costs?|hates?|loves?|likes?)\b",
    re.IGNORECASE,
)


def owned(text: str) -> str:
    """The clause with the "my" that it leaves out before somebody near or a thing of the speaker's."""
    match = _FAMILY.match(text) or _OWN.match(text)
    return text if match is None else _with_my(text, match)


def first_mentioned(text: str, before: str) -> str:
    """The clause with "my" for the "the" of who or what comes up for the first time and is somebody's by nature."""
    match = _THE.match(text) if text[:3].lower() == "the" else None
    if match is None or _LASTING.match(text[match.end("who") :].strip()) is None:
        return text
    noun = match["who"].rsplit(maxsplit=1)[-1].lower()
    if noun in before.lower():
        return text
    return _with_my(text, match)


def _with_my(text: str, match: re.Match[str]) -> str:
    who = match["who"].lower().removeprefix("my ")
    who = {"bro": "brother", "sis": "sister", "hubby": "husband", "missus": "wife", "wifey": "wife"}.get(who, who)
    many = who in ("kids", "twins", "neighbours", "neighbors")
    verb = match["verb"] or (" has" if match["has"] else " are" if many else " is")
    return f"my {who}{verb}{text[match.end() :]}"
