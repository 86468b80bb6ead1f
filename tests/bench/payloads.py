"""What is sent: chat requests of a given size, and a made-up world of small facts to remember and to ask for.

The facts are sentences of common English words; each names a combination that no other has, so that a question about
one finds it among thousands that share single words with it.
"""

import json
from collections.abc import Iterator


def _list(words: str) -> tuple[str, ...]:
    return tuple(words.split())


MATERIALS = _list(
    """
    amber ash bamboo brass bronze canvas ceramic cherry clay copper coral cotton crystal ebony enamel felt glass gold
    granite iron ivory jade lace leather linen maple marble oak olive paper pearl pine plaster porcelain rubber silk
    silver slate steel stone straw teak tin velvet walnut wax wicker willow wool zinc
    """
)
THINGS = _list(
    """
    anchor apron basket bell bench blanket bottle bowl box bracelet brush bucket button cabinet camera candle carpet
    chair chest clock coat comb compass cradle cup curtain desk drum fan flute frame globe guitar hammer harp hat
    kettle kite ladder lamp lantern locket mask mirror necklace pillow pipe plate puppet ring saddle scarf shelf
    shield spoon statue stool tray trunk vase violin
    """
)
PEOPLE = _list(
    """
    Agnes Albert Alma Anton Astrid Bella Bruno Carla Cecil Clara Dario Edith Elsa Emil Felix Fiona Gregor Greta Hanna
    Harold Hugo Ida Ingrid Irene Jonas Julia Karin Leon Lydia Magnus Maria Martin Mira Nadia Nils Nora Oscar Otto
    Paula Petra Ralph Rosa Sam Selma Simon Sofia Stella Thomas Vera Victor Wanda Werner Yara Zoe
    """
)
PLACES = _list("attic bakery barn bedroom cellar chapel garage garden hallway harbour kitchen library museum office")

_COMBINATIONS = len(MATERIALS) * len(THINGS) * len(PEOPLE)
_STRIDE = 86_028_121
"""A prime that divides no list's length: neighbouring numbers share no words, and no two give the same combination."""

_SYLLABLES = ("ba", "du", "fo", "gri", "kel", "lo", "mir", "nu", "pra", "qua", "ri", "sto", "tul", "vex", "wo", "zim")

FILLER = (
    "The harvest report lists acreage, rainfall and prices for every district since the railway was opened, together "
    "with remarks by the surveyors on soil, drainage and the state of the roads. "
)

KEY = "sk-benchmark"


def headers(user: str, mode: str, key: str = KEY) -> dict[str, str]:
    """What a chat request of this user carries besides its body."""
    return {"authorization": f"Bearer {key}", "x-memproxy-user": user, "x-memproxy-memory": mode}


def _words(number: int) -> tuple[str, str, str]:
    mixed = number * _STRIDE % _COMBINATIONS
    mixed, material = divmod(mixed, len(MATERIALS))
    person, thing = divmod(mixed, len(THINGS))
    return MATERIALS[material], THINGS[thing], PEOPLE[person]


def fact(number: int) -> str:
    """What a user said once; about 14 tokens. Different for every number below 175,000."""
    material, thing, person = _words(number)
    return f"{person} gave me the {material} {thing}, it is in the {PLACES[number % len(PLACES)]}."


def question(number: int) -> str:
    """A question that `fact` of the same number answers; 12 tokens for MiniLM."""
    material, thing, person = _words(number)
    return f"Where is my {material} {thing} that {person} gave me?"


def stranger(number: int) -> str:
    """A question in words that nobody ever used: nothing is found for it."""
    return f"Did my {_nonsense(4 * number)} {_nonsense(4 * number + 1)} ever {_nonsense(4 * number + 2)}?"


def _nonsense(number: int) -> str:
    """A word that no other number below 2**24 has: the factor is odd, so nothing is mapped to the same."""
    mixed = number * 2_654_435_761 % 2**24
    return "".join(_SYLLABLES[mixed >> shift & 15] for shift in range(0, 24, 4))


def chat_template(body_bytes: int, *, stream: bool) -> tuple[str, str]:
    """What stands before and after the last user message in a chat request of about ``body_bytes`` bytes.

    Small ones have a long system message; large ones a history of messages of 2 KB on top.
    """
    start = json.dumps({"model": "benchmark", "temperature": 0.2, "stream": stream}, separators=(",", ":"))
    messages = [{"role": "system", "content": _text(min(body_bytes, 2_000) - 250)}]
    size = 2_000
    while size + 4_000 <= body_bytes:
        messages += [{"role": role, "content": _text(1_950)} for role in ("user", "assistant")]
        size += 4_000
    history = json.dumps(messages, separators=(",", ":"))
    return f'{start[:-1]},"messages":{history[:-1]},{{"role":"user","content":"', '"}]}'


def _text(length: int) -> str:
    return (FILLER * (length // len(FILLER) + 1))[: max(1, length)]


def search_template() -> tuple[str, str]:
    """What stands before and after the query in a call of ``POST /v1/memory/search``."""
    return '{"limit":8,"query":"', '"}'


def numbers(start: int, bound: int) -> Iterator[int]:
    """Endlessly ``start`` and on, below ``bound``, then again from 0."""
    number = start
    while True:
        yield number % bound
        number += 1


ANSWER_TEXT = (
    "Certainly. The three proposals differ mostly in how they spread the costs over the coming years, and less in what "
    "they promise. The second one is cheapest at first and dearest in the end; the third needs a permit. "
)


def json_answer() -> bytes:
    """A chat completion of about 1 KB."""
    message: dict[str, object] = {"role": "assistant", "content": ANSWER_TEXT, "refusal": None, "annotations": []}
    answer = {
        "id": "chatcmpl-benchmark",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": "benchmark",
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 400, "completion_tokens": 40, "total_tokens": 440},
        "system_fingerprint": "fp_" + "0" * 400,
    }
    return json.dumps(answer, separators=(",", ":")).encode()


def stream_events(count: int) -> list[bytes]:
    """``count`` events of a streamed completion of a few characters each, then ``[DONE]`` (together with the last)."""
    words = (ANSWER_TEXT.split() * (count // 30 + 1))[:count]
    events = [_event({"content": word + " "}, None) for word in words[:-1]]
    return [*events, _event({}, "stop") + b"data: [DONE]\n\n"]


def _event(delta: dict[str, str], finish: str | None) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    chunk = {
        "id": "chatcmpl-benchmark",
        "object": "chat.completion.chunk",
        "created": 1_700_000_000,
        "model": "benchmark",
        "choices": [choice],
    }
    return b"data: " + json.dumps(chunk, separators=(",", ":")).encode() + b"\n\n"
