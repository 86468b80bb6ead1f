"""What the weights of the default recipe (`recall.recipes`) are fitted on, and how the order is; `calibrating` is the
command.

Fitted on LoCoMo development conversations, categories 1-4, with MiniLM, as situations of equal weight: verbatim turns;
turns with the data set's own one-line observations as facts beside them; the same with the speaker turned into "User"
and the question into the first person, as chats are; a user with 1 to 21 facts, or turns, a quarter of the time
without the right one; and questions put to another person's memories, all of them and a few, where nothing is right.
Most of them count again with every shared word taken away, because people ask in other words than they told. A memory
is right when its source is in the question's evidence. Evidence is sparse (whatever else would help counts as wrong),
so right ones weigh 3.4 times (4.2 by words alone, 4.8 with late interaction).

Where all memories of a person are asked (``ORDERED``), the order counts as well as the score: see `logistic.fit`.

How likely a candidate is right is fitted apart from the order (`levels`), on these situations and on our own
chats (`chats`), because LoCoMo's long conversations of two people say little of a chat; users that are held out
are only reported on.

LoCoMo has no assistant, and nothing there asks for the latest: what those columns are worth (``SET_BY_HAND``) was
chosen on LongMemEval's development questions and is taken over as it is.
"""

import functools
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from memproxy.core.memory import Kind, Memory
from memproxy.core.scope import Scope
from memproxy.core.telling import only_asks
from memproxy.core.turn import Message, make_turns
from memproxy.core.vectors import pack
from memproxy.evals import dataset, locomo
from memproxy.models.encoder import load_fastembed
from memproxy.models.lexical import Bm25Encoder
from memproxy.ports import Candidate, HybridQuery, Question, SparseVector
from memproxy.recall.candidate_table import Array, CandidateTable
from memproxy.recall.documents import bm25_text, dense_text
from memproxy.recall.other_words import OtherWords
from memproxy.recall.query import Query
from memproxy.recall.ranking import Ranker
from memproxy.recall.recipes import BIAS, DEFAULT, Recipe, Weights
from memproxy.recall.scores import Asked, weighted
from memproxy.recall.stages import Columns
from memproxy.recall.topics import shipped
from memproxy.settings import EmbeddingSettings
from tests.fitting import logistic

POSITIVE_WEIGHT = {"hybrid": 3.4, "late": 4.8, "lexical": 4.2}
HELD: dict[str, Weights] = {"hybrid": {"coverage": 0.8}, "late": {"coverage": 1.6}, "lexical": {"coverage": 2.4}}
"""Set before fitting: where order counts, the fit takes from a memory's own words and gives to its neighbours', which
is right in LoCoMo's long conversations and puts the turn after the answer first in short ones (test_probes.py)."""

WITHOUT_SHARED_WORDS = ("first person", "few", "few turns", "others", "few others", "few others' turns")
_ALL_MEMORIES = ("turns", "turns and facts", "first person")
ORDERED = {"hybrid": _ALL_MEMORIES, "late": ("turns",), "lexical": _ALL_MEMORIES}
ORDER_WEIGHT = {"hybrid": 20.0, "late": 450.0, "lexical": 100.0}
"""What a question's order counts against its rows. From 5 on both recalls are better, also of conversations that were
not fitted on, and what passes the floor stays the same."""

SET_BY_HAND = ("assistant", "your_words", "not_your_words", "newest")
_QUESTIONS = 16
_AT_ONCE = 256
_SEED = 7
_WITH_ANSWER = 0.75


class Document(msgspec.Struct):
    """A memory, the dia_ids it comes from, its sparse and its dense vector."""

    memory: Memory
    sources: frozenset[str]
    sparse: dict[int, float]
    dense: Any = None


class Example(msgspec.Struct):
    """The candidates of one query: the columns of the stages, which of them are right (1 or 0), what the question asks
    for, and how many right ones there are among all memories.
    """

    columns: Columns
    labels: Array
    asked: Asked
    wanted: int


