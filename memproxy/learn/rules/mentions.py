"""What a sentence takes for granted ("my husband hugs me", "calling my son in Perth"), wherever it stands in it.

Only of what "my" and "our" bind to the speaker, and only that it is there.
"""

import re
from collections.abc import Iterator

from memproxy.core.memory import Relation
from memproxy.learn.candidates import Extracted
from memproxy.learn.rules.health import is_condition
from memproxy.learn.rules.ledger import Ledger
from memproxy.learn.rules.lexicon import DISTINCT_THINGS, DRUGS, NO_PET_NAMES
from memproxy.learn.rules.model import LESS_SURE
from memproxy.learn.rules.people import named_person
from memproxy.learn.rules.pets import named_pet
from memproxy.learn.rules.values import is_name, slug
from memproxy.learn.rules.words import CONDITIONS, PETS


def _any(words: frozenset[str]) -> str:
    return "|".join(sorted(map(re.escape, words), key=len, reverse=True))


_ADJECTIVES = (
    r"(?:(?:older|younger|little|big|eldest|youngest|oldest|new|old|twin|elderly|teenage|adult|first"
    r"|own|poor|lovely|dear|small|second-hand|two|three|four|five) )*"
)
_KIN = (
    r"wife|husband|girlfriend|boyfriend|fianc[eé]e?|son|daughter|kids|children|twins|toddler|newborn|grandson|"
    r"granddaughter|grandkids|grandchildren|grandchild|stepson|stepdaughter|stepkids|sons|daughters"
    r"|nephew|niece|nanny|au pair|"
    r"roommates?|flatmates?|housemates?|in-laws|mother-in-law|father-in-law|sister-in-law"
    r"|brother-in-law|sister|brother|sisters|brothers"
)
_RELATIVE = re.compile(
    rf"(?<!\bif )\b(?:my|our) (?P<size>{_ADJECTIVES})(?P<who>{_KIN})\b(?!-)(?!'s (?:friend|boss|class"
    rf"|school))(?!,? (?-i:[A-Z])[a-z])",
    re.IGNORECASE,
)
_PLACED = re.compile(
    rf"\b(?:my|our) (?P<who>{_ADJECTIVES}(?:parents|mum|mom|mother|dad|father|grandparents|grandma"
    rf"|grandmother|grandpa|family|best friend|{_KIN}))"
    r"(?: (?:up|down|over|back|back home))? in (?P<where>(?-i:[A-Z])[\w-]+(?: (?-i:[A-Z])[\w-]+)*)",
    re.IGNORECASE,
)
_VISITED = re.compile(
    r"\bin (?P<where>(?-i:[A-Z])[\w-]+(?: (?-i:[A-Z])[\w-]+)*) (?:visiting|seeing|staying with|with) (?:my|our) "
    r"(?P<who>parents|mum|mom|mother|dad|father|grandparents|grandma|family|sister|brother|son|daughter)\b",
    re.IGNORECASE,
)
_CHILD = re.compile(
    r"(?<!\bfor )\b(?:an?|my|our|the) (?P<age>\d{1,2}|one|two|three|four|five|six|seven|eight|nine"
    r"|ten)[- ]?(?P<unit>year|month|week|yr|mo)s?[- ]?olds?"
    r"(?P<who> (?:son|daughter|kid|boy|girl|toddler|nephew|niece|grandson|granddaughter|child"
    r"|baby))?(?=\s*$|[.,;!?)]| (?:and|who|is|at|has|keeps|won't|will|does|refuses|in|since|because"
    r"|that|just|loves?|hates?|screams?|eats?|wakes?)\b)",
    re.IGNORECASE,
)
_MY_CHILD = re.compile(
    r"\b(?:my|our) (?P<age>\d{1,2}|one|two|three|four|five|six|seven|eight|nine|ten)[- "
    r"]?(?P<unit>year|month|week|yr|mo)s?[- ]?olds?"
    r"(?P<who> (?:son|daughter|kid|boy|girl|toddler|nephew|niece|grandson|granddaughter|child|baby"
    r"|sister|brother))?(?=\s*$|\W)(?! (?!and\b|who\b|is\b|has\b)[a-z]*(?:car|laptop|bike|phone|house"
    r"|dog|cat|roof|mattress|boiler|fridge)\b)",
    re.IGNORECASE,
)
_AT_HOME = re.compile(
    r"(?:^|[.,;] (?:and |but )?)(?:the|both|our|my) (?P<who>twins|kids|little one|little ones)\b(?= "
    r"(?:outgrew|are|is|was|were|have|has|love|loves|hate|"
    r"hates|keep|keeps|want|wants|need|needs|refuse|won't|woke|wake|got|started|go|goes|eat|eats|will"
    r"|sleep|sleeps|had|broke|got))",
    re.IGNORECASE,
)
_THING = re.compile(
    rf"\b(?:my|our) (?:(?:new|old|little|big|own|used|electric|trusty|beloved|poor|tiny|first"
    rf"|second-hand|\d{{4}}) )*(?P<x>{_any(DISTINCT_THINGS)})\b(?!-)(?! (?:lessons?|teachers?|class"
    rf"|app|store|sim|club|insurance|game|games))",
    re.IGNORECASE,
)
_AT_WORK = re.compile(
    r"\bmy (?P<shift>(?:night |early |late |day |evening |morning )?shifts?) (?:at|in) (?:the |a |our "
    r")?(?P<x>[\w' -]{3,30}?)"
    r"(?=$|[.,;!?]| (?:and|so|what|how|is|was|i)\b)",
    re.IGNORECASE,
)
_ILLNESS = re.compile(
    rf"\b(?:my|with my|because of my) (?:(?:mild|severe|chronic|bad|stupid|damn) "
    rf")*(?P<x>{_any(CONDITIONS - {'ms', 'add'})})\b",
    re.IGNORECASE,
)
_MEDICINE = re.compile(
    rf"\b(?:my|taking my|forgot my) (?:(?:daily|morning|evening) )?(?P<x>{DRUGS})\b(?! (?:pump|pen|patch))",
    re.IGNORECASE,
)
_PET_WORDS = sorted(PETS.keys() - {"pet", "chicken", "snake"}, key=len, reverse=True)
_PET = re.compile(
    rf"\b(?:my|our) {_ADJECTIVES}(?:rescue |senior |indoor "
    rf")?(?P<pet>{'|'.join(map(re.escape, _PET_WORDS))})(?P<many>s)?\b(?!-)(?!,? (?-i:[A-Z])[a-z])(?! "
    rf"(?:food|bed|sitter|person|lover|walker|park|show))",
    re.IGNORECASE,
)
_AT_VET = re.compile(
    r"\b(?P<name>(?-i:[A-Z])[a-z]+)(?:'s\b|\b)(?=.{0,60}\b(?:vet|litter(?: box)?|kibble|leash|collar"
    r"|fleas|worming|groomer|kennel|scratching post|chew toys?|barks?|barking|purrs?|meows?|hairballs?)\b)"
    r"|\b(?:vet|litter box|kibble|leash|groomer|kennel|flea drops"
    r"|worming)\b.{0,40}?\b(?P<other>(?-i:[A-Z])[a-z]+)(?:'s\b|(?=[.,?!]|$| for\b| is\b| has\b| today"
    r"| tomorrow| on\b))",
    re.IGNORECASE,
)
_SPECIES = re.compile(
    rf"\b(?:for an?|is an?|normal for|an? (?:old |young |\d+[- ]year[- ]old "
    rf")?)\s?(?P<pet>{'|'.join(map(re.escape, _PET_WORDS))})\b|\b(?P<cue>litter|purr\w*|meow\w*"
    rf"|hairball\w*|scratching post|leash|bark\w*|kennel)",
    re.IGNORECASE,
)
_ENGAGED = re.compile(r"\b(?:ex|late|future|hypothetical|imaginary|dead|deceased)[- ]", re.IGNORECASE)


