"""Lasting states of the user: what he cannot, does not, needs, takes; with whom he lives, what his home is like."""

import re
from collections.abc import Iterable

import msgspec

from memproxy.learn.candidates import Extracted
from memproxy.learn.rules.general import OFTEN_SAID, fact, how_parted, said_of
from memproxy.learn.rules.habits import third_verb
from memproxy.learn.rules.lexicon import DRUGS, PASSING_VERBS
from memproxy.learn.rules.model import LESS_SURE, Build, Clause, Groups, Rule, any_rule, i_rule, my_rule
from memproxy.learn.rules.values import items, names_in, slug, third_person, trimmed

_CAN = (
    r"(?:eat|drink|have|sleep|swim|drive|ride|read music|walk|climb|lift|sit|stand for|fly|wear|digest|take|tolerate|"
    r"handle|hear|see (?:well|red|green|colou?rs?|out of)|smell|taste|cook|dance|sing|ski|bend|kneel|run|"
    r"be doing with|deal with|do (?!it\b|this\b|that\b|anything\b|much\b|more\b|math)|work (?:on"
    r"|after|before|nights|weekends|mornings|from)|"
    r"make (?:mon|tues|wednes|thurs|fri|satur|sun)days|type|write by hand|raise|use my|feel my)"
)


def cannot(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """“I cannot have gluten”, “I cannot sleep on the street side”."""
    said = said_of(groups["x"])
    if (
        said is None
        or len(said.split()) < 2
        or re.search(
            r"\b(?:anymore than|the (?:file|page|code|difference|error)|both|until|because of the|a (?:joke|break))\b",
            said,
        )
        or re.match(
            r"(?:have|eat|drink|take|do|handle|see|sleep) (?:it|this|that|any|more|everything|all|both"
            r"|tonight|well)\b",
            said,
        )
    ):
        return
    yield fact(
        f"User can't {third_person(said)}.", f"can_not_{slug(said)}", third_person(said), "user-preferences/general"
    )


def does_not(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """“I don't do layovers”, “I never learned to swim”."""
    said = said_of(groups["x"])
    if said is None or len(said.split()) < 2:
        return
    how = "never" if groups["no"].lower() == "never" else "does not"
    verb = third_verb(said) if how == "never" else said
    yield fact(f"User {how} {third_person(verb)}.", f"not_{slug(said)}", third_person(said), "user-preferences/general")


_STATE = (
    r"(?:(?:half |partially |legally |completely |totally )?(?:deaf|blind|paraly[sz]ed)\b.*|hard of "
    r"hearing.*|(?:red-green )?colou?r[- ]?blind.*|"
    r"(?:\d+|\w+) (?:weeks|months) (?:pregnant|postpartum|along|sober|clean).*|in (?:my|our) (?:early "
    r"|mid |mid-|late )?"
    r"(?:\d0s|twenties|thirties|forties|fifties|sixties|seventies|eighties)\b.*|in a wheelchair.*|in recovery.*|"
    r"intolerant to .+|sensitive to .+|prone to .+|(?:scared|afraid|terrified) of .+|an? (?:only child|widow|widower|"
    r"single (?:mum|mom|mother|dad|father|parent)|stay-at-home \w+|twin|night owl|lefty|non-smoker"
    r"|smoker|insomniac|expat|"
    r"immigrant|beginner|novice|absolute beginner|total beginner|complete beginner|newbie|picky eater|coffee snob|"
    r"minimalist|wheelchair user|night shift worker|union member|landlord|homeowner|first-time \w+|vet(?:eran)?\b|"
    r"student|pensioner|foodie|fan|hobby \w+|volunteer|member)\b.*|new to .+|a total beginner.*|"
    r"(?:first|second|third|fourth|final|1st|2nd|3rd|4th)[- ]year\b.*|in (?:my|our) (?:first|second"
    r"|third|fourth|final|last) "
    r"(?:year|semester|trimester)\b.*|on (?:a (?:low|high|strict|gluten|keto|vegan)\b.+|a tight "
    r"budget.*|keto|dialysis|disability|insulin|sick leave"
    r"|parole)|tone[- ]deaf.*|dairy[- ]free.*|sugar[- ]free.*|teetotal.*|sober.*|childless.*|child[- ]free.*|"
    r"homeschooled.*|adopted|ambidextrous|an? \d+ in (?:eu|uk|us|eur)\b.*|(?:\d[.,]\d+ ?m|\d{3} ?cm)\b.*)"
)


def refuses(groups: Groups, clause: Clause) -> Iterable[Extracted]:
    """“I don't go below 600 for anyone”: what somebody does not do, where it is no matter of the moment."""
    verb = groups["x"].split()[0].lower()
    lasting = verb not in PASSING_VERBS | {"live", "work", "own", "smoke"} or re.match(
        r"(?:go (?:below|above|over|out|near|to (?!the\b))|let|use (?-i:[A-Z])|take (?-i:[A-Z])|run|write"
        r"|read (?-i:[A-Z]))\b",
        groups["x"],
    )
    if lasting and not verb.endswith(("ed", "ly")):
        yield from does_not(groups, clause)


def state(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """“I am deaf in my left ear”, “I am 20 weeks pregnant”: a lasting state."""
    said = said_of(groups["x"])
    if said is None or (groups["x"].startswith("a fan") and " of " not in said):
        return
    head, _ = how_parted(said)
    yield fact(f"User is {third_person(said)}.", f"is_{slug(head or said)}", third_person(said))


_NO_IDENTITY = re.compile(
    r"an? (?:bit|little|lot|tad|mess|wreck|idiot|wimp|genius|fool|moron|coward|hurry|rush|few|couple"
    r"|total|complete|huge fan of (?:you|this|that)|"
    r"question|hundred|million|big (?:deal|mess|believer)|loss|minute|step|pain|joke|failure|good "
    r"(?:idea|question|point)|(?:very |really |so )?"
    r"(?:confused|lost|tired|busy|worried|happy|sad|bad|good|sure)\b)|an? "
    r"\w+$(?<!er)(?<!or)(?<!ist)(?<!ian)(?<!ant)(?<!ent)(?<!man)(?<!mum)(?<!dad)",
    re.IGNORECASE,
)
_PLACED = (
    r"(?:on (?-i:[A-Z])[\w.+-]+(?: [\d.]+| (?-i:[A-Z])\w+)*|with (?-i:[A-Z])\w+(?= for\b|$|[,.;])|at "
    r"(?-i:[A-Z])[\w&-]+.*|in (?:an?|my|our|the) (?:[\w-]+ ){0,3}"
    r"(?:band|choir|orchestra|club|team|league|union|book club|flatshare|houseshare|startup|lab"
    r"|program(?:me)?|cohort|wheelchair|relationship|"
    r"bootcamp|apprenticeship|care home|dorm|basement|attic|village|rural area|city|flat|studio"
    r"|one-bedroom|band)\b.*|on (?:the|an?|my|our) (?:[\w'-]+ ){0,3}"
    r"(?:board|committee|team|council|farm|boat|island|waiting list|work visa|student visa|visa"
    r"|contract|night shift|budget|pension|fixed income|"
    r"ground floor|top floor|\w+ floor|diet|low[- ]\w+ diet)\b.*|in (?:HR|IT|sales|finance|marketing"
    r"|healthcare|construction|logistics|insurance|"
    r"publishing|retail|education|accounting|procurement|real estate|hospitality|biotech"
    r"|academia)\b.*|(?:an? )?(?:mother|mum|mom|father|dad|parent|"
    r"grandmother|grandfather) of .+|married with .+|the (?:only|oldest|youngest|eldest|first|middle) "
    r".+|half [A-Z]\w+.*|left-handed.*|right-handed.*|"
    r"between jobs.*|out of work.*|semi-retired.*)"
)


def identity(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """“I am a mother of two”, “I am a night-shift dispatcher”: what somebody is."""
    said = said_of(groups["x"])
    if said is None or _NO_IDENTITY.match(said) or len(said.split()) < 2 or _OFTEN_STATE.search(said):
        return
    yield fact(f"User is {third_person(said)}.", f"is_{slug(said)}", third_person(said))


_OFTEN_STATE = re.compile(
    r"\b(?:you|your|today|tonight|tomorrow|now|this|that|it|here|happy|sorry|glad|late|stuck|lost"
    r"|confused|sure|afraid not)\b",
    re.IGNORECASE,
)


def visited(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """“I have been to Peru, Chile and Bolivia”."""
    for value in items(groups["x"]):
        if value is not None and value[:1].isupper():
            yield fact(f"User has been to {value}.", "visited", value, "events/personal")


def takes(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """“I have been on levothyroxine since March, 75 mcg”: a medicine."""
    said = trimmed(groups["x"], "whole")
    name = re.search(DRUGS, groups["x"], re.IGNORECASE)
    if said is None or name is None or name.start() > 30 or len(said.split()) > 12:
        return
    yield Extracted(
        content=f"User takes {third_person(said)}.",
        subject="user",
        predicate=f"takes_{slug(name.group())}",
        object=third_person(said),
        category="user-profile/health",
        tags=("health",),
        confidence=LESS_SURE,
        importance=0.8,
    )


def lives_with(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """With whom somebody lives; one answer at a time."""
    said = trimmed(groups["x"], "long")
    if said is not None and not re.match(r"(?:it|this|that|the (?:consequences|pain))\b", said):
        yield fact(f"User lives {third_person(said)}.", "household", third_person(said), "user-profile/family")


def smokes(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """Whether somebody smokes, and how much."""
    said = trimmed(groups["x"], "long") or ""
    yield fact(f"User smokes {said}".strip() + ".", "smokes", said or "yes", "user-profile/health")


_WITHOUT = (
    r"(?:an? |any |one |a single )?(?P<what>cigarettes?|smok\w+|alcohol|drink\w*|drop|sugar|meat"
    r"|coffee|caffeine|gluten|nicotine|weed|vap\w+|gambling|social media)"
)
_SPAN = (
    r"(?:over |almost |about )?(?:\d+|an?|one|two|three|four|five|six|seven|eight|nine|ten|twelve) "
    r"(?:days?|weeks?|months?|years?)"
)
_HABIT_OF = {
    "cigarette": "smokes",
    "smoke": "smokes",
    "smoking": "smokes",
    "nicotine": "smokes",
    "alcohol": "drinks",
    "drink": "drinks",
    "drinking": "drinks",
}


def abstains(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """“6 months without a cigarette”: the habit has ended."""
    what = groups["what"].lower()
    plain = what.removesuffix("s")
    predicate = _HABIT_OF.get(plain) or _HABIT_OF.get(what) or f"has_{slug(plain)}"
    one = "a " if plain in ("cigarette", "drink", "drop") and plain == what else ""
    stated = fact(
        f"User has gone {groups['span']} without {one}{what}.", f"no longer {predicate}", "", "user-profile/health"
    )
    yield msgspec.structs.replace(stated, object=None)


def eats(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """“I eat fish twice a week”: the opposite of not eating it, so that one of them holds."""
    said = said_of(groups["x"])
    again = re.search(r"\b(?:again|now|these days|since)\b", groups["x"]) is not None
    if said is None or not (again or OFTEN_SAID.search(said)):
        return
    head, _ = how_parted(re.sub(r"\s+(?:again|now|since .*)$", "", said))
    if head and len(head.split()) <= 3:
        verb = groups["verb"].lower()
        yield fact(
            f"User {verb}s {third_person(said)}.", f"{verb}_{slug(head)}", third_person(said), "user-preferences/food"
        )


def needs(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """“I need a bathtub”, “I need step-free access”: what somebody needs wherever he is."""
    said = trimmed(groups["x"], "short")
    if said is not None and _ACCOMMODATION.search(said):
        yield fact(
            f"User needs {third_person(said)}.", f"needs_{slug(said)}", third_person(said), "user-preferences/general"
        )


_ACCOMMODATION = re.compile(
    r"\b(?:bath ?tub|lift|elevator|step-free|ground floor|wheelchair|quiet (?:room|place)|crib|cot|high chair|parking|"
    r"subtitles|captions|large print|glasses|legroom|aisle seat|window seat|desk|kitchen|interpreter|crutches|walker|"
    r"inhaler|insulin|epipen|gluten-free|lactose-free|dairy-free|vegan|vegetarian|halal|kosher"
    r"|sugar-free|non-alcoholic)\b",
    re.IGNORECASE,
)


def pays_for(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """“I am paying for Spotify and the NYT”: what somebody subscribes to."""
    for value in items(groups["x"].rstrip(" .!")):
        if value is not None and names_in(value):
            yield fact(f"User pays for {third_person(value)}.", f"subscription_{slug(value)}", third_person(value))


def _plain(form: str, predicate: str, category: str = "user-profile/details") -> Build:
    """The statement "User <form> <what was said>"."""

    def build(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
        said = trimmed(groups["x"], "long")
        if said is not None:
            name = f"{predicate}_{slug(groups['what'])}".strip("_") if groups.get("what") else predicate
            content = form.format(what=third_person(groups.get("what", "")), x=third_person(said))
            yield fact(content, name, third_person(said), category)

    return build


_ANIMALS = (
    r"(?:bees|hens|chickens|ducks|geese|goats|sheep|alpacas|llamas|pigs|pigeons|koi|quails?|rabbits"
    r"|snails|worms|ants|tropical fish|a few (?:hens|chickens|ducks))"
)
_AT_HOME = (
    r"(?:garden|roof|kitchen|oven|stove|hob|balcony|terrace|patio|house|flat|apartment|basement|attic"
    r"|bathroom|bedroom|living room|windows?|heating|internet|commute|"
    r"skin|hair|eyes|feet|hands|vision|hearing|voice|english|spanish|french|german|italian|dutch"
    r"|japanese|chinese|portuguese|arabic|soil|yard|lawn|street|neighbou?rhood|village|"
    r"handwriting|diet|schedule|shift pattern|blood type|skin type|hair type|build|typing|lease"
    r"|contract|notice period|team|company|class|department)"
)

FIRST_RULES: tuple[Rule, ...] = (
    i_rule(rf"keep (?P<x>{_ANIMALS}\b.*)", _plain("User keeps {x}.", "keeps_animals", "user-profile/pets")),
    i_rule(
        r"am (?P<x>\d'\d{0,2}\b.*|\d\.\d\d ?m\b.*|\d{2,3} ?(?:kg|kilos|cm|lbs|pounds|stone)\b.*)",
        _plain("User is {x}.", "measures"),
    ),
    i_rule(r"(?:am|are) (?P<x>on call .+)", _plain("User is {x}.", "on_call", "user-profile/routine")),
    i_rule(r"work .{0,40}?\bas (?P<x>an? [a-z].+)", _plain("User works as {x}.", "job_title", "user-profile/work")),
    my_rule(
        rf"(?P<what>{_AT_HOME}) is (?P<x>(?!not\b|so\b|too\b|really\b|a (?:mess|disaster|bit)|ok|fine"
        rf"|great|good|bad|broken|down|dirty|empty|full|dying|burning|leaking|freezing|cold|hot|slow"
        rf"|better|ready|done|over|due|asking|telling|killing)[\w'].+)",
        _plain("User's {what} is {x}.", "about"),
    ),
    my_rule(
        r"(?P<what>[\w -]{3,30}?) (?:usually |always )?(?P<verb>starts|begins|ends|opens|closes|finishes"
        r"|leaves|departs|arrives) at (?P<x>\d.*)",
        _plain("User's {what} is at {x}.", "time_of"),
    ),
    my_rule(
        r"(?P<what>standup|stand-up|shift|class|train|bus|alarm|bedtime|lunch|dinner|lesson|practice"
        r"|rehearsal) is (?:always |usually )?at (?P<x>\d.*|noon.*|midnight.*)",
        _plain("User's {what} is at {x}.", "time_of"),
    ),
    my_rule(
        r"(?P<what>[\w' -]{2,40}?) costs (?P<x>[$€£]?\d.*)",
        _plain("User's {what} costs {x}.", "price_of", "finance/amounts"),
    ),
    i_rule(r"(?:am|are) (?:still )?(?:paying for|subscribed to|subscribing to) (?P<x>.+)", pays_for),
    i_rule(r"(?:have a subscription (?:to|for|at|with)|subscribe to|pay for) (?P<x>.+)", pays_for),
    i_rule(
        r"(?:own|handle|run|manage|cover|am (?:in charge of|responsible for)) (?P<x>(?:the|our|all) "
        r"(?!it\b|same\b|following\b|code\b|script\b|tests?\b|command\b)[\w].*)",
        _plain("User is responsible for {x}.", "responsible_for", "user-profile/work"),
    ),
    i_rule(
        r"(?:am|are) (?P<x>(?:usually |normally |mostly |only |always )?(?:online|available|reachable"
        r"|free|in the office|at my desk) .*\d.*)",
        _plain("User is {x}.", "available", "user-profile/routine"),
    ),
    i_rule(
        r"(?:am|are) (?P<x>(?:way |much |far )?(?:more|most) (?:productive|awake|creative|focused|active|alert) .+)",
        _plain("User is {x}.", "most_productive", "user-profile/routine"),
    ),
    i_rule(
        r"(?:host|run|deploy|store|keep|track|do|manage) (?P<what>everything|all our \w+|our \w+(?: "
        r"\w+)?) (?:on|in|with|via) (?P<x>(?-i:[A-Z]).+)",
        _plain("User has {what} on {x}.", "uses_for"),
    ),
    any_rule(
        rf"(?:(?:the |my )?(?:doc|doctor|gp|psychiatrist|specialist|cardiologist|neurologist)|they|he|she) "
        rf"(?:just )?(?:added|prescribed(?: me)?|put me on|started me on|switched me to|gave me) "
        rf"(?P<x>{DRUGS}.*)",
        takes,
    ),
    my_rule(
        r"(?P<what>rent|salary|mortgage|budget|bill|electricity bill|insurance|hourly rate|tuition|weight"
        r"|commute|notice period|deadline|pension) (?:just |has |recently |has just |had )*(?:went|gone"
        r"|goes|increased|rose|risen|dropped|fell|jumped|was raised|is up|is down)(?: up| down)? to (?P<x>.+)",
        _plain("User's {what} is {x}.", ""),
    ),
    i_rule(
        r"(?:am|are) getting (?P<x>(?!.*\b(?:error|message|warning|result|exception|bug"
        r"|answer)s?\b)(?:an?|our|my|two) [\w -]+? (?:in|on|next|this) .+)",
        _plain("User is getting {x}.", "getting", "plans/plans"),
    ),
    i_rule(
        r"had (?P<x>my [\w ]{3,25}? (?:removed|out|replaced|fixed|done|taken out)\b.*)",
        _plain("User had {x}.", "had_done", "user-profile/health"),
    ),
    i_rule(
        r"(?:live|am living|are living) (?P<x>(?:alone|by myself|on my own|with (?!it\b|this\b|that\b).+))", lives_with
    ),
    i_rule(r"smoke(?! (?:ham|salmon|meat|fish|ribs|brisket|cheese))\b(?P<x>.*)", smokes),
    any_rule(
        rf"(?:I (?:have gone|have been|am|made it) )?(?P<span>{_SPAN}) (?:without|free of|off) {_WITHOUT}", abstains
    ),
    i_rule(rf"have not (?:had|smoked|touched|drunk|eaten) {_WITHOUT} (?:for|in) (?P<span>{_SPAN})", abstains),
    i_rule(
        rf"have not (?P<what>smoked|drunk) (?:for|in) (?P<span>{_SPAN})",
        lambda groups, clause: abstains(
            {**groups, "what": {"smoked": "smoking", "drunk": "alcohol"}[groups["what"].lower()]}, clause
        ),
    ),
    i_rule(
        r"(?:am on|have been on|have been taking|take|am taking|was put on|got put on|started|have to "
        r"take) (?P<x>.+)",
        takes,
    ),
    i_rule(r"(?P<verb>eat|drink) (?P<x>.+)", eats),
    i_rule(rf"cannot (?P<x>{_CAN}\b.*)", cannot),
    i_rule(
        r"(?P<no>do not) (?P<x>(?:do|own|have (?:kids|children|a (?:car|tv|licen[sc]e|garden|dishwasher"
        r"|freezer|microwave|blender|mixer|printer|scale|smartphone|bike|balcony|degree|passport|credit "
        r"card|bathtub|bath)|an (?:oven|air fryer|iphone))|drive|cook|fly|speak|wear|watch|listen to"
        r"|trust|care for)\b.+)",
        does_not,
    ),
    i_rule(
        r"(?P<no>never) (?P<x>(?:run|deploy|ship|release|answer|read|write|learned|learnt|wear|drive|fly"
        r"|cook|take|work|buy|use|listen|watch|carry|play|sleep) .+)",
        does_not,
    ),
    i_rule(rf"(?:am|are) (?P<x>{_STATE})", state),
    i_rule(r"need (?P<x>.+)", needs),
)
"""Rules of one thing each, asked before the last ones."""


IDENTITY_RULES: tuple[Rule, ...] = (
    i_rule(r"(?P<no>do not|never) (?P<x>[a-z]+ .+)", refuses),
    i_rule(r"have been to (?P<x>.+)", visited),
    i_rule(rf"(?:am|are) (?P<x>{_PLACED})", identity),
    i_rule(r"(?:am|are) (?P<x>an? .+)", identity),
)
"""What somebody is and where he has been."""