Situations = dict[str, list[Example]]


class Workshop:
    """Makes documents and examples; embeds every text once."""

    def __init__(self, model_path: Path) -> None:
        self._encode, _ = load_fastembed(
            EmbeddingSettings(model_path=model_path, threads=2, token_vectors=True), model_path
        )
        self._vectors: dict[str, Any] = {}
        self._tokens: dict[str, bytes] = {}
        self._question = functools.lru_cache(_QUESTIONS)(lambda text: self._encode([text])[0])
        self._lexical = Bm25Encoder()
        self._ranker = Ranker(self._lexical, DEFAULT)
        self._other_words = OtherWords(self._lexical)
        topics = shipped()
        texts = [text for topic in topics.values() for text in topic.examples]
        self._ranker.topics.take(topics, dict(zip(texts, self.embed(texts), strict=True)))

    def document(
        self, memory: Memory, sources: frozenset[str], before: Memory | None, after: Memory | None
    ) -> Document:
        """One memory as it would be stored."""
        sparse = self._lexical.encode_document(bm25_text(memory, before, after))
        return Document(memory, sources, dict(zip(sparse.indices, sparse.values, strict=True)))

    def embed(self, texts: Sequence[str]) -> Any:
        """The vectors of these texts, one row each."""
        missing = sorted({text for text in texts if text not in self._vectors}, key=len)
        for start in range(0, len(missing), _AT_ONCE):
            some = missing[start : start + _AT_ONCE]
            for text, made in zip(some, self._encode(some), strict=True):
                self._vectors[text] = np.asarray(made.vector)
                self._tokens[text] = b"" if made.tokens is None else pack(made.tokens)
        return np.stack([self._vectors[text] for text in texts])

    def example(
        self,
        corpus: Sequence[Document],
        query: str,
        gold: frozenset[str],
        *,
        dense: bool,
        limit: int,
        shared_words: bool = True,
    ) -> Example | None:
        """The candidates that a store would find, ``limit`` a side, looked at as recall does; None when there are none.

        Without ``shared_words`` they are looked at as if none of them had any of the query's words.
        """
        table = self.table(corpus, query, dense=dense, limit=limit, shared_words=shared_words)
        return None if table is None else self.judged(table, corpus, gold)

    def judged(self, table: CandidateTable, corpus: Sequence[Document], gold: frozenset[str]) -> Example:
        """The candidates of a table with what the stages see of them."""
        sources = {id(one.memory): one.sources for one in corpus}
        labels = np.array([float(bool(sources[id(memory)] & gold)) for memory in table.memories])
        wanted = sum(bool(one.sources & gold) for one in corpus)
        return Example(columns=self._ranker.columns(table), labels=labels, asked=Asked.of(table), wanted=wanted)

    def table(
        self, corpus: Sequence[Document], query: str, *, dense: bool, limit: int, shared_words: bool = True
    ) -> CandidateTable | None:
        """The candidates that `example` looks at."""
        if not corpus:
            return None
        sparse = self._lexical.encode_query(query) if dense else self._other_words.encoded(query)
        words = _bm25(corpus, sparse)
        asked = self._question(query) if dense else Question(vector=[])
        texts = [dense_text(one.memory) for one in corpus]
        cosines = self.embed(texts) @ np.asarray(asked.vector) if dense else None
        found = {int(place) for place in np.argsort(-words)[:limit] if words[place] > 0}
        if cosines is not None:
            found.update(int(place) for place in np.argsort(-cosines)[:limit])
        if not found:
            return None
        places = sorted(found)
        candidates = [
            Candidate(
                memory=corpus[place].memory,
                cosine=None if cosines is None else float(cosines[place]),
                bm25=float(words[place]) if shared_words else 0.0,
                tokens=self._tokens[texts[place]] if dense else b"",
            )
            for place in places
        ]
        now = max(one.memory.created_at for one in corpus)
        bm25 = sparse if shared_words else None
        hybrid = HybridQuery(dense=asked.vector or None, bm25=bm25, tokens=asked.tokens, words=asked.words)
        return self._ranker.table(Query(query, now), hybrid, candidates)


