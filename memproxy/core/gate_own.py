"""Whether a question without "my" or a name is about somebody's own life: a definite everyday thing ("when is the
recital"), an occasion near now ("what happened on Sunday"), or what people around the user have and do ("who has a
van").

It is told by what is missing: no name that the world knows, nothing that there is only one of, nothing that says which
of all ("the price of gold", "the dosage for aspirin"), no extreme, no mechanism ("how does the thermostat work").
"""

import re

from memproxy.core.gate_earlier import HISTORY
from memproxy.core.gate_match import MOST_READ, any_of, words_of
from memproxy.core.gate_names import KNOWN_PLACES
from memproxy.core.gate_words import FAMOUS, IRREGULAR, STATES
from memproxy.core.late import LatePattern

_WEEKDAY = r"(?:mon|tues|wednes|thurs|fri|satur|sun)day"
_MONTH = r"(?:january|february|march|april|june|july|august|september|october|november|december)"
_NEAR_NOW = rf"(?:{_WEEKDAY}|this (?:morning|afternoon|evening)|the \d{{1,2}}(?:st|nd|rd|th)(?! (?:of|{_MONTH})\b))"

_CAPITAL = re.compile(
    rf"(?<=\W)(?!(?i:{_WEEKDAY}|{_MONTH}|may)s?\b|(?:TV|PIN|USB|BBQ|GP|ID|PC|CV|AC|MRI|OK|WLAN)\b"
    rf"|Wi-?Fi\b)[A-Z][A-Za-z]"
)
"""A name: everyday abbreviations, weekdays and months are none."""

_UNIQUE = frozenset(
    """
    acronym acropolis alps amazon andes antarctic appendix arctic asteroid atlantic atmosphere atom atoms average
    bacteria beatles bladder blood body bone bones brain canyon caribbean cell cells clocks colon colosseum comet
    constitution continent continents cornea court diaphragm dna dollar eclipse economy eiffel electron epiglottis
    equator equinox esophagus euro fbi federal femur flu galaxy gene gestation gland gravity heart himalayas human
    humans hurricane incubation industrial inflation internet intestine irs kidney kidneys kremlin law leaves liver
    louvre lung lungs marathon mating mediterranean molecule monarchy nerve nile noun ocean oceans olympics ozone
    pacific pancreas parliament parthenon pentagon percentage phrase planet planets plural pole poles prefix prime pupil
    rainforest reef retina rockies sahara season senate skeleton skin skull sky solar solstice speed spine spleen
    stars stomach suffix sun supreme synonym taj term thames thyroid tongue tonsils tropics uterus vatican verb veto
    virus vote web word yolk
    """.split()  # noqa: SIM905
)
"""What there is only one of, what everybody has, and what words and laws are asked about."""

_KNOWN_BY_NAME = (FAMOUS | KNOWN_PLACES) - frozenset(
    """
    anybody anyone apple children everybody everyone lent man men nobody people somebody someone windows woman women
    """.split()  # noqa: SIM905
)
"""The famous and large places, without the words among these that everybody's life has."""

_FIXED = (
    r"(?:tune|stock|order|place|use|time|progress|storage|school|bed|hospital|town|writing|advance|person|sale|rent|now"
    r"|dinner|lunch|breakfast|pick-?up|collection|delivery|work|good|free)"
)
"""What "in" and "for" make an expression with."""

_GENERAL = re.compile(
    r"\b(?:best|worst|most|least|normal|typical|typically|ideal|nearest|closest|than|difference|same|right to"
    r"|power to|proper|correct|mean|means|stand for|originate|made of|made from|used for|consist|compare|invent\w*"
    r"|considered|allowed to|extinct|poisonous|edible|dangerous|(?:un)?healthy|(?:il)?legal|(?:hard|easy"
    r"|difficult) to|(?:good|bad) for|great wall|minimum wage|(?:dead|red|black|north|baltic) sea|(?:a|per) (?:day"
    r"|week|month|year)|the (?!request|harvest|interest|contest|forest|latest)\w{2,}[a-z]est)\b"
    rf"|\b(?:(?<!kind )(?<!type )(?<!sort )of|in|for|between|than|per) "
    rf"(?!{_FIXED}\b|the\b|this\b|that\b|{_MONTH}\b|may\b)\w"
)
"""What asks for all of a kind, for an extreme, or how something is made; and what says which of all."""

_IS = r"(?:is|are|was|were|isn't|aren't)"
_DO = rf"(?:{_IS}|does|do|did|has|have|had|will|should|can|could)"

_ROLE = (
    r"(?:accountant|babysitter|best man|builder|caterer|coach|cleaner|contact|decorator|electrician|gardener|godfather"
    r"|godmother|host|landlady|lawyer|manager|nanny|organi[sz]er|photographer|physio(?:therapist)?|plumber|roofer"
    r"|supervisor|supplier|surveyor|teacher|tenant|tutor|vet|witness)"
)
"""Whom people have to do with, so that "the" one is theirs."""