_ASKS_MEMORY = re.compile(
    r"\b(?:what|who|when|which|where)(?: is|'s| are| was| were)? (?:my|our)\b|\b(?:do|did|can|could) "
    r"you (?:know|remember|recall)\b|"
    r"\b(?:would|could|might|imagine|suppose|pretend|if)\b|\bhow do (?:i|you) say\b",
    re.IGNORECASE,
)
"""What is asked of the memory, or supposed, is not stated."""


_CARED_FOR = (
    *("vet", "litter", "kibble", "leash", "collar", "fleas", "worming", "groomer", "kennel", "scratching", "chew toy"),
    *("bark", "purr", "meow", "hairball", "flea"),
)
_WITHOUT_OWN = (
    *("year", "month", "week", "yr", "mo", "old", "twins", "kids", "little one", "period", "work", "ewes", "lambs"),
    *("cows", "heifers", "calves", "sows", "piglets", "goats", "hens", "hives", "alpacas", "flock", "herd"),
)
"""Words in texts that tell something without a "my"."""


_UP_TO = r"(?=$|[.,;:!?()]| (?:to|for|in|at|on|by|with|from|because|since|when|and|but|so|yesterday|today|last|this)\b)"
_ENDED = re.compile(
    r"\b(?:sold|gave(?: away)?|given away|donated|returned|lost|divorced|left|dumped|buried|scrapped|crashed|wrecked"
    r"|total+ed|traded(?: in)?|swapped|cancell?ed|threw (?:out|away)|thrown (?:out|away)|got rid of|rehomed"
    r"|(?:broke|broken|split) up with|(?:separated|split) from|parted with|had to put down) (?:\w+ )?(?:my|our)\b"
    rf"[^.,;:!?()]{{1,40}}?{_UP_TO}"
    r"|\b(?:my|our) (?:[\w'-]+ ){1,4}?(?:(?:has|have|had|just|recently|finally|sadly|suddenly|also) ){0,2}"
    r"(?:(?:left|dumped|divorced|walked out on) (?:me|us)\b|ran (?:away|off)|run (?:away|off)|died|passed(?: away)?\b"
    r"|moved out|disappeared|went missing|broke down for good"
    r"|(?:is|was|got|were|are|been|being) (?:gone|dead|stolen|sold|put (?:down|to sleep)|scrapped|totalled|missing))",
    re.IGNORECASE,
)
"""What the sentence itself says is not there any more."""


