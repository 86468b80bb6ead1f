"""Planted memories for measuring a dream: statements of some users, with duplicates, outdated entries and noise among
them that are known. Made once, before any rule of the dream was written; the rules were never fitted to it.

A statement comes from a form with several wordings. What looks alike and is not (another person, another number, the
opposite) is planted too: whatever a dream does to those is a mistake.
"""

import random
import unicodedata
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from memproxy.core.memory import Kind, Memory, Source
from memproxy.core.slots import slot_name

BEGINS = datetime(2025, 1, 1, 8, tzinfo=UTC)


def _list(words: str) -> list[str]:
    return words.split(", ")


PEOPLE = _list(
    "Anna, Ben, Clara, David, Elena, Felix, Greta, Hugo, Irene, Jonas, Karin, Leo, Mara, Nils, Olga, Paul, Rosa, "
    "Simon, Tina, Viktor, Wanda, Yusuf, Zoe, Amir, Bela, Chiara, Dmitri, Emil, Fatima, Goran"
)
ROLES = _list("sister, brother, cousin, neighbour, colleague, boss, dentist, landlord, trainer, uncle, aunt, roommate")
CITIES = _list(
    "Lisbon, Oslo, Berlin, Rome, Porto, Vienna, Dublin, Ghent, Turin, Malmo, Lyon, Graz, Split, Bergen, Cork, Basel"
)
FOODS = _list(
    "lentil soup, pad thai, sushi, ratatouille, ramen, paella, falafel, pierogi, gnocchi, tacos, borscht, okonomiyaki"
)
HOBBIES = _list(
    "rock climbing, pottery, chess, rowing, bird watching, salsa dancing, archery, knitting, beekeeping, fencing"
)
THINGS = _list(
    "road bike, piano, camera, tent, canoe, telescope, sewing machine, motorbike, drone, coffee grinder, printer"
)
SHOPS = _list("hardware store, bookshop, bakery, museum, hospital, law firm, brewery, school, newspaper, shipyard")
COLOURS = ["green", "blue", "red", "yellow", "black", "white", "orange", "purple", "grey", "brown"]
PETS = ["dog", "cat", "parrot", "rabbit", "tortoise", "hamster", "pony"]
NAMES = ["Rex", "Bella", "Momo", "Pixel", "Luna", "Biscuit", "Charly", "Nemo", "Hazel", "Tiger", "Olive", "Pepper"]
TOOLS = _list("Neovim, PostgreSQL, Terraform, Grafana, Django, Rust, Kubernetes, Ansible, Svelte, Kafka, Redis, Elixir")
DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]


@dataclass(frozen=True)
class Form:
    """One kind of statement: what it is about (``{who}`` and ``{what}`` are filled in), and its wordings."""

    predicate: str
    wordings: tuple[str, ...]
    values: tuple[str, ...]
    subject: str = "{who}"
    many: bool = False
    """Whether several values hold side by side."""


FORMS = (
    Form("lives_in", ("{who} lives in {what}", "{who}'s home is in {what}", "{who} resides in {what}"), tuple(CITIES)),
    Form(
        "works_at",
        ("{who} works at a {what}", "{who} is employed at a {what}", "{who} has a job at a {what}"),
        tuple(SHOPS),
    ),
    Form(
        "favourite_food",
        (
            "{who}'s favourite food is {what}",
            "The food that {who} likes best is {what}",
            "{what} is {who}'s favourite food",
        ),
        tuple(FOODS),
    ),
    Form(
        "favourite_colour",
        (
            "{who}'s favourite colour is {what}",
            "{who} likes {what} more than any other colour",
            "Of all colours {who} likes {what} best",
        ),
        tuple(COLOURS),
    ),
    Form(
        "hobby",
        ("{who} is into {what}", "{who} enjoys {what} as a hobby", "{what} is a hobby of {who}"),
        tuple(HOBBIES),
        many=True,
    ),
    Form(
        "owns",
        ("{who} owns a {what}", "{who} has a {what}", "{who} is the owner of a {what}"),
        tuple(THINGS),
        many=True,
    ),
    Form(
        "budget",
        (
            "{who}'s budget for the kitchen is {what} euros",
            "{who} wants to spend {what} euros on the kitchen",
            "For the kitchen {who} has {what} euros",
        ),
        tuple(f"{n},000" for n in range(3, 40)),
    ),
    Form(
        "birthday",
        ("{who}'s birthday is on {what}", "{who} was born on {what}", "{who} has birthday on {what}"),
        tuple(f"{day} {month}" for month in ("March", "June", "October") for day in range(1, 29)),
    ),
    Form(
        "meets",
        (
            "{who} goes to choir practice on {what}",
            "On {what} {who} goes to choir practice",
            "{who}'s choir practice is on {what}",
        ),
        tuple(DAYS),
    ),
    Form(
        "uses_tool",
        ("{who} uses {what} at work", "{who} works with {what}", "At work {who} uses {what}"),
        tuple(TOOLS),
        many=True,
    ),
    Form(
        "pet_name",
        ("{who}'s {pet} is called {what}", "{who} has a {pet} named {what}", "{what} is the name of {who}'s {pet}"),
        tuple(NAMES),
        subject="{who}'s {pet}",
    ),
    Form(
        "phone_model",
        ("{who}'s phone is a Pixel {what}", "{who} has a Pixel {what} phone", "{who} uses a Pixel {what} as phone"),
        tuple(str(n) for n in range(3, 11)),
    ),
)