_THING = any_of(
    rf"(?:when|where)(?:'s| {_DO}) the \w",
    rf"how (?:much|long|far|big|old|wide|heavy|thick|often|late|early|soon|many \w+) (?:{_DO} |along"
    rf" {_IS} )the \w",
    r"how much (?:for|about) the \w",
    rf"how (?:much|many) \w+ (?:{_DO}|goes into|go into) the \w",
    rf"how (?:much|many) \w+ {_IS} (?:still )?(?:booked|due|left|missing|needed|owed|paid|spent)$",
    r"how(?:'s| is| are| did| does) the (?:\w+ ){1,3}(?:go|going|coming|coming along|healing|doing|turn out"
    r"|work out|taste|end|look|feel|feeling|sound)$",
    r"what(?:'s)? happened (?:to|at|with|in|during|after|before|on) the \w",
    rf"(?:what|which) (?:size|colou?rs?|brand|make|model|shape|day|days|date|time|floor|room|gate|seat|number"
    rf"|platform|shade|bus|train|flight|street|shelf|drawer|box|bag) (?:{_DO}) the \w",
    r"what(?:'s| is| was| are| were) the (?:\w+ ){0,2}(?:code|pin|pass(?:code|word|phrase)|score|grade|status"
    r"|combination|dose|dosage|diagnosis|estimate|quote|invoice|deposit|venue|seating|verdict"
    r"|(?:account|order|policy|booking|phone|tracking"
    r"|customer|confirmation|licen[cs]e|room|locker|serial) number|due date|start date|move-in date|headcount"
    rf"|(?:licen[cs]e|number) plate|excess|deductible|pocket money|theme|name of the {_ROLE}"
    r"|\w+'s (?:phone |email )?(?:name|address|bill|birthday|email|estimate|fee|job|number|phone|quote|rate"
    r"|schedule))(?: (?:for|to|of|on|at|in) the \w+(?: \w+){0,2})?$",
    rf"what(?:'s| {_IS}) (?:still |left |planned |missing |needed |wrong )?(?:in|on|at|under|behind|inside|with"
    r"|from|for) the (?:\w+ )?\w+$",
    r"what(?:'s| is| was) the (?:time|date|day|price|cost|colou?r) of the (?:\w+ )?\w+$",
    rf"(?:when|where|how (?:long|much|often)|what time)(?:'s| {_DO}) (?:practi[cs]e|training|rehearsals?|lunch|dinner"
    r"|breakfast|class|classes|lessons?|choir|church|bedtime|check-?in|check-?out|pick-?up|drop-?off|delivery|boarding"
    r"|kick-?off|school|physio|therapy|surgery|bin day|visiting hours)(?: (?:start|begin|end|finish|over|out|due))?$",
    rf"(?:is|does|was|will) {_WEEKDAY} (?:still )?(?:be )?(?:free|work|good|fine|ok|okay|booked|taken|busy|full)$",
    rf"what(?:'s| {_IS}) (?:still |left to )\w|what needs \w+ing\b|what went wrong\b",
    rf"(?:what|which) (?:(?:kind|type|sort|brand) of )?\w+ (?:{_IS} (?:on|in|at) the \w+|(?:is|was|were"
    r"|are) (?:booked|bought|broken|chosen|due|left|missing|ordered|picked|planned|served))$",
    r"which of the \w+ (?:is|was|are|were) \w+$",
    r"how many (?:people|guests|kids|friends|families) (?:signed up|came|said|cancelled|are coming|will come)\b",
    rf"who(?:'s| is| was) the (?:new (?:\w+ )?\w+|(?:\w+ )?{_ROLE})$",
    r"which (?:key|bus|train|tram|pharmacy|shop|store|bank|account|card|switch|button|remote|cable|neighbou?r|drawer"
    r"|doctor|dentist|teacher|school|box|bag) (?:\w+ )?\w+ the \w+$",
    r"what (?:broke|leaked|arrived)\b|what(?:'s| is| was) the \w+ set to$|who (?:sent|brought|ordered) \w+$",
    r"who (?:can't|cannot|can) (?:eat|drink|drive|come)\b|who (?:said (?:yes|no)|gave up|won) (?:the |to the )?\w+$",
    r"what (?:does|do|did) the \w+ (?:\w+ )?(?:cost|charge|weigh|want|like|need|say|earn|owe|think|prefer)\b",
    r"(?:is|are|was|were) the (?!(?:\w+ ){1,3}an? )\w+ \w|(?:does|do|has|have|will|can) the \w+ \w",
    r"who (?:brought|cut|mowed|trimmed|washed|took over|took|borrowed|lent|paid|bought|ordered|baked|cooked|cleaned"
    r"|delivered|installed|fixed|repaired|broke|walked|fed|watered|ate|left|lost|sent|picked|drove|gave"
    r"|hosted|organi[sz]ed|recommended|got|made|spilled"
    r"|cancelled|booked|forgot|called|came to|went to|was at|is at) the \w",
    rf"(?:who|whose)(?:'s| {_IS}|'ll| will| can) (?:be )?(?:bringing|coming|going|picking|driving|hosting|cooking"
    r"|baking|paying|taking|babysit\w*|joining|staying|visiting|looking after|making the|doing the|feeding|watering"
    r"|walking|helping|feed|drive|host|pick|bring|invited)\b",
)
"""A definite thing, or an occasion, in what only whoever has it is asked about."""

