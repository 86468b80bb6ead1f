"""“I'm at Nubank now” of who has just left another employer, “Antwerp, that's home now”: said as the rules read it.

Who left a place at six, or is somewhere for a meeting, changed nothing that lasts.
"""

import re

import msgspec

from memproxy.learn.rules.lexicon import PASSING_VERBS
from memproxy.learn.rules.model import Clause
from memproxy.learn.rules.words import NOT_A_NAME

_NAME = r"(?-i:[A-Z])[\w&+-]*(?:[. ](?-i:[A-Z])[\w&+-]*){0,3}"
_IS_AT = re.compile(
    rf"(?P<who>I|we|(?:my|our) [\w -]{{2,30}}?|(?-i:[A-Z])\w+)(?P<be> am| are| is)(?: now| currently| working)? "
    rf"(?:at|with|for) (?P<x>(?:the )?{_NAME}|an? [a-z]+(?: [a-z]+)?(?= now\b))(?P<now>(?:,? (?:now|these days|"
    rf"instead|currently|nowadays|since|from|in|"
    rf"as)\b.*)?)[.!]?$",
    re.IGNORECASE,
)
_LEFT = re.compile(
    r"\b(?:quit|resigned|laid off|let go|got fired|was fired|handed in|gave notice|(?:new|changed|switched|switching|"
    r"swapped) (?:jobs?|employers?)(?!\W*\?)|last (?:day|shift|week) (?:at|with)|(?:no longer|not|n['’]t) (?:\w+ "
    r")?(?:at|with|for) "
    r"(?-i:[A-Z])[\w&.-]*(?: any ?more| any longer)?|done (?:at (?:the )?\w+|with (?-i:[A-Z])\w*)|finished at|"
    r"(?:left|leaving) (?:my (?:old )?(?:job|employer|company)|(?-i:[A-Z])[\w&]*))",
    re.IGNORECASE,
)
_I = re.compile(r"\b(?:I|we)\b", re.IGNORECASE)
_ANOTHER = re.compile(r"\b(?:my|our|his|her|their|he|she|they|the)\b", re.IGNORECASE)
_BREAK = re.compile(r"[,;:.!?]|\b(?:and|but|so|because|since|after)\b", re.IGNORECASE)
_NEAR = 160
"""Characters before a clause in which a job was left or found."""

_LEAVES = re.compile(r"\b(?:left|leaving) (?:the )?(?-i:[A-Z])[\w&]", re.IGNORECASE)
_IS_SOMEWHERE = re.compile(
    r"(?:I|we|he|she|they|(?:my|our) [\w -]{2,30}?|(?-i:[A-Z])\w+) (?:am|are|is) (?:now |currently |just |here )?"
    r"(?:at|in|with|on|by)\b",
    re.IGNORECASE,
)
_COUNT = r"(?:\d+|an?|half an|a couple of|a few|two|three|four|five|six|seven|eight|nine|ten|twenty|thirty)"
_TIME_OF_DAY = re.compile(
    r"\b(?:(?:at|around|about|by)(?: around| about)? (?:noon|midday|midnight|lunch(?:time)?|dawn|sunrise|sunset|"
    r"half past|quarter (?:past|to)|(?:[01]?\d|2[0-4])(?:[:.]\d\d)?(?: ?(?:[ap]\.?m\b|o['’]?clock|h\b)|(?!\w|[.,]\d)))"
    r"|(?:this|yesterday|early|late) (?:morning|afternoon|evening|noon)|tonight|last night|(?:early|late) today|"
    rf"(?:early|late)(?= this| again| to\b| for\b|\W*$|[,.;!])|{_COUNT} (?:minutes?|mins?|hours?) ago|"
    r"after (?:work|lunch|breakfast|(?:my|the) shift)|for (?:today|the (?:day|night|weekend|evening|afternoon)))\b",
    re.IGNORECASE,
)
_ERRAND = re.compile(
    rf"\bfor (?:{_COUNT} (?:days?|nights?|hours?|minutes?)|(?:an? |the |my |our |some |this |another )?"
    r"(?:[\w-]+ ){0,2}?"
    r"(?:meetings?|calls?|conference|concert|festival|fair|gig|show|match|game|weekend|night|day|holidays?|vacation|"
    r"lunch|dinner|breakfast|brunch|coffee|drinks?|interview|visit|wedding|funeral|birthday|party|training|workshop|"
    r"appointment|trip|break|demo|pitch|talk|presentation|course|exam|check-?up|reunion|summit|hackathon|offsite|"
    r"event|walk|run|swim|haircut)\b)|"
    rf"\b(?:am|['’]m|are|['’]re|is|['’]s) (?:now |just )?(?:at|in|with) (?:the )?{_NAME}(?: now| right now| today)? "
    r"for (?:an? |the |my |our |some |this )(?!(?:\w+ )?(?:jobs?|role|position|post|career|long|foreseeable|years?|"
    r"decade|months?|degree|studies)\b)|"
    r"\bto (?:meet|visit|pick|grab|buy|watch|attend|eat|drink|have (?:an? )?(?:lunch|dinner|breakfast|coffee|drink))\b|"
    r"\b(?:visiting|waiting|meeting|having)\b|"
    r"\bon (?:business|holiday|vacation|an? (?:trip|break|visit)|(?:my|the) way|the (?:bus|train|tram|road|plane))\b|"
    r"\b(?:am|['’]m|are|['’]re) (?:now |just |currently )*(?:at|in) (?:the |an? |my )?(?:home|gym|airport|station|"
    r"beach|pub|bar|caf[ée]|coffee shop|supermarket|shop|store|mall|doctors?|doctor['’]s|dentist|vet|park|cinema|"
    r"restaurant|hotel|pool|bus stop|playground|bed|car|traffic|gate|lounge|parking lot|car park)\b",
    re.IGNORECASE,
)
_LASTS = re.compile(r"\bfor (?:good|ever)\b|\bforever\b|\bnew (?:job|home)\b|\bmoved\b|\bquit\b|\bresigned\b", re.I)


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


