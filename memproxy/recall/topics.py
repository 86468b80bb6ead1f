"""Topics: what a question is about and what a memory bears on, by the labelled examples that are nearest to each.

"Plan a dinner for my family" and "Wren can't have sesame" share no word. But the one is near to questions about food,
and the other to statements that matter for such questions. How near, in the best topic, is one column of the ranking,
fitted as all others are. The only decision made here is whether a question asks for everything known
(`Topics.inventory`): then a `profile` is given.
"""

import logging
from collections.abc import Mapping, Sequence
from importlib.resources import files

import msgspec.yaml
import numpy as np
from numpy.typing import NDArray

from memproxy.core.memory import Kind
from memproxy.core.telling import SURELY, telling
from memproxy.core.vectors import mean_direction
from memproxy.errors import EmbedderUnavailable
from memproxy.ports import Candidate, Embedder
from memproxy.recall.reading import Reading

log = logging.getLogger(__name__)

Vectors = NDArray[np.float64]

NEAREST = 2
"""Examples whose mean counts: one alone may be near by a word."""

EVERYTHING = "about_me"
"""The topic of questions for all that is known."""

BEARS = 0.15
"""How near question and memory are to one topic (the product) from which on the memory bears on the question. Of 926
general questions, asked of five people, 11 more are searched for by it and 4 more get a line.
"""

PROFILE = "profile"
"""The signal of a memory that is part of a profile of all that is known."""

PROFILE_CANDIDATES = 200
"""How many candidates nearest to statements of the topic are looked at."""

PROFILE_LINES = 24
"""Most lines of a profile; the token budget usually ends it sooner."""

_SHORT = 300
"""Characters of a message that may tell nothing; a longer one does."""


