"""What a short message is: a greeting, small talk, a tool's business, a question that the world answers, or something
of the user's own. Learned from labelled lines, by words, pairs of words, letters, end mark and length (``python -m
tests.fitting.message_kinds`` writes ``message_kinds.json``); only the first-person words are a list made by hand.
"""

import json
import math
import re
import unicodedata
from collections.abc import Iterator, Set
from functools import cache
from importlib.resources import files
from itertools import pairwise
from typing import NamedTuple

from memproxy.core.text import is_unspaced

OWN = "own"

KINDS = (OWN, "greeting", "smalltalk", "tool", "fact")  # what the weights tell apart; ``own`` may need a memory
MOST_READ = 240  # characters that are read, and the longest message that has a kind
_MOST_LETTERS = 48  # characters whose neighbours are looked at: short messages in any script, and how longer ones begin
_MOST_WORDS = 40

_WORD = re.compile(r"[^\s!-&(-/:-@\[-`{-~¡-©«-´¶-¹»-¿‐-⁞、-〿！-／：-＠।॥؟،؛۔]+")
"""What stands between spaces and marks; vowel signs and apostrophes belong to it."""

_CAPITAL = re.compile(r"(?<=\w )[A-Z]\w")
_LENGTHS = (1, 2, 3, 4, 6, 8, 10, 14, 20)

_FIRST_PERSON = frozenset(
    """
    i me my mine myself i'm im i've ive i'd i'll we us our ours ourselves we're we've we'd we'll
    ich mich mir mein meine meinen meinem meiner meines wir uns unser unsere unseren unserem unserer
    yo mi mis mí mío mía conmigo nosotros nosotras nos nuestro nuestra nuestros nuestras
    je me moi mon ma mes nous notre io mio mia miei mie noi nostro nostra nostri nostre
    eu meu minha meus minhas mim comigo nós nosso nossa nossos nossas ik mij mijn wij ons onze
    я меня мне мной мой моя моё мое мои моего моей моему моим моих мы нас нам наш наша наше наши нашего нашей
    мій моя мої мене ben bana beni benim biz bize bizi bizim mnie mój moja moje nasz nasza nasze
    jag mig mitt mina vår våra jeg meg minun meidän μου εγώ μας אני לי שלי אנחנו שלנו أنا لي عندي نحن
    मैं मुझे मेरा मेरी मेरे हम हमारा हमारी हमारे আমি আমার আমাকে আমরা আমাদের میں مجھے میرا میری میرے ہمارا
    나 내 나는 내가 나의 저 제 저는 제가 우리 saya aku kami tôi mình
    """.split()  # noqa: SIM905
)
_FIRST_PERSON_SIGNS = ("我", "咱", "俺", "私", "僕", "うち", "ฉัน", "ผม", "เรา")
"""First-person and possessive words; of scripts without spaces what these words are written with."""

GREETING = "greeting"
"""It consists of words that greetings and small talk have: another may be the one that counts ("Biscuit")."""

_LENGTHENED = re.compile(r"([^\W\d_])\1{2,}")

_TOLD = re.compile(
    r"\b(?:tell|give|show|let|teach|explain to|sag|gib|zeig|erklär|dis|donne|explique|raconte)[ -](?:me|mir|moi)\b"
)
"""Phrases like "tell me": their "me" is not what is asked about."""


class Weights(NamedTuple):
    """What each feature adds to each of `KINDS`, ``scale`` times; above the share ``least`` a kind is believed.
    ``frequent`` words say how something is asked, not what; pleasantries consist of ``pleasant`` ones.
    """

    of: dict[str, list[int]]
    scale: float
    frequent: frozenset[str]
    pleasant: frozenset[str]
    least: dict[str, float]


def plain(text: str) -> str:
    """A text's beginning in lower case, apostrophes plain, spaces single; one character more than is read at most."""
    folded = unicodedata.normalize("NFKC", text[: 2 * MOST_READ]).lower().replace("’", "'").replace("‘", "'")
    return " ".join(folded.split())[: MOST_READ + 1]


def speaks_of_self(plain: str) -> bool:
    """Whether a text (`plain`) has a first-person or possessive word; "tell me" alone is none."""
    rest = _TOLD.sub(" ", plain)
    if not _FIRST_PERSON.isdisjoint(_WORD.findall(rest)):
        return True
    return not plain.isascii() and any(sign in plain for sign in _FIRST_PERSON_SIGNS)


def words_of(plain: str) -> list[str]:
    """The first words of a text (`plain`); characters of a script without spaces are words."""
    words = (word for word in _WORD.findall(plain) if word[0].isalnum())  # emoji are none
    return [part for word in words for part in (word if is_unspaced(word[0]) else (word,))][:_MOST_WORDS]


def features(plain: str, text: str, frequent: Set[str]) -> Iterator[str]:
    """What the weights see of a message (``plain``: as `plain` makes it; ``text``: as written)."""
    words = ["0" if word.isdecimal() else word for word in words_of(plain)]
    yield from words
    yield from (f"{first} {second}" for first, second in pairwise(["^", *words, "$"]))
    yield from (f"{index} {word}" for index, word in enumerate(words[:2]))
    yield "^ " + " ".join(words[:3])
    # what stands around words that are not frequent: "when is the *?" asks for something of one's own, whatever it is
    frame = ["^", *(word if word in frequent or word == "0" else "*" for word in words), "$"]
    for size in (3, 4):
        yield from (f"#{' '.join(frame[index : index + size])}" for index in range(len(frame) - size + 1))
    letters = f" {plain[:_MOST_LETTERS]} "
    yield from (f"_{letters[index : index + 3]}" for index in range(len(letters) - 2))
    yield "end" if plain[-1:].isalnum() else f"end{plain[-1:]}"
    yield from (f"words{length}" for length in _LENGTHS if len(words) >= length)
    yield "Capital" if _CAPITAL.search(text, 0, MOST_READ) else "no Capital"
    yield "colon" if ":" in plain else "no colon"


def shares(plain: str, text: str, weights: Weights) -> dict[str, float]:
    """How likely a message is of each of `KINDS`."""
    sums = list(weights.of["bias"])
    weights_of = weights.of.get
    for feature in features(plain, text, weights.frequent):
        if (feature_weights := weights_of(feature)) is not None:
            for index, weight in enumerate(feature_weights):
                sums[index] += weight
    most = max(sums)
    raised = [math.exp((total - most) / weights.scale) for total in sums]
    whole = sum(raised)
    return {kind: weight / whole for kind, weight in zip(KINDS, raised, strict=True)}


def kind_of(plain: str, text: str, weights: Weights | None = None) -> str | None:
    """The kind of a short message without first-person words; None where none is sure enough."""
    weights = weights or fitted()
    share_of = shares(plain, text, weights)
    kind = max(weights.least, key=lambda kind: share_of[kind])
    if share_of[kind] < weights.least[kind]:
        return None
    if kind == GREETING and not weights.pleasant.issuperset(words_of(_LENGTHENED.sub(r"\1", plain))):
        return None
    return kind


@cache
def fitted() -> Weights:
    """The weights that come with the package."""
    data = json.loads(files("memproxy.core").joinpath("message_kinds.json").read_text("utf-8"))
    return Weights(
        data["weights"], data["scale"], frozenset(data["frequent"]), frozenset(data["pleasant"]), data["least"]
    )