def mentions(text: str, ledger: Ledger) -> Iterator[Extracted]:
    """What the sentence takes for granted of the speaker."""
    low = text.lower()
    own = "my " in low or "our " in low  # in nearly all that is looked for, and found without a pattern
    cared = any(cue in low for cue in _CARED_FOR)
    if not (own or cared or any(cue in low for cue in _WITHOUT_OWN)) or _ASKS_MEMORY.search(text):
        return
    text = _ENDED.sub("", text) if own else text
    yield from _relatives(text, ledger) if own or "with" in low else ()
    yield from _children(text)
    yield from _things(text, ledger) if own else ()
    yield from _pets(text, ledger) if own or cared else ()
    yield from _giveaways(text)
    yield from _around(text)


def _is_there(content: str, predicate: str, value: str, tag: str, category: str = "user-profile/family") -> Extracted:
    return Extracted(
        content=content,
        subject="user",
        predicate=predicate,
        object=value,
        category=category,
        tags=(tag, value),
        confidence=LESS_SURE,
        importance=0.5,
    )


def _relatives(text: str, ledger: Ledger) -> Iterator[Extracted]:
    placed: set[str] = set()
    for match in (*_PLACED.finditer(text), *_VISITED.finditer(text)):
        who, where = match["who"].lower(), match["where"]
        placed.add(who)
        plural = who.endswith(
            ("parents", "kids", "children", "sons", "daughters", "twins", "in-laws", "sisters", "brothers")
        )
        yield Extracted(
            content=f"User's {who} {'live' if plural else 'lives'} in {where}.",
            subject=f"user's {who}",
            predicate="lives_in",
            object=where,
            category="user-profile/people",
            tags=("people", who),
            entities=(where,),
            relations=(Relation(subject=f"user's {who}", predicate="lives_in", object=where),),
            confidence=LESS_SURE,
        )
    for match in _RELATIVE.finditer(text):
        who, size = match["who"].lower(), match["size"].lower()
        if who in placed or _ENGAGED.search(size) or _is_known(who, ledger):
            continue
        yield _is_there(
            f"User has {_one(f'{size}{who}')}.", f"family_{who.replace('-', '_').replace(' ', '_')}", who, "people"
        )