_PERSON = any_of(
    r"who(?:'s got| has(?: got)?| have| had| owns?| owned| keeps?| needs?| runs?) (?:an? |the |two |three |no |some"
    r" )?(?:\w+ ){0,2}\w+(?: (?:to|for|at|from) the (?:\w+ )?\w+)?$",
    r"who (?:knows|plays|speaks|likes|loves|hates|wants|drives|rides|teaches|feeds|waters|walks|babysits|collects"
    r"|bakes|cooks|sews|paints|swims|sings in|works|volunteers|lives|studies|comes|moved|went"
    r"|goes) (?:\w+ ){0,3}\w+$",
    rf"who(?:'s| {_IS}) (?:also )?(?:{'|'.join(sorted(STATES - {'related', 'born', 'available', 'called'}))}"
    r"|vegetarian|vegan|diabetic|from|sitting|next|watching|minding|(?:left|right)-handed|(?:good|bad) at|in charge"
    r"|on (?:call|duty))\b",
)
"""Who has, does or is something that people do every day."""

_PERSON_PLACES = re.compile(r"who (?:speaks|lives|works|studies|comes|moved|went|goes|is|was) \w+ ?\w*")

_HOW_WAS = re.compile(r"how (?:was|were) (?!it\b|you\b)(?:the )?\w|how(?:'s| is| are) the \w+(?: \w+)?$")
_PASSIVE = LatePattern(
    rf"(?:\w+ed|{'|'.join(sorted(IRREGULAR))}|able|possible|it|began|born|formed|different|similar|important"
    rf"|\w*\d{{2,}})\b",
    most=MOST_READ,
)
"""How was something done, made or found: the world knows. How it was, only who was there."""

_EVERYDAY = re.compile(
    r"\b(?:church(?! of\b)|(?:christmas|farmers'?|flea|street) market|signed up|(?<=been )(?:built|painted"
    r"|published|released))\b"
)
"""What is no history by itself."""

_WHEN = re.compile(
    rf"\b(?<!black )(?<!bloody )(?<!good )(?<!easter )(?<!palm )(?<!super )(?<!cyber )(?<!ash ){_NEAR_NOW}\b"
    r"(?: (?:morning|afternoon|evening|night))?$|\bhappened today\b"
)
_NEAR_NOW_ENDS = ("day", "morning", "afternoon", "evening", "night", "st", "nd", "rd", "th")
"""How what `_WHEN` finds ends: most questions need not be scanned for it."""

_ALWAYS = re.compile(r"why|(?:can|could|does|do|is|are) (?:you|people|banks?|shops?|stores?|mail)\b")

_LEADING = re.compile(r"^(?:(?:and|but|or|also) )?(?:(?:in|on|at|from|to|for|with|by|under) (?=wh|how))?")
"""What may stand before a question's first word."""

_TOLD_TO_BOT = re.compile(
    r"\bshould you (?:always |never )?(?:answer|reply|respond|write|speak|talk|address|call|sign|greet|phrase"
    r"|format)\b|\bshould you (?:\w+ ){0,2}(?:use|put|include|avoid) (?:in|for|when|with) (?:\w+ )?(?:e?-?mails?"
    r"|messages?|letters?|repl(?:y|ies)|answers?|code|comments?|(?:you|one) (?:write|reply|answer))\b"
    r"|\bshould your (?:answer|repl|response|message|email)\w*\b"
    r"|\b(?:language|tone|style|format|units?|spelling|pronouns?|currency) should you (?:use|write|keep|give)\b"
    r"|\bshould you use emojis?\b|\bhow (?:formal|brief|long|short|detailed|polite) should you be\b"
)
"""What the assistant was told about how to answer."""


def told_to_bot(bare: str) -> bool:
    """Whether a question (in lower case) is after how the assistant was told to answer."""
    return "should you" in bare and _TOLD_TO_BOT.search(bare) is not None


def asks_of_own_life(bare: str, text: str) -> bool:
    """Whether a general-looking question (``bare``: lower case, without what leads up to it; ``text``: as written) can
    be answered only by those whose life it is about.
    """
    if told_to_bot(bare):
        return True
    bare = _LEADING.sub("", bare, count=1)
    how_was = _HOW_WAS.match(bare) is not None
    near_now = bare.endswith(_NEAR_NOW_ENDS) and _WHEN.search(bare) is not None and not _ALWAYS.match(bare)
    person = _PERSON.match(bare) is not None
    if not (how_was or near_now or person or _THING.match(bare)):  # anchored, so cheaper than what follows
        return False
    words = words_of(bare)
    if not _UNIQUE.isdisjoint(words) or HISTORY.search(_EVERYDAY.sub("", bare)):
        return False
    if how_was:
        return not _PASSIVE.search(bare, len("how is"))
    if (_CAPITAL.search(text) and not text.isupper()) or not _KNOWN_BY_NAME.isdisjoint(words):
        return person and _PERSON_PLACES.match(bare) is not None
    return near_now or _GENERAL.search(bare) is None
