"""Pairs of memories and questions: which must reach the default floor, with the real model and by words alone."""

import math
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable

import msgspec
import pytest
import pytest_asyncio

from memproxy.core.scope import Scope
from memproxy.ports import Embedder, MemoryFilter
from memproxy.recall.scores import SURPLUS
from memproxy.settings import Settings
from tests.recall.making import PATIENT, bench, conversation, fact
from tests.support.folders import Folders
from tests.support.model import found_by
from tests.support.shared import needs_model

pytestmark = pytest.mark.asyncio(loop_scope="module")

OF_MESSAGES = Settings().recall.similarity_threshold
FLOOR = 1 / (1 + (1 / OF_MESSAGES - 1) * math.exp(-SURPLUS))
"""The score of a search from which on a block has a fact, or by words alone anything."""

NEARLY = 0.001
"""Two scores that differ by less say the same."""

Probe = Callable[[list[str], str], Awaitable[dict[str, float]]]
TRIP = ["User's budget for the Hawaii vacation is $10,000", "User's dog is named Biscuit", "User prefers window seats"]
PEOPLE = ["User is allergic to peanuts", "User works as a nurse in Berlin", "User's sister is called Anna"]
LIFE = [
    "User's birthday is on 3 May",
    "User's favorite color is green",
    "User drives a Toyota Corolla",
    "User lives in Lisbon",
    "User plays the cello",
]
HOME = [
    "The user's name is Ravi",
    "The user is vegetarian",
    "The user lives in Toronto with his wife Meera",
    "User's manager is Karen",
]
TALK = [
    "I'm planning a two week vacation to Hawaii. My budget is $10,000.",
    "That sounds like a wonderful trip!",
    "I just adopted a dog, his name is Biscuit.",
    "Congratulations! What breed is Biscuit?",
    "He's a golden retriever.",
    "To deploy payment-service we first run make build, then helm upgrade payment.",
    "Got it.",
]

BOTH = [
    (TRIP, "What is my budget for the Hawaii trip?", 0),
    (TRIP[:1], "What is my budget for the Hawaii trip?", 0),
    (TRIP, "How much? hawaii vacation hotels", 0),
    (["The user has a dog named Biscuit", TRIP[0]], "What's the name of my dog?", 0),
    (["I have a dog named Biscuit", "My budget is $10,000."], "What's the name of my dog?", 0),
    (["I have a dog named Biscuit"], "What's my dog's name?", 0),
    (PEOPLE, "What am I allergic to?", 0),
    (PEOPLE, "Where do I work?", 1),
    (PEOPLE, "What is my sister's name?", 2),
    (LIFE, "When is my birthday?", 0),
    (LIFE, "What car do I drive?", 2),
    (LIFE, "Which city do I live in?", 3),
    (LIFE, "What instrument do I play?", 4),
    (["To deploy payment-service, run make build and push the image", *TRIP], "How do I deploy payment-service?", 0),
]
MODEL_ONLY = [
    (TRIP, "What's my budget for the trip?", 0),
    (TRIP[:1], "What's my budget for the trip?", 0),
    (HOME, "Who is my boss?", 3),
]
NOTHING = [
    (TRIP[1:], "What's my budget for the trip?"),
    (TRIP, "Which programming language should I learn first?"),
    (PEOPLE, "How do I write a quicksort in Python?"),
    (PEOPLE, "Explain the theory of relativity to me"),
    (PEOPLE[:1], "Can you fix the bug in my code?"),
    (LIFE, "Write me a poem about autumn leaves"),
    (HOME, "Translate this contract clause into plain English"),
    (TALK, "Can you recommend a good science fiction novel?"),
    (TALK, "How can I center a div in CSS?"),
    (TALK, "Is Postgres faster than MySQL?"),
]
BEST = [(HOME, "What's my wife's name?", 2), (PEOPLE, "What is my sister's name and where do I work?", 2)]
"""Here others may pass as well (the user's own name is a name, too)."""

TALKED = [
    ("What is my budget?", 0),
    ("What's my budget for the Hawaii trip?", 0),
    ("What is my dog called?", 2),
    ("How do I deploy payment-service?", 5),
]


WHOLE = Settings.model_validate({"recall": {"deadline_ms": 60_000, "recipe": "vectors"}})


@pytest.fixture(
    scope="module",
    params=["words", *(pytest.param(name, marks=[needs_model, pytest.mark.model]) for name in ("model", "whole"))],
)
def searched(request: pytest.FixtureRequest) -> str:
    """By words alone, as the default has it (token by token as well), or by whole texts' vectors and words."""
    return str(request.param)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def embedder(searched: str, folders: Folders) -> AsyncIterator[Embedder | None]:
    """Loaded once: that takes longer than most of the tests."""
    with folders.new("cache") as cache:
        async with found_by(searched, cache, token_vectors=True) as made:
            yield made


@pytest_asyncio.fixture(loop_scope="module")
async def probe(searched: str, embedder: Embedder | None) -> AsyncIterator[Probe]:
    settings = WHOLE if searched == "whole" else PATIENT
    async with bench(embedder=embedder, settings=settings) as it:

        async def scores(memories: list[str], question: str) -> dict[str, float]:
            """The scores of a new user's memories for a question; ``TALK`` is told as a conversation."""
            owner = Scope(tenant="acme", user=uuid.uuid4().hex, session="s1")
            made = conversation(*memories) if memories is TALK else [fact(text) for text in memories]
            await it.put(*(msgspec.structs.replace(one, user_id=owner.user) for one in made), scope=owner)
            found = await it.recall.search(owner, question, limit=20, where=MemoryFilter())
            return {one.memory.content: one.score for one in found}

        yield scores


async def test_what_is_asked_for_reaches_the_floor(probe: Probe, embedder: Embedder | None) -> None:
    wrong = []
    for memories, question, right in BOTH + (MODEL_ONLY if embedder else []):
        found = await probe(memories, question)
        if [text for text, score in found.items() if score >= FLOOR] != [memories[right]]:
            wrong.append((question, found))
    assert not wrong


async def test_what_has_nothing_to_do_with_it_stays_below(probe: Probe, embedder: Embedder | None) -> None:
    wrong = []
    for memories, question in NOTHING:
        floor = OF_MESSAGES if memories is TALK and embedder else FLOOR
        found = await probe(memories, question)
        wrong += [(question, text, score) for text, score in found.items() if score >= floor]
    assert not wrong


@pytest.mark.parametrize(("memories", "question", "right"), BEST + [(TALK, *told) for told in TALKED])
async def test_the_best_of_several_that_fit_comes_first(
    probe: Probe, memories: list[str], question: str, right: int
) -> None:
    found = await probe(memories, question)
    best = max(found, key=lambda text: found[text])
    assert found[memories[right]] >= max(FLOOR, found[best] - NEARLY), found
