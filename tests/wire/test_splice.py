import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memproxy.wire.splice import (
    MOST_CANDIDATES,
    Edit,
    ObjectSpans,
    Unreadable,
    append_element,
    apply,
    check_encoding,
    contains,
    escapes_small_letters,
    without_half_surrogates,
)
from tests.wire.strategies import SPACES, TEXTS, VALUES, arrays, exactly, objects


@st.composite
def documents(draw: st.DrawFn) -> tuple[bytes, list[tuple[str, str]]]:
    names = draw(st.lists(TEXTS, max_size=6, unique=True))
    members = [(name, draw(VALUES)) for name in names]
    return (draw(SPACES) + draw(objects(members)) + draw(SPACES)).encode(), members


@given(documents())
def test_members_are_found_where_they_stand(document: tuple[bytes, list[tuple[str, str]]]) -> None:
    body, members = document
    found = ObjectSpans(body).members
    assert [(member.name, body[member.value_start : member.value_end].decode()) for member in found] == members
    assert all(body.startswith(b'"', member.key_start) for member in found)


@given(documents(), st.data())
def test_removing_members_leaves_the_same_document_without_them(
    document: tuple[bytes, list[tuple[str, str]]], data: st.DataObject
) -> None:
    body, members = document
    unwanted = data.draw(st.sets(st.sampled_from([name for name, _ in members]))) if members else set()
    kept = [[name, exactly(value)] for name, value in members if name not in unwanted]
    after = apply(body, ObjectSpans(body).remove([*unwanted, "not there"]))
    assert [list(pair) for pair in exactly(after)] == kept
    assert unwanted or after is body


@given(st.lists(VALUES, max_size=6).flatmap(lambda values: st.tuples(st.just(values), arrays(values))), VALUES)
def test_adding_an_element_leaves_every_other_byte(written: tuple[list[str], str], value: str) -> None:
    values, text = written
    body = text.strip().encode()
    edit = append_element(body, 0, len(body), value.encode())
    after = apply(body, [edit])
    assert exactly(after) == [exactly(raw) for raw in [*values, value]]
    assert after[: edit.start] + after[edit.start + len(edit.text) :] == body


@given(VALUES, VALUES, st.lists(VALUES, max_size=2), st.booleans())
def test_duplicate_keys_are_never_read(first: str, second: str, between: list[str], escaped: bool) -> None:
    middle = [(f"k{index}", value) for index, value in enumerate(between)]
    body = "{" + ",".join(f"{json.dumps(name)}:{value}" for name, value in [("a", first), *middle]) + ","
    body += ('"\\u0061"' if escaped else '"a"') + f":{second}}}"
    with pytest.raises(Unreadable) as refused:
        ObjectSpans(body.encode())
    assert refused.value.reason == "duplicate_keys"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "json"),
        (b"[]", "not_an_object"),
        (b"1", "not_an_object"),
        (b'"text"', "not_an_object"),
        (b"null", "not_an_object"),
        (b"{", "json"),
        (b'{"a":1', "json"),
        (b'{"a":1}}', "json"),
        (b'{"a":1,}', "json"),
        (b"{'a':1}", "json"),
        (b'{"a":NaN}', "json"),
        (b'{"a":Infinity}', "json"),
        (b'{"a":-Infinity}', "json"),
        (b'{"a":01}', "json"),
        (b'{"a":"\x01"}', "json"),
        (b'\xef\xbb\xbf{"a":1}', "json"),
        (b'{"a":1}\x00', "json"),
        (b'{"a":"\\ud800"}', "json"),
        (b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "too_deep"),
        (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "too_deep"),
        ('{"a":1}'.encode("utf-16"), "json"),
    ],
)
def test_what_is_no_plain_json_object_is_refused_with_a_reason(body: bytes, reason: str) -> None:
    with pytest.raises(Unreadable) as refused:
        ObjectSpans(body)
    assert refused.value.reason == reason


@pytest.mark.parametrize("body", [b'{"a":"\xff"}', b'{"a":"\xed\xa0\x80"}', b'{"\xc3":1}'])
def test_bytes_that_are_not_utf8_are_refused(body: bytes) -> None:
    with pytest.raises(Unreadable) as refused:
        check_encoding(body)
    assert refused.value.reason == "encoding"


def test_an_object_within_a_larger_text_is_found() -> None:
    text = b'[{"x":1}, {"a" : [1, 2] ,"b":{}} ]'
    spans = ObjectSpans(text, 10, 32)
    assert [text[member.value_start : member.value_end] for member in spans.members] == [b"[1, 2]", b"{}"]
    assert apply(text, spans.remove(["a"])) == b'[{"x":1}, {"b":{}} ]'


def test_overlapping_edits_are_refused() -> None:
    with pytest.raises(ValueError, match="overlap"):
        apply(b"abcdef", [Edit(0, 3), Edit(2, 4)])


def test_without_edits_the_very_same_object_comes_back() -> None:
    body = b"{}"
    assert apply(body, []) is body


HALVES = st.lists(
    st.sampled_from(["\ud83d", "\ude00", "\ud83d\ude00", "é", "a", "\\", '"', "\\ud83d", "\n"]), max_size=12
)


@given(HALVES)
def test_half_surrogates_get_a_readable_stand_in_of_the_same_length(pieces: list[str]) -> None:
    body = json.dumps("".join(pieces)).encode()
    stand_in = without_half_surrogates(body)
    assert len(stand_in) == len(body)
    expected: Any = json.loads(body).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    assert json.loads(stand_in) == expected
    assert (stand_in is body) == ("\ufffd" not in expected)


_BODIES = st.lists(
    st.sampled_from(
        [b"memory_con", b"memory", b"_con", b"_", b"<", b"<Recalled-Memory", b"<recalled", b"\\", b"\\\\", b"a"]
    )
    | st.sampled_from([b"_" * MOST_CANDIDATES, b"<" * MOST_CANDIDATES, b"\\n" * MOST_CANDIDATES]),
    max_size=12,
).map(b"".join)


@given(_BODIES)
def test_it_finds_what_the_language_finds(body: bytes) -> None:
    assert contains(body, b"memory_con", b"_") == (b"memory_con" in body)
    assert contains(body, b"<recalled-memory", b"<", any_case=True) == (b"<recalled-memory" in body.lower())


@given(_BODIES, st.sampled_from([b"\\u0063", b"\\u005f", b"\\u007A"]), _BODIES)
def test_an_escaped_letter_is_seen_wherever_it_stands(before: bytes, escaped: bytes, after: bytes) -> None:
    before = before.replace(b"\\", b"")  # so that the escape's own backslash is not escaped itself
    assert escapes_small_letters(before + b"\\n" * 100 + escaped + after)
    assert escapes_small_letters(before + escaped + after)
    assert not escapes_small_letters(before + b"\\n" * 100 + b"\\u00e9" * 100)


def test_an_escaped_backslash_before_a_u_is_no_escape() -> None:
    assert not escapes_small_letters(b'{"a": "\\\\u0063"}')
    assert escapes_small_letters(b'{"a": "\\\\\\u0063"}')
