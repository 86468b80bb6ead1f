"""What a clause denies or says has come to nothing, found by what is known and not by how it is put.

"Nele doesn't play the cello any more" denies whatever is known that speaks of Nele, playing and the cello; "there
won't be a wedding", "the gym thing lasted until July" end what is known of the noun. Only what is told plainly as so
is denied, of earlier turns, and where more than a few statements could be meant none is.
"""

import re
from collections.abc import Iterator

from memproxy.learn.candidates import Extracted
from memproxy.learn.rules.ledger import Known, Ledger, forgotten, terms
from memproxy.learn.rules.model import Clause
from memproxy.learn.rules.values import names_in

_DENIES = re.compile(
    r"(?P<who>(?:(?:my|our|the) )?[\w'’-]+(?: [\w'’-]+){0,2}?) "
    r"(?:(?:(?:am|are|is|was|were|do|does|did|have|has|can|will) (?:not|never)|cannot)(?: (?:actually|really|even))?"
    r"|(?P<ends>(?:am |are |is |has |have )?(?:no longer|stopped|quit|given up|gave up|done with|finished with)))"
    r" (?P<rest>.+)",
    re.IGNORECASE,
)
_ENDED = re.compile(
    r"(?:any ?more|no longer|nowadays|these days|after all|turns out|turned out|"
    r"(?:in|for) (?:ages|weeks|months|years))\b",
    re.IGNORECASE,
)
_REST = re.compile(
    r"[,;:!?.(](?:\s|$)|\s(?:any ?more|at all|after all|now|these days|because|since|so|but|"
    r"(?:in|for) (?:ages|weeks|months|years)|and (?:I|we|he|she|they)|"
    r"until|till|when|while|if|unless)\b",
    re.IGNORECASE,
)
_COMES_TO_NOTHING = (
    re.compile(
        r"there (?:will|is going to|was|is)(?: (?:not|no longer|never)(?: going to)?(?: be)?)(?: any| an?| the| our| "
        r"my)? (?P<x>[\w' -]{3,30}?)(?: any ?more| after all| now| this (?:year|time|summer|winter))?(?=$|[,.;!])",
        re.IGNORECASE,
    ),
    re.compile(
        r"(?:(?:my|our|the|that|this|whole) )*(?P<x>[\w'-]+(?: [\w'-]+){0,3}?)(?: thing| business| idea| plan)? (?:"
        r"only |just |did not |does not |do not |will not |is not going to |has |have |had |is |was |came )*"
        r"(?P<how>lasted|lasting|last|work(?:ed|ing)? out|go(?:ing|es|ne)? ahead|happen(?:ed|ing)?|come off|"
        r"came to nothing|"
        r"come to nothing|to nothing|fizzled out|petered out|fallen through|fell apart|off the table|behind (?:me|us)|"
        r"past tense|in the past|a thing of the past|history)\b",
        re.IGNORECASE,
    ),
    re.compile(
        r"(?:I|we) (?:have |had to |finally |sadly |just |must |decided to )*(?:let (?P<x>(?-i:[A-Z])[\w-]+|"
        r"(?:my|our|the) "
        r"[\w' -]{3,25}?) go|put (?P<y>(?-i:[A-Z])[\w-]+|(?:my|our|the) [\w' -]{3,25}?) (?:down|to sleep)|said goodbye "
        r"to (?P<z>(?-i:[A-Z])[\w-]+|(?:my|our|the) [\w' -]{3,25}?))(?=$|[,.;!]| (?:on|in|last|this|yesterday|"
        r"today|and)\b)",
        re.IGNORECASE,
    ),
    re.compile(r"nothing (?:came|has come) of (?:the |my |our )?(?P<x>[\w' -]{3,30}?)(?=$|[,.;!])", re.IGNORECASE),
)
_NEGATED = re.compile(
    r"\b(?:not|never|no longer|nothing|came to|apart|fizzled|petered|through|off|past|history|behind)\b|"
    r"\b(?:lasted|came to)\b",
    re.IGNORECASE,
)
_OF_NOTHING = re.compile(
    r"\b(?:if|would|could|might|should|hope|afraid|worried|think|maybe|perhaps|forget)\b", re.IGNORECASE
)
_IS_DENIAL = re.compile(r"\b(?:not|never|no|no longer|nothing|n't|can't)\b|\bwithout\b", re.IGNORECASE)
_EMPTY = frozenset(
    {"thing", "one", "time", "day", "way", "lot", "bit", "go", "get", "have", "want", "need", "make", "plan"}
)
_MOST_ENDED = 3


def gainsaid(clause: Clause, ledger: Ledger, place: int) -> Iterator[Extracted]:
    """The retraction of each known statement that a clause denies or says has come to nothing."""
    if ledger.is_empty or _OF_NOTHING.search(clause.text) is not None:
        return
    earlier = [one for one in ledger.newest() if one.turn != place and _IS_DENIAL.search(one.statement.content) is None]
    for pattern in _COMES_TO_NOTHING:
        match = pattern.match(clause.text)
        if match is None or (pattern is _COMES_TO_NOTHING[1] and _NEGATED.search(match.group()) is None):
            continue
        noun = next(part for name, part in match.groupdict().items() if name != "how" and part)
        held = _of_noun(noun, earlier)
        if held:
            yield from (forgotten(one.statement) for one in held)
            return
    yield from (forgotten(one.statement) for one in _denied(clause, earlier))


def _of_noun(noun: str, earlier: list[Known]) -> list[Known]:
    """What is known of a noun or name, where that is one thing."""
    wanted = terms(noun) - _EMPTY
    held = [one for one in earlier if wanted and wanted <= one.told]
    return held if len(held) <= _MOST_ENDED else []


def _denied(clause: Clause, earlier: list[Known]) -> list[Known]:
    """What is known that says as so what the clause says is not so."""
    match = _DENIES.match(clause.text)
    if match is None:
        return []
    cut = _REST.search(match["rest"])
    wanted = terms(match["rest"][: cut.start()] if cut else match["rest"]) - _EMPTY
    own = re.fullmatch(r"(?:I|we)", match["who"], re.IGNORECASE) is not None
    who = frozenset[str]() if own else terms(match["who"])
    if not wanted or (not own and not who):
        return []
    ends = match["ends"] is not None or _ENDED.search(clause.evidence) is not None
    held = [
        one
        for one in earlier
        if who <= one.told and (not own or one.statement.subject == "user") and _is_of(wanted, who, one, ends=ends)
    ]
    return held if len(held) <= _MOST_ENDED else []


def _is_of(wanted: frozenset[str], who: frozenset[str], known: Known, *, ends: bool) -> bool:
    """Whether a statement says what is denied: all of it, and where no ending is told, hardly more than it."""
    if known.statement.stance is not None or not wanted <= known.told:
        return False
    said = terms(known.statement.content) - who - _EMPTY
    named = {term for name in names_in(known.statement.content) for term in terms(name)}
    return ends or said - named <= wanted