@dataclass
class Planted:
    """What is written, and what a dream ought to do with it. ``same_as`` is the entry that it repeats, ``replaced_by``
    the one that takes its place, ``action`` is ``""`` (it is to stay), ``merge``, ``supersede``, ``end`` or ``delete``;
    ``how`` is the kind of planting.
    """

    memory: Memory
    action: str = ""
    how: str = "plain"
    same_as: str | None = None
    replaced_by: str | None = None
    of: dict[str, Any] = field(default_factory=dict)


def _exact(text: str, _: random.Random) -> str:
    return text


def _case(text: str, rng: random.Random) -> str:
    return rng.choice((text.lower(), text.upper(), f"  {text}. ", f"{text}!", text.replace(" ", "  ")))


def _unicode(text: str, rng: random.Random) -> str:
    marked = text.replace("'", "’").replace(" ", "\u00a0", 1)
    return rng.choice((marked, unicodedata.normalize("NFD", marked), marked + "…"))


def _article(text: str, _: random.Random) -> str:
    return text.replace(" a ", " the ", 1) if " a " in text else f"It is known that {text}"


def _adverb(text: str, rng: random.Random) -> str:
    head, _, tail = text.partition(" ")
    return (
        f"{head} {rng.choice(('really', 'actually', 'definitely'))} {tail}"
        if " is " not in text
        else text.replace(" is ", f" {rng.choice(('really', 'actually', 'definitely'))} is ", 1)
    )


def _typo(text: str, rng: random.Random) -> str:
    words = text.split()
    long = [place for place, word in enumerate(words) if len(word) > 6 and word.islower()]
    if not long:
        return f"{text} "
    place = rng.choice(long)
    word = words[place]
    at = rng.randrange(1, len(word) - 2)
    words[place] = word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    return " ".join(words)


def _number(text: str, _: random.Random) -> str:
    return text.replace(",000", "000") if ",000" in text else text.replace("euros", "EUR")


KINDS: dict[str, Callable[[str, random.Random], str] | None] = {
    "exact": _exact,
    "case": _case,
    "unicode": _unicode,
    "article": _article,
    "adverb": _adverb,
    "typo": _typo,
    "number": _number,
    "wording": None,
    "wording_named": None,
    "named": None,
}
"""Kinds of duplicates: the first seven change a text, ``wording`` puts the statement otherwise, ``wording_named`` does
so where both name subject, predicate and object, ``named`` has the same words where only one of the two names them.
"""


def planted(
    count: int, users: int, seed: int = 7, *, duplicates: float = 0.2, outdated: float = 0.05, noise: float = 0.05
) -> dict[str, list[Planted]]:
    """So many entries by user, in the order in which they came."""
    each = count // users
    return {
        f"user-{number}": list(
            _of_user(f"user-{number}", each, random.Random(f"{seed}/{number}"), duplicates, outdated, noise)
        )
        for number in range(users)
    }


def _of_user(
    user: str, count: int, rng: random.Random, duplicates: float, outdated: float, noise: float
) -> Iterator[Planted]:
    extra = [int(count * share) for share in (duplicates, outdated, noise)]
    base = list(_base(user, count - extra[0] - extra[1], rng))
    made = list(base)
    kinds = list(KINDS)
    for number, one in enumerate(rng.sample(base, extra[0])):
        made.append(_duplicate(one, kinds[number % len(kinds)], rng))
    single = [one for one in base if not one.of["form"].many and one.action == ""]
    taken = {one.same_as for one in made if one.same_as}
    free = [one for one in single if one.memory.id not in taken]
    for number, one in enumerate(rng.sample(free, min(extra[1], len(free)))):
        made.append(_outdated(one, ("value", "value_plain", "validity", "expired")[number % 4], rng))
    touched = taken | {one.of["old"].memory.id for one in made if "old" in one.of}
    rest = [one for one in base if one.memory.id not in touched and not one.action]
    for number, one in enumerate(rng.sample(rest, min(extra[2], len(rest)))):
        _make_noise(one, number)
    return iter(sorted(made, key=lambda one: one.memory.created_at))


