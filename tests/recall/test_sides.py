"""A question about two things is searched for each of them, and one about one thing is not."""

from pathlib import Path

import pytest

from memproxy.core.scope import Scope
from memproxy.errors import StoreUnavailable
from memproxy.ports import Candidate, HybridQuery
from memproxy.recall.levels import asks_for_many
from memproxy.recall.sides import sides_of
from memproxy.stores.edge import EdgeStore
from tests.recall.making import asking, bench, fact


@pytest.mark.parametrize(
    ("query", "sides"),
    [
        ("Which did I buy first, the canoe or the tent?", ["my canoe", "my tent"]),
        (
            "Do you remember which trip I took first, the one to Spain or the ski trip?",
            ["my trip to Spain", "my ski trip"],
        ),
        ("Who is older, Hanna or Jonas?", ["Hanna", "Jonas"]),
        ("How many days were there between my interview and the flight?", ["my interview", "my flight"]),
        ("How long had I been living in Graz when we met Tom?", ["How long had I been living in Graz", "we met Tom"]),
        ("How much did I pay in total for the sofa and the bookcase?", ["my sofa", "my bookcase"]),
        ("How much more was the first offer than the last one?", ["the first offer", "the last one"]),
        ("Was habe ich zuerst gekauft, das Zelt oder das Kajak?", ["das Zelt", "das Kajak"]),
        ("¿Qué fue primero, las clases o la mudanza?", ["las clases", "la mudanza"]),
        ("Qu'est-ce que j'ai eu en premier, le chat ou la voiture ?", ["le chat", "la voiture"]),
    ],
)
def test_the_two_things_that_a_question_is_about_are_told_apart(query: str, sides: list[str]) -> None:
    assert sides_of(query) == sides


@pytest.mark.parametrize(
    "query",
    [
        "",
        "?",
        "What did I buy first?",
        "Which city do I live in?",
        "Do I take the bus or the train to work?",
        "What do my sister and my brother do?",
        "Where is the cafe between the station and the park that I like so much with all the blue chairs inside it?",
        "When did I start at Acme?",
        "Write me a poem, first about rain or snow, then about the sea.",
        "Which is older, a or b?",
        "x " * 200 + "which is first, the canoe or the tent?",
    ],
)
def test_a_question_about_one_thing_has_no_sides(query: str) -> None:
    assert sides_of(query) == []


@pytest.mark.parametrize(
    ("query", "counts"),
    [
        ("How many books have I finished?", True),
        ("How many of my friends' birthdays are in May?", True),
        ("Wie viele Bücher habe ich gelesen?", True),
        ("How many miles did I run?", False),
        ("How many years have I worked at Acme?", False),
        ("How much is my rent?", False),
    ],
)
def test_what_is_counted_may_have_been_told_one_by_one(query: str, counts: bool) -> None:
    assert asks_for_many(query) == counts


class OnceStore(EdgeStore):
    """A store that answers its first search, and no other."""

    searches = 0

    async def search(self, scope: Scope, query: HybridQuery) -> list[Candidate]:
        self.searches += 1
        if self.searches > 1:
            raise StoreUnavailable("the store does not answer")
        return await super().search(scope, query)


async def test_a_store_that_stops_in_between_costs_the_sides_alone(tmp_path: Path) -> None:
    async with bench(tmp_path) as it:
        it.store = it.recall._store = OnceStore(tmp_path / "other", dimension=4, embedder_name=None)
        await it.store.open(None)
        await it.put(fact("User bought a canoe first of all."), fact("User bought a tent."))
        answer = await it.recall.recall(
            asking("Which did I buy first, the canoe or the tent?", similarity_threshold=0.0)
        )
        await it.store.close()
    assert (answer.result, answer.notes) == ("injected", ["sides: store"])