class _Topic(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    asks: tuple[str, ...]
    tells: tuple[str, ...]
    inventory: float | None = None
    unlike: tuple[str, ...] = ()
    """Questions for one thing in languages in which the default model takes any question for one for everything."""

    @property
    def examples(self) -> tuple[str, ...]:
        """All of its texts."""
        return (*self.asks, *self.tells, *self.unlike)


def shipped() -> Mapping[str, _Topic]:
    """The topics that come with this version."""
    text = files("memproxy.recall").joinpath("data/topics.yaml").read_bytes()
    return msgspec.yaml.decode(text, type=dict[str, _Topic])


class Topics:
    """The examples, once the embedder has made their vectors; until then nothing is near to any topic."""

    def __init__(self) -> None:
        self._asks: list[Vectors] = []
        self._tells: list[Vectors] = []
        self._inventories: dict[int, float] = {}
        self._unlike = np.zeros((0, 0))
        self._everything = 0

    @property
    def has_vectors(self) -> bool:
        """Whether there are vectors."""
        return bool(self._asks)

    async def prepare(self, embedder: Embedder) -> None:
        """Have the examples embedded, if that was not done and can be now; called now and then."""
        if self.has_vectors or embedder.state != "ready":
            return
        topics = shipped()
        texts = [text for topic in topics.values() for text in topic.examples]
        try:
            embedded = await embedder.embed_passages(texts)
        except EmbedderUnavailable as error:
            log.info("the examples of topics are embedded later: %s", error.message)
            return
        self.take(topics, dict(zip(texts, (np.asarray(item.parts[0], np.float64) for item in embedded), strict=True)))

    def take(self, topics: Mapping[str, _Topic], vectors: Mapping[str, Vectors]) -> None:
        """Set the vectors of all examples."""
        self._tells = [np.stack([vectors[text] for text in topic.tells]) for topic in topics.values()]
        self._asks = [np.stack([vectors[text] for text in topic.asks]) for topic in topics.values()]
        self._inventories = {index: topic.inventory for index, topic in enumerate(topics.values()) if topic.inventory}
        self._unlike = np.stack([vectors[text] for topic in topics.values() for text in topic.unlike])
        self._everything = list(topics).index(EVERYTHING)

    def nearness(self, question: Sequence[float] | Vectors) -> Vectors:
        """How near a question's vector is to the questions of each topic, at least 0."""
        return np.array([_near(examples, np.asarray(question)) for examples in self._asks])

    def inventory(self, question: Sequence[float] | None) -> int | None:
        """The topic of which all that is known is asked for, by its place; None where nothing of the kind is asked."""
        if question is None or not self.has_vectors:
            return None
        vector = np.asarray(question)
        unlike = _near(self._unlike, vector)
        near = {index: _near(self._asks[index], vector) for index in self._inventories}
        near_enough = [index for index, value in near.items() if value >= max(unlike, self._inventories[index])]
        return max(near_enough, key=near.__getitem__, default=None)

    def is_everything(self, topic: int) -> bool:
        """Whether it is the topic of all that is known."""
        return topic == self._everything

    def read(self, candidate: Candidate, reading: Reading) -> bytes | None:
        """How near a memory is to the statements of each topic, as 32-bit numbers; kept in its reading, None while it
        has no vectors of tokens.
        """
        if reading.topics is None and candidate.tokens:
            mean = mean_direction(candidate.tokens)
            direction = None if mean is None else mean.astype(np.float64)
            if direction is None or any(len(direction) != examples.shape[1] for examples in self._tells[:1]):
                near = np.zeros(len(self._tells), np.float32)
            else:
                near = np.array([_near(examples, direction) for examples in self._tells], np.float32)
            reading.topics = near.tobytes()
        return reading.topics

    def bears(self, question: Sequence[float], candidates: Sequence[Candidate], readings: Sequence[Reading]) -> bool:
        """Whether one of the memories bears on a topic that the question is near to."""
        question_topics = self.nearness(question) if self.has_vectors else np.zeros(0)
        if not len(question_topics) or question_topics.max() < BEARS:
            return False
        memory_topics = (self.read(candidate, reading) for candidate, reading in zip(candidates, readings, strict=True))
        return any(
            float((np.frombuffer(near, np.float32) * question_topics).max()) >= BEARS for near in memory_topics if near
        )

    def centre(self, topic: int) -> list[float]:
        """Where statements lie that bear on a topic."""
        mean = self._tells[topic].mean(axis=0)
        direction: list[float] = (mean / np.linalg.norm(mean)).tolist()
        return direction


def _near(examples: Vectors, vector: Vectors) -> float:
    return max(0.0, float(np.partition(examples @ vector, -NEAREST)[-NEAREST:].mean()))


def profile(
    candidates: Sequence[Candidate], readings: Sequence[Reading], topics: Topics, topic: int
) -> list[tuple[Candidate, float]]:
    """The candidates as a profile has them, best first, and how near each is to the topic that it bears most on.

    Of each topic the memory that bears most on it, then the next of each: facts before messages, of these first what
    surely tells something; what is more important before what is less; and no message beside the facts that were
    learned from it. Of one topic ("Tell me about my family") what bears most on that.
    """
    whole = topics.is_everything(topic)
    near = [
        np.frombuffer(topics.read(candidate, reading) or b"", np.float32)
        for candidate, reading in zip(candidates, readings, strict=True)
    ]
    learned = {turn for hit in candidates if hit.memory.kind is not Kind.TURN for turn in hit.memory.turn_ids}
    groups: dict[int, list[tuple[tuple[float, ...], int]]] = {}
    for index, candidate in enumerate(candidates):
        memory, topical = candidate.memory, near[index]
        is_turn = memory.kind is Kind.TURN
        if memory.superseded_by is not None or (is_turn and memory.id in learned):
            continue
        bears = float(topical.max(initial=0.0)) if whole else float(topical[topic]) if len(topical) else 0.0
        unsure = is_turn and len(memory.content) <= _SHORT and telling(memory.content) < SURELY
        key = (float(is_turn + unsure), -memory.importance if whole else 0.0, -bears)
        groups.setdefault(int(topical.argmax()) if whole and len(topical) else 0, []).append((key, index))
    ranks = [(key[0], rank, key, index) for group in groups.values() for rank, (key, index) in enumerate(sorted(group))]
    best = [index for _, _, _, index in sorted(ranks)][: 2 * PROFILE_LINES]
    return [(candidates[index], float(near[index].max(initial=0.0))) for index in best]