def _base(user: str, count: int, rng: random.Random) -> Iterator[Planted]:
    """Different statements about the user, people and their roles. Lookalikes come by themselves: the forms are few."""
    subjects = ["User", *PEOPLE, *(f"{name}'s {role}" for name in PEOPLE for role in ROLES)]
    seen: set[tuple[str, ...]] = set()
    at = BEGINS
    while len(seen) < count:
        form, who, pet = rng.choice(FORMS), rng.choice(subjects), rng.choice(PETS)
        what = rng.choice(form.values)
        key = (form.predicate, who, pet if "{pet}" in form.subject else "", what if form.many else "")
        if key in seen:
            continue
        seen.add(key)
        at += timedelta(minutes=rng.randrange(1, 90))
        of = {"form": form, "who": who, "pet": pet, "what": what, "wording": rng.randrange(len(form.wordings))}
        yield Planted(_memory(user, of, at, named=rng.random() < 0.5), of=of)


def _memory(user: str, of: dict[str, Any], at: datetime, *, named: bool, **fields: Any) -> Memory:
    form, text = of["form"], _text(of)
    triple = {"subject": form.subject.format(**of), "predicate": form.predicate, "object": of["what"]} if named else {}
    memory = Memory(
        id=f"mem_{uuid.uuid5(uuid.NAMESPACE_OID, f'{user}/{text}/{at}').hex}",
        tenant="acme",
        user_id=user,
        kind=Kind.SEMANTIC,
        content=text,
        created_at=at,
        updated_at=at,
        source=Source.IMPORT,
        **(triple | fields),
    )
    memory.slot = slot_name(memory)
    return memory


def _text(of: dict[str, Any]) -> str:
    said = of["form"].wordings[of["wording"]].format(**of)
    return str(said[:1].upper() + said[1:])


def _duplicate(one: Planted, kind: str, rng: random.Random) -> Planted:
    of, at = dict(one.of), one.memory.created_at + timedelta(days=rng.randrange(1, 60))
    named = one.memory.subject is not None
    if kind in ("wording", "wording_named"):
        of["wording"] = (of["wording"] + 1) % len(of["form"].wordings)
        if kind == "wording_named":
            _name(one)
            named = True
        else:
            named = False
    if kind == "named":
        named = not named
    memory = _memory(one.memory.user_id, of, at, named=named)
    if (change := KINDS[kind]) is not None:
        memory.content = change(memory.content, rng)
    if kind not in ("wording_named", "named"):  # nothing but its words tells that it is the same
        memory.subject = memory.predicate = memory.object = memory.slot = None
    memory.slot = slot_name(memory)
    return Planted(memory, "merge", kind, same_as=one.memory.id, of=of)


def _name(one: Planted) -> None:
    form, of = one.of["form"], one.of
    one.memory.subject, one.memory.predicate, one.memory.object = form.subject.format(**of), form.predicate, of["what"]
    one.memory.slot = slot_name(one.memory)


def _outdated(one: Planted, kind: str, rng: random.Random) -> Planted:
    """The entry ``one`` is outdated: by a later value, or by its own dates. What is answered is the newer entry, or for
    dates another statement that stays.
    """
    of, at = dict(one.of), one.memory.created_at + timedelta(days=rng.randrange(61, 120))
    of["what"] = rng.choice([value for value in of["form"].values if value != of["what"]])
    of["old"] = one
    if kind in ("value", "value_plain"):
        if kind == "value":
            _name(one)
        memory = _memory(one.memory.user_id, of, at, named=kind == "value")
        if kind == "value_plain":
            one.memory.subject = one.memory.predicate = one.memory.object = one.memory.slot = None
            said = memory.content
            memory.content = said.replace(" is ", " is now ", 1) if " is " in said else f"{said} now"
        one.action, one.how, one.replaced_by = "supersede", kind, memory.id
        return Planted(memory, of=of)
    if kind == "validity":
        one.memory.valid_from, one.memory.valid_to = one.memory.created_at, at
    else:
        one.memory.expires_at = at
    one.action, one.how = "end", kind
    other = dict(one.of) | {"who": f"{one.of['who']}'s tailor", "old": one}
    return Planted(_memory(one.memory.user_id, other, at, named=False), of=other)


def _make_noise(one: Planted, number: int) -> None:
    """Somebody called it wrong, nobody was ever given it; each third is a decoy: given, or called helpful too."""
    feedback: dict[str, Any] = {"wrong": 1, "at": one.memory.created_at.isoformat(), "withheld": True}
    decoy = number % 3 == 2
    if decoy and number % 2:
        one.memory.access_count = 4
    elif decoy:
        feedback = {"helpful": 2, "wrong": 1, "at": one.memory.created_at.isoformat()}
    one.memory.metadata = {"feedback": feedback}
    one.memory.quarantined = "withheld" in feedback
    one.action, one.how = ("", "decoy") if decoy else ("delete", "noise")
