"""Users with hundreds or thousands of memories that are nearly alike: logs, inventories, orders, notes by one pattern.

Made by a formula, so that any number of them can be had; words and patterns are invented for this purpose alone.
"""

import random
from collections.abc import Callable, Sequence

import msgspec

from tests.fitting.chats import Kind

_SEED = 11


class Record(msgspec.Struct, frozen=True):
    """What one message tells: its text, a question that it answers, and one that nothing answers."""

    text: str
    question: str
    unanswered: str
    group: str


class Ask(msgspec.Struct, frozen=True):
    """A question to a population, with the places of the messages that answer it."""

    kind: Kind
    text: str
    gold: frozenset[int]


class Population(msgspec.Struct, frozen=True):
    """One user: messages in order, and questions about them."""

    name: str
    held_out: bool
    messages: list[str]
    questions: list[Ask]


def _words(words: str) -> tuple[str, ...]:
    return tuple(words.split())


_FIRST = _words("Ada Ben Cleo Dirk Eve Finn Gus Hope Ivo Jill Kurt Lola Max Nell Olaf Pam Quinn Rhea Sten Tess Uwe Viv")
_LAST = _words(
    "Abbott Barlow Crane Dalton Ennis Foley Grady Hobbs Ingram Jarvis Kemp Lowry Mercer Nash Orton Pryce Rudd"
)
_CITIES = _words(
    "Leeds Porto Graz Turku Lyon Ghent Malmo Bergen Zadar Brno Cork Delft Essen Faro Genoa Halle Izmir Jena"
)
_GOODS = _words(
    "lamps mugs chairs shelves rugs vases candles frames trays hooks stools bowls jars boxes clocks pillows mirrors "
    "bins"
)
_COLOURS = _words("red blue green black white grey yellow orange purple brown pink turquoise beige navy crimson")
_TOOLS = _words(
    "drill tent kettle projector ladder skis sledge printer camera globe easel toaster fan heater guitar helmet jigsaw "
    "microscope typewriter binoculars scanner cooler barometer trumpet snorkel hammock compass telescope"
)
_ADJECTIVES = _words("Silent Broken Golden Hidden Last Winter Burning Distant Hollow Paper Crooked Second Salt Velvet")
_NOUNS = _words("River House Garden Letter Bridge Orchard Mirror Harbour Stair Kingdom Lantern Map Season Tide Witness")
_PLANTS = _words("fern monstera basil cactus orchid ivy aloe begonia jasmine rosemary palm ficus mint lily hibiscus")
_ROOMS = _words("kitchen bedroom hallway bathroom office balcony attic cellar nursery studio porch library garage")
_SHOPS = _words("Hartwell Lindqvist Bodega Marlowe Greenleaf Corner Pinnacle Sundry Oakham Fairway Cobalt Juniper")
_DISHES = _words(
    "stew pie curry soup bread risotto lasagne dumplings casserole goulash pancakes paella strudel chowder"
)
_INGREDIENTS = _words(
    "flour butter lentils barley spinach almonds rice beans sugar cheese mushrooms cabbage oats honey"
)
_MONTHS = _words("January February March April May June July August September October November December")
_PARKS = _words("Elm Heron Quarry Castle Lake Ridge Mill Beacon Fox Abbey")
_SERVICES = _words("billing search mailer gateway reports ledger catalog auth uploads metrics cache queue")
_GEGENSTAENDE = _words(
    "Bohrer Zelt Leiter Kamera Rucksack Schlitten Drucker Grill Mixer Helm Koffer Beamer Teppich Spaten"
)
_ORTE = _words("Keller Garage Dachboden Schuppen Flur Schrank Wohnzimmer Balkon Büro Küche Werkstatt Gartenhaus")

Maker = Callable[[random.Random, int], Record]


def _order(chance: random.Random, _: int) -> Record:
    first, last, other = chance.choice(_FIRST), chance.choice(_LAST), chance.choice(_LAST)
    colour, goods, city = chance.choice(_COLOURS), chance.choice(_GOODS), chance.choice(_CITIES)
    return Record(
        f"{first} {last} from {city} ordered {chance.randint(2, 60)} {colour} {goods}.",
        f"How many {colour} {goods} did {first} {last} order?",
        f"How many {colour} {goods} did {first} Mc{other} order?",
        f"What did {first} {last} order?",
    )


def _box(chance: random.Random, number: int) -> Record:
    some = [f"{chance.choice(_COLOURS)} {thing}" for thing in chance.sample(_TOOLS, 3)]
    return Record(
        f"storage box {number + 1}: {some[0]}, {some[1]} and {some[2]}",
        f"Which box has the {some[0]}, {some[1]} and {some[2]}?",
        f"Which box has the {chance.choice(_COLOURS)} bassoon?",
        f"Which boxes have a {some[0]}?",
    )


def _book(chance: random.Random, _: int) -> Record:
    title = f"The {chance.choice(_ADJECTIVES)} {chance.choice(_NOUNS)} of {chance.choice(_CITIES)}"
    author = f"{chance.choice(_FIRST)} {chance.choice(_LAST)}"
    return Record(
        f"Finished {title} by {author}, {chance.randint(1, 5)} stars, {chance.choice(('slow', 'gripping', 'odd'))}",
        f"How many stars did I give {title}?",
        f"Did I like The Vermilion {chance.choice(_NOUNS)}?",
        f"Which books by {author} did I read?",
    )