def _one(what: str) -> str:
    plain = re.sub(r"^(?:new|old|own|poor|lovely|dear|small) ", "", what.strip())
    if plain.endswith(("s", "children")) or re.match(r"(?:two|three|four|five)\b", plain):
        return plain
    return f"{'an' if plain[0] in 'aeiou' else 'a'} {plain}"


def _is_known(who: str, ledger: Ledger) -> bool:
    kind = who.removesuffix("s")
    return any(
        re.search(rf"\b{re.escape(kind)}\b", one.statement.content, re.IGNORECASE) is not None
        and one.statement.content.startswith("User")
        for one in ledger.newest()
    )


def _children(text: str) -> Iterator[Extracted]:
    first_person = re.search(r"\b(?:I|I'm|my|our|we|me|us)\b", text) is not None
    for match in (*_MY_CHILD.finditer(text), *(_CHILD.finditer(text) if first_person else ())):
        who = (match["who"] or "").strip() or "child"
        unit = {"yr": "year", "mo": "month"}.get(match["unit"].lower(), match["unit"].lower())
        yield _is_there(
            f"User has a {match['age']}-{unit}-old {who}.", f"{who}_age", f"{match['age']} {unit}s", "family"
        )
        return
    for match in _AT_HOME.finditer(text):
        who = {"little one": "child", "little ones": "children"}.get(match["who"].lower(), match["who"].lower())
        yield _is_there(f"User has {_one(who)}.", f"family_{who}", who, "family")


def _things(text: str, ledger: Ledger) -> Iterator[Extracted]:
    for match in _THING.finditer(text):
        what = match["x"].lower()
        if _is_known(what, ledger):
            continue
        if what in ("dissertation",):
            yield _is_there(f"User is writing a {what}.", f"writes_{what}", what, "study", "user-profile/education")
        else:
            yield _is_there(f"User has {_one(what)}.", "owns", what, "possessions", "possessions/things")
    for match in _AT_WORK.finditer(text):
        where = match["x"].strip()
        yield Extracted(
            content=f"User works {match['shift'].rstrip('s')}s at the {where}.",
            subject="user",
            predicate=f"shift_at_{slug(where)}",
            object=where,
            category="user-profile/work",
            tags=("work",),
            confidence=LESS_SURE,
        )
    for match in _ILLNESS.finditer(text):
        if is_condition(match["x"]):
            yield _is_there(
                f"User has {match['x']}.", "has_condition", match["x"].lower(), "health", "user-profile/health"
            )
    for match in _MEDICINE.finditer(text):
        yield _is_there(
            f"User takes {match['x'].lower()}.",
            f"takes_{slug(match['x'])}",
            match["x"].lower(),
            "health",
            "user-profile/health",
        )


_TITLED = re.compile(
    r"\b(?:my|our) (?P<who>landlord|landlady|boss|manager|supervisor|doctor|dentist|teacher|lawyer|therapist|"
    r"neighbou?r|"
    r"accountant|vet|coach|professor|midwife),? (?P<name>(?-i:Mr|Mrs|Ms|Dr|Prof)\.? (?-i:[A-Z])[\w-]+)",
    re.IGNORECASE,
)
_WORKPLACE = re.compile(
    r"\b(?:the|a) (?P<x>(?!place|company|office|team|firm|one|way)[a-z-]+(?: [a-z-]+)?) (?:where|that|which) I "
    r"work(?: at| in| for)?"
    r"(?=$|[.,;!?]| (?!on|with|through)\w)",
)


