"""“I'm at Nubank now” of who has just left another employer, “Antwerp, that's home now”: said as the rules read it."""

import re

import msgspec

from memproxy.learn.rules.model import Clause

_NAME = r"(?-i:[A-Z])[\w&+-]*(?:[. ](?-i:[A-Z])[\w&+-]*){0,3}"
_IS_AT = re.compile(
    rf"(?P<who>I|we|(?:my|our) [\w -]{{2,30}}?|(?-i:[A-Z])\w+)(?P<be> am| are| is)(?: now| currently| working)? "
    rf"(?:at|with|for) (?P<x>(?:the )?{_NAME})(?P<now>(?:,? (?:now|these days|instead|currently|nowadays|since|from|in|"
    rf"as)\b.*)?)[.!]?$",
    re.IGNORECASE,
)
_LEFT = re.compile(
    r"\b(?:quit|resigned|laid off|let go|got fired|was fired|handed in|gave notice|(?:new|changed|switched|switching|"
    r"swapped) (?:jobs?|employers?)|last day (?:at|with)|(?:no longer|not|n['’]t) (?:\w+ )?(?:at|with|for) "
    r"(?-i:[A-Z])[\w&.-]*(?: any ?more| any longer)?|done (?:at|with) (?-i:[A-Z])\w*|finished at|"
    r"(?:left|leaving) (?:my (?:old )?(?:job|employer|company)|(?-i:[A-Z])[\w&]*))",
    re.IGNORECASE,
)


_HOME = re.compile(
    rf"\b(?P<x>{_NAME}),?(?: (?:and|-|–))?(?: (?:that|which|this|it)(?: is|['’]s)| is) (?:where I live|where we live|"
    rf"(?:my |our )?(?:new )?home)(?P<now> now| these days| since\b[^.,;(]*)"
    rf"|\b(?:my |our )?home (?:is|['’]s) (?:now )?(?P<y>{_NAME})(?: now| these days)",
    re.IGNORECASE,
)


def at_home(whole: Clause) -> list[Clause]:
    """“For Antwerp, that's home now”, of a whole sentence: as a clause that says where the user lives."""
    match = _HOME.search(whole.text)
    if match is None or whole.text.rstrip().endswith("?"):
        return []
    return [msgspec.structs.replace(whole, text=f"I live in {match['x'] or match['y']} now")]


def at_work(clause: Clause) -> Clause:
    """The clause of who left an employer, said of where he works: "I left Brightly, I'm at Nubank now"."""
    match = _IS_AT.match(clause.text)
    if match is None or _LEFT.search(clause.evidence) is None:
        return clause
    verb = "works" if match["be"].strip().lower() == "is" else "work"
    return msgspec.structs.replace(clause, text=f"{match['who']} {verb} at {match['x']}{match['now']}")