def _bm25(corpus: Sequence[Document], query: SparseVector) -> Any:
    """Raw BM25 with the IDF of this corpus, as Qdrant computes it."""
    terms = dict(zip(query.indices, query.values, strict=True))
    having = Counter(term for one in corpus for term in terms if term in one.sparse)
    worth = {
        term: weight * np.log(1 + (len(corpus) - having[term] + 0.5) / (having[term] + 0.5))
        for term, weight in terms.items()
    }
    return np.array([sum(worth[term] * one.sparse.get(term, 0.0) for term in terms) for one in corpus])


class Person(msgspec.Struct):
    """One conversation as corpora: turns, facts, and both as a chat with the first speaker or the second."""

    conversation: dataset.Dataset
    turns: list[Document]
    facts: list[Document]
    as_user: dict[str, tuple[list[Document], list[Document]]]


def people(workshop: Workshop, path: Path) -> list[Person]:
    """All conversations of a LoCoMo file."""
    everybody = locomo.load_dataset(path, pooled=False)
    samples = msgspec.json.decode(path.read_bytes(), type=list[dict[str, Any]])
    return [_person(workshop, everybody.of_users({locomo.name_of(raw)}), raw) for raw in samples]


def _person(workshop: Workshop, conversation: dataset.Dataset, raw: dict[str, Any]) -> Person:
    speakers = (raw["conversation"]["speaker_a"], raw["conversation"]["speaker_b"])
    return Person(
        conversation,
        _turns(workshop, conversation, named=True),
        _facts(workshop, conversation, raw, None),
        {
            speaker: (_turns(workshop, conversation, named=False), _facts(workshop, conversation, raw, speaker))
            for speaker in speakers
        },
    )


def _turns(workshop: Workshop, conversation: dataset.Dataset, *, named: bool) -> list[Document]:
    documents: list[Document] = []
    for session in conversation.sessions:
        messages = session.messages if named else [msgspec.structs.replace(one, name=None) for one in session.messages]
        turns = session_turns(workshop, session.name, messages, session.date)
        documents += [turn for turn in turns if not only_asks(turn.memory)]  # no others are candidates
    return documents


def session_turns(workshop: Workshop, name: str, messages: Sequence[Message], date: datetime) -> list[Document]:
    """The messages of one session, as they are stored beside each other; their ids are their sources."""
    turns = make_turns(Scope(tenant="t", user="u", session=name), messages, now=date)
    around = zip([None, *turns], turns, [*turns[1:], None], strict=False)
    return [workshop.document(turn, frozenset({turn.id}), before, after) for before, turn, after in around]


def _facts(workshop: Workshop, conversation: dataset.Dataset, raw: dict[str, Any], user: str | None) -> list[Document]:
    now = conversation.sessions[-1].date
    documents = []
    for session in raw["observation"].values():
        for speaker, statements in session.items():
            for text, source in statements if user in (None, speaker) else ():
                content = text.replace(user, "User") if user else text
                fact = Memory(
                    id=f"{source}{content}",
                    tenant="t",
                    user_id="u",
                    kind=Kind.SEMANTIC,
                    content=content,
                    created_at=now,
                    updated_at=now,
                )
                documents.append(workshop.document(fact, locomo.evidence_of([source], raw), None, None))
    return documents


def in_first_person(question: str, name: str) -> str:
    """A question about somebody as that person would ask it, roughly."""
    for pattern, replacement in (
        (rf"\b{name}'s\b", "my"),
        (rf"\b(?:does|do) {name}\b", "do I"),
        (rf"\bdid {name}\b", "did I"),
        (rf"\bis {name}\b", "am I"),
        (rf"\bhas {name}\b", "have I"),
        (rf"\b(was|were) {name}\b", r"\1 I"),
        (rf"\b{name}\b", "me"),
    ):
        question = re.sub(pattern, replacement, question)
    return question