def _around(text: str) -> Iterator[Extracted]:
    """Who is called by title, and where the user works, wherever a sentence says so."""
    for match in _TITLED.finditer(text):
        yield named_person(match["who"].lower(), match["name"])
    place = _WORKPLACE.search(text)
    if place is not None:
        where = f"{'an' if place['x'][:1] in 'aeiou' else 'a'} {place['x']}"
        yield _is_there(f"User works at {where}.", "employer", place["x"], "work", "user-profile/work")


_GIVEAWAYS = (
    (
        re.compile(
            r"\bmy (?:pupils|students|year \d+s?|homeroom|kindergart\w+|\d(?:st|nd|rd|th) graders|class of "
            r"\d+)\b|\bfirst period\b|\b\d+ \w+-year-olds\b",
            re.IGNORECASE,
        ),
        "User teaches (has pupils).",
        "teaches",
    ),
    (re.compile(r"\b(?:my|our) patients\b|\bmy ward\b", re.IGNORECASE), "User works with patients.", "works_with"),
    (re.compile(r"\b(?:my|our) (?:tenants?|lodger)\b", re.IGNORECASE), "User has a tenant.", "has_tenant"),
    (
        re.compile(r"\b(?:my|our) (?:gigs?|bandmates?|band practice|rehearsal)\b", re.IGNORECASE),
        "User plays gigs with a band.",
        "plays_in",
    ),
    (
        re.compile(
            r"\b(?:my|our|the) (?P<x>ewes|lambs|cows|heifers|calves|sows|piglets|goats|hens|hives|alpacas"
            r"|flock|herd)\b",
            re.IGNORECASE,
        ),
        "User keeps {x}.",
        "keeps_animals",
    ),
    (
        re.compile(r"\b(?:my|our) (?:congregation|parish|sermon)\b", re.IGNORECASE),
        "User serves a congregation.",
        "serves",
    ),
    (
        re.compile(r"\b(?:my|our) (?:commuters?|route|rig|cab) (?:today|tonight|this week)\b", re.IGNORECASE),
        "User drives for work.",
        "drives_for",
    ),
)
_OWN_WORDS = re.compile(r"\b(?:I|I'm|I'll|me|my|we|our|us)\b|^(?:just|up|back)\b", re.IGNORECASE)


def _giveaways(text: str) -> Iterator[Extracted]:
    """What only somebody of a trade or with such animals says."""
    if _OWN_WORDS.search(text) is None:
        return
    for pattern, content, predicate in _GIVEAWAYS:
        match = pattern.search(text)
        if match is not None:
            said = content.format(**match.groupdict())
            yield _is_there(said, predicate, said.removeprefix("User ").rstrip("."), "work", "user-profile/work")


def _pets(text: str, ledger: Ledger) -> Iterator[Extracted]:
    cared = any(cue in text.lower() for cue in _CARED_FOR)
    for match in _AT_VET.finditer(text) if cared else ():
        name = match["name"] or match["other"]
        if name.lower() in NO_PET_NAMES or not is_name(name) or _is_known(name.lower(), ledger):
            continue
        kind = _species(text)
        yield named_pet(PETS.get(kind, "pet"), kind, name, 0.6)
        return
    for match in _PET.finditer(text):
        said = match["pet"].lower()
        if _is_known(said, ledger) or _is_known(PETS[said], ledger):
            continue
        several = bool(match["many"])
        yield _is_there(
            f"User has {said}s." if several else f"User has {_one(said)}.",
            f"has_{PETS[said]}",
            said,
            "pets",
            "user-profile/pets",
        )


def _species(text: str) -> str:
    found = _SPECIES.search(text)
    if found is None:
        return "pet"
    if found["pet"]:
        return found["pet"].lower()
    return "dog" if re.match(r"leash|bark|kennel", found["cue"], re.IGNORECASE) else "cat"
