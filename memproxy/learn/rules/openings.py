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
    r"drive|run|do|"
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


def opened(text: str) -> str:
    """The sentence with its opening made plain: names have capitals, the time stands behind, "since ..." is "now"."""
    text = _SINCE_THEN.sub("now ", _INTRODUCED.sub(_capitalised, text))
    if (fronted := _FRONTED.match(text)) is not None:
        return f"{fronted['lead']}{fronted['said']} {fronted['when'].lower()}{fronted['rest']}"
    return text