def situations(
    workshop: Workshop, everybody: Sequence[Person], recipe: Recipe, *, dense: bool, every: int = 1
) -> Situations:
    """All examples, by situation, of as many candidates as the recipe has; of ``every`` so many questions one."""
    chance = random.Random(_SEED)
    examples: Situations = defaultdict(list)
    for person, other in zip(everybody, [*everybody[1:], everybody[0]], strict=True):
        for question in person.conversation.questions[::every]:
            if not question.scored:
                continue
            for name, corpus, query, gold in _cases(person, other, question, chance):
                for label, shared_words in _versions(name, dense):
                    how: dict[str, Any] = {
                        "dense": dense,
                        "limit": recipe.by_tokens if dense else recipe.candidates,
                        "shared_words": shared_words,
                    }
                    example = workshop.example(corpus, query, gold, **how)
                    examples[label] += [] if example is None else [example]
    return examples


def _versions(name: str, dense: bool) -> list[tuple[str, bool]]:
    """A situation as it is, and for some again as if none of the query's words were in any memory."""
    again = dense and name in WITHOUT_SHARED_WORDS
    return [(name, True), (f"{name}, other words", False)] if again else [(name, True)]


def _cases(
    person: Person, other: Person, question: dataset.Question, chance: random.Random
) -> Iterator[tuple[str, list[Document], str, frozenset[str]]]:
    gold = question.gold_turns
    yield "turns", person.turns, question.text, gold
    yield "turns and facts", person.turns + person.facts, question.text, gold
    named = [speaker for speaker in person.as_user if speaker in question.text]
    if len(named) != 1:
        return
    query = in_first_person(question.text, named[0])
    turns, facts = person.as_user[named[0]]
    yield "first person", turns + facts, query, gold
    for name, corpus in (("few", facts), ("few turns", turns)):
        yield from ((name, few, query, gold) for few in _few(corpus, gold, chance))
    their_turns, their_facts = next(iter(other.as_user.values()))
    yield "others", their_turns + their_facts, query, frozenset()
    yield "few others", chance.sample(their_facts, 5), query, frozenset()
    yield "few others' turns", chance.sample(their_turns, 8), query, frozenset()


def _few(corpus: Sequence[Document], gold: frozenset[str], chance: random.Random) -> Iterator[list[Document]]:
    right = [document for document in corpus if document.sources & gold]
    wrong = [document for document in corpus if not document.sources & gold]
    for _ in range(2):
        few = chance.sample(wrong, chance.choice((1, 2, 3, 5, 8, 20)))
        if right and chance.random() < _WITH_ANSWER:
            few.append(chance.choice(right))
        yield few


def fit(examples: Situations, columns: Sequence[str], kind: str) -> dict[str, float]:
    """The weights of one ``kind`` (``hybrid``, ``late``, ``lexical``) that explain the labels best beside those that it
    has `HELD`, every situation weighing the same; in those of `ORDERED` the order counts as well.
    """
    positive_weight, order_weight, held = POSITIVE_WEIGHT[kind], ORDER_WEIGHT[kind], HELD[kind]
    rows, labels, weights, offsets, lists, start = [], [], [], [], [], 0
    for situation, group in examples.items():
        for example in group:
            rows.append(np.stack([example.columns[name] for name in columns], axis=1))
            labels.append(example.labels)
            offsets.append(weighted(example.columns, held, len(example.labels)))
            weights.append(np.where(example.labels > 0, positive_weight, 1.0) * 1000 / len(group))
            end = start + len(example.labels)
            if situation in ORDERED[kind] and example.labels.any():
                lists.append(logistic.Ordered(start, end, order_weight * 1000 / len(group)))
            start = end
    table = [np.concatenate(column) for column in (rows, labels, weights)]
    found = logistic.fit(table[0], table[1], table[2], lists, np.concatenate(offsets))
    fitted = dict(zip((BIAS, *columns), found.tolist(), strict=True))
    return {name: round(value, 3) for name, value in fitted.items()} | dict(held)
