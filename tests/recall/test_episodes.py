"""Episodes in a block: named as such, and left out where the facts of all their messages are given."""

import msgspec

from memproxy.core.memory import Kind
from memproxy.core.turn import text_digest
from memproxy.recall.assemble import assemble
from memproxy.recall.ranking import Scored
from memproxy.recall.select import select
from tests.recall.making import LIMITS, NOW, fact


def scored(name: str, score: float, kind: Kind, *turns: str) -> Scored:
    made = fact(f"What {name} says", id=name, session_id=None, turn_ids=list(turns))
    return Scored(memory=msgspec.structs.replace(made, kind=kind), score=score, signals={})


def rejected(*found: Scored) -> dict[str, str | None]:
    judged = select(found, LIMITS, present=frozenset(), now=NOW)
    return {one.scored.memory.id: one.rejected for one in judged}


def test_an_episode_is_left_out_where_the_facts_of_all_its_messages_are_given() -> None:
    one, other = scored("f1", 0.9, Kind.SEMANTIC, "t1"), scored("f2", 0.89, Kind.SEMANTIC, "t2")
    episode = scored("e", 0.88, Kind.EPISODIC, "t1", "t2")
    assert rejected(one, other, episode) == {"f1": None, "f2": None, "e": "fact"}
    assert rejected(one, episode)["e"] is None


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


def test_an_episode_is_called_one() -> None:
    chosen = [scored("e", 0.9, Kind.EPISODIC, "t1"), scored("f", 0.9, Kind.SEMANTIC, "t1")]
    block = assemble(chosen, query="what", nonce="0" * 12, max_tokens=500, heading=None, now=NOW)
    assert "(episode) What e says" in block.text
    assert "(fact) What f says" in block.text
