"""Episodes in a block: named as such, and left out where the facts of all their messages are given."""

from datetime import UTC, datetime

from memproxy.core.memory import Kind, Memory
from memproxy.core.turn import text_digest
from memproxy.recall.assemble import assemble
from memproxy.recall.ranking import Scored
from memproxy.recall.select import select
from tests.recall.making import LIMITS

NOW = datetime(2024, 5, 1, tzinfo=UTC)


def scored(name: str, score: float, kind: Kind, *turns: str) -> Scored:
    memory = Memory(
        id=name,
        tenant="acme",
        user_id="ann",
        kind=kind,
        content=f"What {name} says",
        created_at=NOW,
        updated_at=NOW,
        turn_ids=list(turns),
    )
    return Scored(memory=memory, score=score, signals={})


def rejected(*found: Scored) -> dict[str, str | None]:
    judged = select(found, LIMITS, present=frozenset(), now=NOW)
    return {one.scored.memory.id: one.rejected for one in judged}


def test_an_episode_whose_facts_are_given_is_left_out() -> None:
    facts = [scored("f1", 0.9, Kind.SEMANTIC, "t1"), scored("f2", 0.89, Kind.SEMANTIC, "t2")]
    assert rejected(*facts, scored("e", 0.88, Kind.EPISODIC, "t1", "t2")) == {"f1": None, "f2": None, "e": "fact"}


def test_an_episode_of_one_message_gives_way_to_it_and_to_its_fact() -> None:
    episode = scored("e", 0.95, Kind.EPISODIC, "t1")
    assert rejected(episode, scored("t1", 0.7, Kind.TURN)) == {"e": "fact", "t1": None}
    assert rejected(episode, scored("f", 0.7, Kind.SEMANTIC, "t1")) == {"e": "fact", "f": None}
    assert rejected(episode, scored("f", 0.1, Kind.SEMANTIC, "t1"))["e"] is None


def test_what_was_learned_of_a_message_is_not_given_beside_it() -> None:
    turn = scored("t1", 0.9, Kind.TURN)
    turn.memory.content = "My bike is a Brompton folding bike."
    found = [turn, scored("f", 0.9, Kind.SEMANTIC, "t1"), scored("e", 0.9, Kind.EPISODIC, "t1", "t2")]
    judged = select(found, LIMITS, present=frozenset({text_digest(turn.memory.content)}), now=NOW)
    assert [one.rejected for one in judged] == ["present", "present", None]


def test_a_mere_yes_in_the_request_hides_nothing_that_another_one_meant() -> None:
    turn = scored("t1", 0.9, Kind.TURN)
    turn.memory.content = "Yes!"
    found = [turn, scored("f", 0.9, Kind.SEMANTIC, "t1")]
    judged = select(found, LIMITS, present=frozenset({text_digest("Yes!")}), now=NOW)
    assert judged[1].rejected is None


def test_an_episode_that_tells_more_is_given() -> None:
    facts = [scored("f1", 0.9, Kind.SEMANTIC, "t1")]
    assert rejected(*facts, scored("e", 0.88, Kind.EPISODIC, "t1", "t2"))["e"] is None


def test_an_episode_is_called_one() -> None:
    chosen = [scored("e", 0.9, Kind.EPISODIC, "t1"), scored("f", 0.9, Kind.SEMANTIC, "t1")]
    block = assemble(chosen, query="what", nonce="0" * 12, max_tokens=500, heading=None, now=NOW)
    assert "(episode) What e says" in block.text
    assert "(fact) What f says" in block.text