def _run(chance: random.Random, number: int) -> Record:
    day, month, year = number % 28 + 1, _MONTHS[number // 28 % 12], 2010 + number // 336
    park = chance.choice(_PARKS)
    return Record(
        f"{day} {month} {year}: ran {chance.randint(3, 25)} km around {park} Park, pulse {chance.randint(120, 175)}",
        f"How far did I run on {day} {month} {year}?",
        f"How far did I swim on {day} {month} {2051 + number % 7}?",
        f"Which runs did I do around {park} Park in {month} {year}?",
    )


def _expense(chance: random.Random, _: int) -> Record:
    shop, thing = chance.choice(_SHOPS), f"{chance.choice(_COLOURS)} {chance.choice(_TOOLS)}"
    when = f"{chance.choice(_MONTHS)} {chance.randint(2015, 2025)}"
    return Record(
        f"I paid {chance.randint(3, 400)} euros for a {thing} at {shop}'s in {when}.",
        f"What did the {thing} at {shop}'s cost me in {when}?",
        f"What did the {chance.choice(_COLOURS)} harpsichord cost me?",
        f"What did I buy at {shop}'s in {when}?",
    )


def _lent(chance: random.Random, _: int) -> Record:
    person, thing, room = (
        f"{chance.choice(_FIRST)} {chance.choice(_LAST)}",
        chance.choice(_TOOLS),
        chance.choice(_ROOMS),
    )
    colour = chance.choice(_COLOURS)
    return Record(
        f"The {colour} {thing} in the {room} belongs to {person}, I borrowed it.",
        f"In which room is the {colour} {thing} that I borrowed from {person}?",
        f"Where is the chandelier that I borrowed from {chance.choice(_FIRST)} Mc{chance.choice(_LAST)}?",
        f"What did I borrow from {person}?",
    )


def _plant(chance: random.Random, number: int) -> Record:
    plant, room, month = chance.choice(_PLANTS), chance.choice(_ROOMS), _MONTHS[number % 12]
    year = 2015 + number // 12 % 11
    return Record(
        f"Repotted the {plant} in the {room}, {month} {year}, it has {chance.randint(2, 40)} leaves",
        f"How many leaves did the {plant} in the {room} have in {month} {year}?",
        f"How many leaves did the bonsai on the windowsill have in {month}?",
        f"When did I repot the {plant} in the {room}?",
    )


def _dish(chance: random.Random, _: int) -> Record:
    person = f"{chance.choice(_FIRST)} {chance.choice(_LAST)}"
    dish, ingredient = chance.choice(_DISHES), chance.choice(_INGREDIENTS)
    return Record(
        f"{person}'s {dish} needs {chance.randint(20, 900)} grams of {ingredient}",
        f"How much {ingredient} does {person}'s {dish} need?",
        f"How much saffron does Mc{chance.choice(_LAST)}'s gazpacho need?",
        f"Which ingredients does {person}'s {dish} need?",
    )


def _host(chance: random.Random, number: int) -> Record:
    city, service = chance.choice(_CITIES).lower(), chance.choice(_SERVICES)
    host = f"{city}-{number}"
    return Record(
        f"host {host} runs {service} on port {chance.randint(1025, 65000)}",
        f"On which port does {service} run on host {host}?",
        f"On which port does kafka run on host {chance.choice(_FIRST).lower()}-{number + 7}?",
        f"Which services run on host {host}?",
    )


def _geliehen(chance: random.Random, _: int) -> Record:
    person, thing = f"{chance.choice(_FIRST)} {chance.choice(_LAST)}", chance.choice(_GEGENSTAENDE)
    return Record(
        f"{person} hat mir etwas geliehen: {thing}, Nummer {chance.randint(10, 99)}, steht jetzt hier: "
        f"{chance.choice(_ORTE)}.",
        f"Wo steht das von {person} ({thing})?",
        f"Wo steht das Fagott von Mc{chance.choice(_LAST)}?",
        f"Was hat mir {person} geliehen?",
    )


_FITTED: Sequence[Maker] = (_order, _box, _run, _expense, _plant, _dish)
_HELD_OUT: Sequence[Maker] = (_book, _lent, _host, _geliehen)

SIZES = (25, 60, 300, 1000, 4000)
_QUESTIONS = 12
_MOST_GOLD = 6


def populations(sizes: Sequence[int] = SIZES) -> list[Population]:
    """One user for each pattern and size; the smaller ones are beginnings of the larger ones."""
    made = []
    for held_out, makers in ((False, _FITTED), (True, _HELD_OUT)):
        for maker in makers:
            chance = random.Random(_SEED)
            records = [maker(chance, number) for number in range(max(sizes))]
            made += [_population(maker.__name__.strip("_"), held_out, records[:size]) for size in sizes]
    return made


def _population(name: str, held_out: bool, records: Sequence[Record]) -> Population:
    groups: dict[str, set[int]] = {}
    answers: dict[str, set[int]] = {}
    for place, record in enumerate(records):
        groups.setdefault(record.group, set()).add(place)
        answers.setdefault(record.question, set()).add(place)
    questions = [
        Ask("direct", records[place].question, frozenset(answers[records[place].question]))
        for place in range(0, len(records), max(1, len(records) // _QUESTIONS))
    ]
    lists = [group for group, places in groups.items() if 2 <= len(places) <= _MOST_GOLD]
    questions += [Ask("list", group, frozenset(groups[group])) for group in lists[: _QUESTIONS // 2]]
    questions += [Ask("none", record.unanswered, frozenset()) for record in records[:_QUESTIONS]]
    return Population(f"{name}, {len(records)}", held_out, [record.text for record in records], questions)
