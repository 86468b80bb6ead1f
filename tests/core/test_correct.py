"""What an edit of a statement's words changes beside them."""

from typing import Any

import pytest

from memproxy.core.facts import following
from memproxy.core.memory import Kind, Memory, Relation
from tests.stores.making import memory

LIVES: dict[str, Any] = {"subject": "user", "predicate": "lives_in", "object": "Bruges"}


def statement(**fields: Any) -> Memory:
    told = {"content": "User lives in Bruges.", "entities": ["Bruges"], "relations": [Relation(**LIVES)], **LIVES}
    return memory("m", **(told | fields))


@pytest.mark.parametrize(
    ("given", "value"),
    [
        ({"content": "User lives in Ghent."}, "Ghent"),
        ({"content": "User lives in Ghent.", "object": "the city of Ghent"}, "the city of Ghent"),
        ({"content": "User has moved to Ghent."}, None),
    ],
)
def test_nothing_beside_the_words_goes_on_saying_what_they_do_not(given: dict[str, Any], value: str | None) -> None:
    after = given | following(statement(), given)
    assert after["object"] == value
    assert [one.object for one in after["relations"]] == ([value] if value else [])
    assert after["entities"] == ([value] if value else [])


def test_what_an_edit_leaves_in_the_words_stays_beside_them() -> None:
    assert following(statement(), {"content": "User lives in Bruges since 2019."}) == {}
    assert following(statement(), {"tags": ["home"]}) == {}
    assert following(statement(kind=Kind.TURN), {"content": "User lives in Ghent."}) == {}
