"""What is jotted down without a verb or in passing: amounts taken ("three espressos a day"), sizes, what was built in.

And who is over whom at work, and whom the user is with: small sentences of a form of their own.
"""

import re
from collections.abc import Iterable, Iterator

from memproxy.learn.candidates import Extracted
from memproxy.learn.rules.frames import NUMBER_WORDS
from memproxy.learn.rules.general import fact
from memproxy.learn.rules.ledger import Ledger, forgotten
from memproxy.learn.rules.model import Clause, Groups, Rule, any_rule, i_rule
from memproxy.learn.rules.people import named_person
from memproxy.learn.rules.values import is_name, slug, third_person, trimmed

_DRINKS = (
    r"espressos?|coffees?|cappuccinos?|lattes?|flat whites?|cups? of (?:coffee|tea|decaf)|teas?|beers?|pints?|"
    r"glass(?:es)? of wine|wines?|colas?|energy drinks?|red bulls?|litres? of (?:water|cola|tea)|cans? of [a-z]+"
)
_WORDS = rf"(?:{NUMBER_WORDS}|an|a|half a|half an|a couple of)"
_PER = r"(?:a|per|each|every) (?:day|night|week|morning|evening)"


def drunk(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """“Three espressos a day these days”."""
    kind = next(
        (word for word in ("coffee", "tea", "beer", "wine", "cola", "water") if word in groups["x"].lower()), ""
    )
    if re.search(r"espresso|cappuccino|latte|flat white|decaf", groups["x"], re.IGNORECASE):
        kind = "coffee"
    said = f"{groups['count'].lower()} {groups['x'].lower()} {groups['per'].lower()}"
    yield fact(f"User drinks {said}.", f"drink_{kind or slug(groups['x'])}", said, "user-preferences/food")


def sized(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """“I take a 43 in running shoes”: a size."""
    what = trimmed(groups["what"], "short")
    if what is not None:
        yield fact(
            f"User takes a {groups['x']} in {third_person(what)}.",
            f"size_of_{slug(what)}",
            groups["x"],
            "user-profile/details",
        )


def built_in(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """“Had a heat pump put in last spring”."""
    what = trimmed(groups["what"], "long")
    if what is not None:
        done = groups["done"].lower()
        yield fact(
            f"User had {third_person(what)} {done}.",
            f"had_{slug(what)}_{slug(done)}",
            third_person(what),
            "possessions/things",
        )


def dwelling(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """“We have a little house in Asturias”: with its place."""
    noun, where = groups["what"].lower(), groups["x"]
    size = f"{groups['size'].strip().lower()} " if groups.get("size") else ""
    article = "an" if (size or noun)[0] in "aeiou" else "a"
    yield fact(f"User has {article} {size}{noun} in {where}.", "owns", noun, "possessions/things")


_TITLED = r"(?:(?:Mr|Mrs|Ms|Miss|Dr|Prof)\.? )?(?-i:[A-Z])[\w'-]+(?: (?-i:[A-Z])[\w'-]+)?"


def over_me(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """“I report to Tobias now”."""
    if is_name(groups["x"]):
        yield named_person("manager", groups["x"])


def is_with(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """“I'm seeing someone”: no single any more."""
    name = groups.get("x")
    said = f" {name}" if name and is_name(name) else " someone"
    yield fact(f"User is seeing{said}.", "marital_status", f"seeing{said}", "user-profile/family")


def christened(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """“We named the boat Ida”."""
    what = groups["what"].lower()
    if is_name(groups["x"]):
        yield fact(f"User's {what} is named {groups['x']}.", f"name_of_{slug(what)}", groups["x"], "possessions/things")


RULES: tuple[Rule, ...] = (
    i_rule(
        rf"(?:named|called|christened|have named) (?:the|our|"
        rf"my) (?P<what>[a-z]+(?: [a-z]+)?) (?P<x>{_TITLED})"
        r"(?=$|[.,;!]| (?:after|because|and|in)\b)",
        christened,
    ),
    i_rule(
        rf"(?:drink|have|need|do) (?:(?:about|around|at least|easily|more like) )?(?P<count>\d+(?:[.,]5)?|{_WORDS}) "
        rf"(?P<x>{_DRINKS}) (?P<per>{_PER})\b",
        drunk,
    ),
    any_rule(rf"(?P<count>\d+(?:[.,]5)?) (?P<x>{_DRINKS}) (?P<per>{_PER})\b", drunk),
    any_rule(rf"(?P<count>{_WORDS}) (?P<x>{_DRINKS}) (?P<per>{_PER})\b", drunk),
    i_rule(
        r"have an? (?P<size>(?:(?:little|small|big|tiny|old|new|holiday|summer|rented|two-bed|one-bed|studio) )*)"
        r"(?P<what>house|flat|apartment|cottage|cabin|place|allotment|studio|bungalow|farm|workshop|shop|"
        r"garage) (?:in|near|by|on) "
        r"(?P<x>(?-i:[A-Z])[\w'-]+(?: (?-i:[A-Z])[\w'-]+)*)(?=$|[.,;!]| (?:now|and|with|since|but|so)\b)",
        dwelling,
    ),
    i_rule(
        r"(?:take|wear) (?:an? )?(?:size )?(?P<x>\d{1,2}(?:[.,]5)?) in (?P<what>(?:\w+ )?(?:shoes|boots|trainers|"
        r"sneakers|trousers|jeans|shirts|dresses|skates|sandals|heels|jackets))\b",
        sized,
    ),
    i_rule(
        r"(?:had|got|have had) (?P<what>(?:an?|my|our|the|some|new|two|"
        r"three) [\w' -]{3,40}?) "
        r"(?P<done>put in|fitted|installed|built|built in|put up|taken out|removed|done up|redone)\b",
        built_in,
    ),
    i_rule(
        rf"(?:report to|answer to|work under) (?:an? (?:new )?(?:guy|woman|man|lady|person|chap|bloke) "
        rf"(?:named |called ))?(?P<x>{_TITLED})(?= now\b|$|[.,;!])",
        over_me,
    ),
    i_rule(
        rf"(?:am|are) (?:now )?(?:seeing|dating) (?:someone|somebody(?: new)?|an? (?:guy|girl|man|woman|nice \w+)|"
        rf"(?P<x>{_TITLED}))(?: now)?(?=$|[.,;!])",
        is_with,
    ),
)

_POSTS = (
    r"boss|manager|supervisor|lead|team lead|teacher|tutor|coach|trainer|therapist|doctor|gp|dentist|landlord|landlady|"
    r"cleaner|nanny|babysitter|childminder|au pair|colleague|co-worker|assistant|flatmate|roommate|housemate|lodger|"
    r"tenant|neighbou?r|professor|agent|hairdresser|barber|physio|midwife"
)
_HOLDS = re.compile(
    rf"User's (?:[\w-]+ )?(?P<post>{_POSTS}) (?:is (?:named |called )?(?P<name>{_TITLED})\.$|"
    rf"(?P<who>{_TITLED}) (?:comes|"
    r"cleans|teaches|trains|works|lives|looks after|helps)\b)",
    re.IGNORECASE,
)
_DEPARTS = re.compile(
    rf"(?:(?:my|our) (?:[\w-]+ )?(?:{_POSTS}),? )?(?P<name>{_TITLED}),? (?:has |have |is |was |just |recently |sadly "
    r"|finally |already |got )*(?:left(?= (?:us|the (?:company|firm|team|school|practice|job))\b|$|[.,;!]| (?:last|in|"
    r"on|for|this|and|so)\b)|quit|retired|resigned|moved (?:away|on|abroad|back)|gone(?=$|[.,;!])|been (?:fired|"
    r"sacked|let "
    r"go)|fired|sacked|let go|transferred|passed away|died)\b",
    re.IGNORECASE,
)


def departed(clause: Clause, ledger: Ledger) -> Iterator[Extracted]:
    """“Hanneke has left”: whoever had a post with the user has it no more; kin stays kin."""
    match = _DEPARTS.match(clause.text) if clause.text[:1].isupper() or clause.text[:3] in ("my ", "our") else None
    for one in ledger.newest() if match is not None else ():
        held = _HOLDS.match(one.statement.content)
        name = (held["name"] or held["who"]) if held is not None else ""
        if match is not None and name and name.split()[-1] == match["name"].split()[-1]:
            yield forgotten(one.statement)