def at_work(clause: Clause, told: str) -> Clause:
    """The clause of who left an employer or found one, said of where he works: "I left Brightly, I'm at Nubank now".

    ``told`` is what was said before it: "New job! I'm at Nubank now".
    """
    match = _IS_AT.match(clause.text)
    if match is None or not changes_job(clause, told):
        return clause
    verb = "works" if match["be"].strip().lower() == "is" else "work"
    text = f"{match['who']} {verb} at {match['x']}{match['now']}"
    return msgspec.structs.replace(clause, text=text, is_correction=True)


_IN_NOW = re.compile(
    rf"(?P<who>I|we) (?:am|are) in (?P<x>{_NAME}) now[.!]?$",
    re.IGNORECASE,
)
_MOVED = re.compile(
    r"\b(?:moved|moving|relocat\w+|settled|box(?:es)?|unpack\w*|new (?:flat|apartment|place|house|home|job)|"
    r"transferred)\b",
    re.IGNORECASE,
)


def settled(clause: Clause, told: str) -> Clause:
    """“We moved. I'm in Rome now”: said as where somebody lives; ``told`` is what was said before."""
    match = _IN_NOW.match(clause.text)
    if match is None or _MOVED.search(f"{told[-_NEAR:]} {clause.evidence}") is None or is_errand(clause):
        return clause
    return msgspec.structs.replace(clause, text=f"{match['who']} live in {match['x']} now")


def is_passing_through(clause: Clause, home: str | None) -> bool:
    """Whether "I'm in Hamburg now" is said by who lives elsewhere (``home``) and of no move: it may be a journey."""
    match = _IN_NOW.match(clause.text)
    if match is None or home is None or match["x"] in home:
        return False
    return (
        match["x"] not in home
        and re.fullmatch(rf"\W*{_SAID_IN.pattern}\W*", clause.evidence, re.IGNORECASE) is not None
    )


_SAID_IN = re.compile(
    rf"(?:(?:hi|hey|hello|so|ok|well|and|yes|yeah)\W+)*(?:I['’]?m|I am|we['’]?re|we are) in {_NAME} now"
)


def is_errand(clause: Clause) -> bool:
    """Whether a clause tells where somebody is for hours or days, by what he does there."""
    return _ERRAND.search(clause.evidence) is not None or _TIME_OF_DAY.search(clause.evidence) is not None


def changes_job(clause: Clause, told: str = "") -> bool:
    """Whether a clause's sentence, or what was told right before, says that who speaks left or found an employer, and
    the clause names no errand that he is on. What was told before does not count for what is asked on the spot ("I'm at
    Lidl now, do they have oat milk?").
    """
    if _ERRAND.search(clause.text) is not None:
        return False
    is_own = _I.match(clause.text) is not None
    return any(
        not is_own or _is_of_user(text[: left.start()])
        for text in (clause.evidence, "" if "?" in clause.evidence else told[-_NEAR:])
        for left in _LEFT.finditer(text)
    )


def _is_of_user(before: str) -> bool:
    """Whether what follows these words is said of the user, by name or by none."""
    subject = _BREAK.split(before)[-1]
    named = [word for word in re.findall(r"\b[A-Z]\w+", subject) if word.lower() not in PASSING_VERBS | NOT_A_NAME]
    return _I.search(subject) is not None or not (named or _ANOTHER.search(subject))


def is_for_now(clause: Clause, told: str) -> bool:
    """Whether it says that somebody left a place for hours or days, or where he went then: nothing that lasts.

    ``told`` is what was said before it: "I left Berlin at eight. I'm in Hamburg now".
    """
    leaves = _LEAVES.search(clause.text) is not None
    if not leaves and _IS_SOMEWHERE.match(clause.text) is None:
        return False
    for text in (clause.evidence, "" if leaves else told[-_NEAR:]):
        if (left := _LEAVES.search(text)) is not None:
            rest = f"{text[left.start() :]} {clause.text}"
            before = _BREAK.split(text[: left.start()])[-1]
            passing = _TIME_OF_DAY.search(f"{before} {rest}") or _ERRAND.search(rest)
            return passing is not None and _LASTS.search(text) is None
    return False
