import contextlib
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memproxy.api.fields import parse_content, parse_time
from memproxy.api.http import validate
from memproxy.api.memories import MemoryEdit, NewMemory
from memproxy.api.models import ListQuery
from memproxy.api.recalling import SearchBody
from memproxy.api.turns import NewTurns
from memproxy.errors import RequestError

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=20,
)
FIELDS = st.sampled_from(
    ["content", "kind", "tags", "metadata", "messages", "timestamp", "query", "limit", "user_id", "as_of", "relations"]
)


@given(st.datetimes(timezones=st.just(UTC), min_value=datetime(1000, 1, 1), max_value=datetime(9000, 1, 1)))  # noqa: DTZ001
def test_a_time_is_the_same_instant_however_it_is_written(instant: datetime) -> None:
    fixed = instant.astimezone(timezone(timedelta(hours=2)))
    assert parse_time(fixed.isoformat()) == instant
    assert parse_time(fixed.astimezone(UTC).isoformat().replace("+00:00", "Z")) == instant


def test_a_time_without_an_offset_is_utc_and_a_number_is_unix_seconds() -> None:
    assert parse_time("2023-05-08T13:56:00") == datetime(2023, 5, 8, 13, 56, tzinfo=UTC)
    assert parse_time("2023-05-08") == datetime(2023, 5, 8, tzinfo=UTC)
    assert parse_time(1683554160) == datetime(2023, 5, 8, 13, 56, tzinfo=UTC)
    assert parse_time("1683554160") == parse_time(1683554160)
    half = datetime(2023, 5, 8, 13, 56, 0, 500_000, tzinfo=UTC)
    assert parse_time("1683554160.5") == parse_time(1683554160.5) == half


NO_TIMES = ["yesterday", "", "20230508", "2023", 20230508, 2023, "12345678.5", "2023-13-01", 1e18, -1e18, 10**400]


@pytest.mark.parametrize("value", [*NO_TIMES, True, [], {}, "0001-01-01T00:00:00+14:00"])
def test_what_is_no_time_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="RFC 3339"):
        parse_time(value)


def test_text_parts_are_joined_and_pictures_passed_over_but_no_text_is_lost() -> None:
    parts = ["zero", {"type": "text", "text": "one"}, {"type": "image_url", "image_url": {}}]
    assert parse_content([*parts, {"type": "input_text", "text": "two"}], may_be_empty=False) == "zero\none\ntwo"
    assert parse_content([parts[2]], may_be_empty=False) == ""
    with pytest.raises(ValueError, match="part 1 is no text"):
        parse_content([{"type": "text", "text": "one"}, {"type": "txt", "text": "two"}], may_be_empty=True)


@given(
    model=st.sampled_from([NewMemory, MemoryEdit, NewTurns, SearchBody, ListQuery]),
    data=JSON | st.dictionaries(FIELDS, JSON, max_size=5),
)
def test_whatever_comes_is_a_model_or_a_request_error(model: type[NewMemory], data: object) -> None:
    with contextlib.suppress(RequestError):
        validate(model, data)


@pytest.mark.parametrize(
    ("model", "data", "told", "param"),
    [
        (NewMemory, {"relations": [{"subject": "a", "predicate": "b"}]}, "object: is required", "relations.0.object"),
        (NewMemory, {"colour": "red"}, "colour: is not a field of this call", "colour"),
        (MemoryEdit, {"created_at": "2024-01-01T00:00:00Z"}, "created_at: is set by the server", "created_at"),
        (NewMemory, {"kind": "turn"}, "POST /v1/memory/turns", "kind"),
        (NewMemory, {"confidence": 2, "importance": -1}, "besides this one: 1", "confidence"),
    ],
)
def test_a_wrong_field_is_named_with_the_reason(
    model: type[NewMemory], data: dict[str, Any], told: str, param: str
) -> None:
    with pytest.raises(RequestError, match=told) as caught:
        validate(model, {"content": "x", **data})
    assert caught.value.param == param
