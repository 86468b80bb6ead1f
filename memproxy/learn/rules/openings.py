"""How sentences open: a greeting that introduces, a time or a turn of life said first; put as rules read it."""

import re

_INTRODUCED = re.compile(
    r"^(?:hey|hi|hello|yo)\W+(?:there\W+|all\W+)?I am (?P<name>(?!back|new|here|tired|bored|male|female|sick|"
    r"stuck|lost|"
    r"sorry|fine|ok|okay|well|good|not|so|a|an|the|in|at|on)[a-z]{2,12})(?=, \d{2}\b)(?P<rest>(?:, \d{2})?)"
    r"(?:(?P<from>,? from )(?P<town>[a-z]{3,20})(?=$|[.,!]))?"
)
"""“hey im mia, 24, from hamburg”: a name and a town, said without capitals in a greeting."""


def _capitalised(match: re.Match[str]) -> str:
    begin = match.group()[: match.start("name") - match.start()]
    town = f"{match['from']}{match['town'].capitalize()}" if match["town"] else ""
    return f"{begin}{match['name'].capitalize()}{match['rest']}{town}"


_SINCE_THEN = re.compile(
    r"^since (?:the|my|our|we|I|last) [^,.;!?]{3,50}?,? (?=(?:I|we) (?:go|get|work|live|take|eat|drink|use|"
    r"drive|run|do|keep|write|swim|walk|cycle|teach|play|pay|buy|study|read|train|prefer|"
    r"have|am|sleep|wake|wear|cook|play)\b)",
    re.IGNORECASE,
)
"""“Since the baby came I go to bed at 9”: how it is from then on."""

_FRONTED = re.compile(
    r"(?P<lead>(?:and |so |but |then |also )*)(?P<when>next (?:week|weekend|month|year|spring|summer|autumn|fall|"
    r"winter|"
    r"(?:mon|tues|wednes|thurs|fri|satur|sun)day)|tomorrow|on (?:mon|tues|wednes|thurs|fri|satur|sun)day|in "
    r"(?:two|three|"
    r"four|five|six|\d+) (?:days|weeks|months)),? (?P<said>(?:I|we) (?:will|am|are|"
    r"have)\b[^,;.!?]{4,60}?)(?P<rest>[,;.!?].*|$)",
    re.IGNORECASE | re.DOTALL,
)


_DISLOCATED = re.compile(
    r"^(?P<lead>(?:(?:so|and|but|oh|no|sorry|actually|wait),? )*)(?P<thing>(?:the|my|our|that) "
    r"(?!one\b)[\w'-]+(?: (?!just\b|has\b|have\b|rang\b|called\b|wrote\b|says?\b|said\b|is\b|was\b|\w+ed\b)[\w'-]+)?), "
    r"(?P<be>(?:it|that|he|she|they) (?:is|are|was)) (?=(?:now |actually |really )?(?:on|at|in|called|named|\d))",
    re.IGNORECASE,
)
"""“The retro, it's actually on Thursday”: what is spoken of, said first."""

_TOPIC = re.compile(
    r"^(?:(?:so|and|but|ok|oh),? )*(?:(?P<mind>(?:I )?(?:have )?changed my mind (?:about|on))|about|as for|regarding) "
    r"(?P<thing>(?:the|my|our) [\w' -]{2,40}?)[,:] (?P<rest>(?:I|we|let us|make)\b[^,;.!?]*?\b)it\b",
    re.IGNORECASE,
)
"""“About the bedroom, I want it terracotta”."""

_WRONG_THAT = re.compile(
    r"^it is (?:wrong|not true|not right|not correct|incorrect|no longer true|not true anymore) that [^:;]{3,120}?[:;] "
    r"?(?=(?:all (?:of )?)?(?:my|our|I|we)\b)",
    re.IGNORECASE,
)
"""“It's wrong that our data sits in Frankfurt: it sits in Stockholm”: what follows is right."""

_ALL_OURS = re.compile(r"\ball (?:of )?(?=(?:my|our) [a-z]+ (?:is|are|sits?|lives?|runs?)\b)", re.IGNORECASE)


def _topic_first(match: re.Match[str]) -> str:
    return f"{'actually ' if match['mind'] else ''}{match['rest']}{match['thing']}"


def _told_first(match: re.Match[str]) -> str:
    be = match["be"].rsplit(" ", maxsplit=1)[-1]
    return f"{match['lead']}{match['thing']} {be} "


_WONDERS = re.compile(r"^who(?:['’]d| would) have thought(?: it)?\W+(?=(?:I|we|my|our)\b)", re.IGNORECASE)
"""“Who'd have thought, I enjoy running now”: no question."""


def opened(text: str) -> str:
    """The sentence with its opening made plain: names have capitals, the time stands behind, "since ..." is "now"."""
    text = _SINCE_THEN.sub("now ", _INTRODUCED.sub(_capitalised, text))
    text = _TOPIC.sub(_topic_first, _DISLOCATED.sub(_told_first, text))
    text = _ALL_OURS.sub("", _WRONG_THAT.sub("correction, ", text))
    text = _WONDERS.sub("", text)
    if (fronted := _FRONTED.match(text)) is not None:
        return f"{fronted['lead']}{fronted['said']} {fronted['when'].lower()}{fronted['rest']}"
    return text
