"""Other products' exports: what they say, with the times that they tell, and nothing made up."""

import json
import os
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memproxy.errors import ConfigError
from memproxy.importers import IMPORTERS, chatgpt_lines, mem0_lines, zep_lines


def written(tmp_path: Path, value: Any) -> Path:
    path = tmp_path / "export.json"
    path.write_text(value if isinstance(value, str) else json.dumps(value), "utf-8")
    return path


def archived(tmp_path: Path, name: str, value: Any) -> Path:
    path = tmp_path / "export.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(name, json.dumps(value))
    return path


MEM0 = {
    "id": "3f1b",
    "memory": "Prefers morning meetings",
    "hash": "x",
    "user_id": "ann",
    "agent_id": "planner",
    "run_id": "r1",
    "metadata": {"type": "preference"},
    "categories": ["work", "habits"],
    "created_at": "2024-07-01T10:00:00-07:00",
    "updated_at": "2024-07-02T10:00:00-07:00",
    "expiration_date": "2030-01-01",
    "score": 0.4,
}


@pytest.mark.parametrize("around", [lambda one: [one], lambda one: {"results": [one]}, lambda one: {"memories": [one]}])
def test_a_memory_of_mem0_keeps_its_id_times_owner_and_categories(tmp_path: Path, around: Any) -> None:
    (line,) = mem0_lines(written(tmp_path, around(MEM0)))
    assert line["memory"] == {
        "id": "3f1b",
        "content": "Prefers morning meetings",
        "kind": "semantic",
        "created_at": "2024-07-01T17:00:00+00:00",
        "updated_at": "2024-07-02T17:00:00+00:00",
        "expires_at": "2030-01-01T00:00:00+00:00",
        "user_id": "ann",
        "agent_id": "planner",
        "session_id": "r1",
        "tags": ["work", "habits"],
        "metadata": {"type": "preference"},
        "source": "import",
    }


@pytest.mark.parametrize("lines", [mem0_lines, zep_lines])
def test_what_has_no_time_is_as_old_as_the_file_and_not_from_1970(tmp_path: Path, lines: Any) -> None:
    edge = {"source": "ann", "relationship": "lives_in", "target": "porto"}
    told = {"results": [{"memory": "Likes tea"}], "relations": [edge], "facts": [{"fact": "Likes tea"}]}
    path = written(tmp_path, told)
    os.utime(path, (0, 1_700_000_000))
    assert {line["memory"]["created_at"] for line in lines(path)} == {"2023-11-14T22:13:20+00:00"}


def test_relations_of_mem0_become_edges(tmp_path: Path) -> None:
    edge = {"source": "ann", "relationship": "lives_in", "target": "porto", "user_id": "ann"}
    lines = list(mem0_lines(written(tmp_path, {"results": [MEM0], "relations": [edge]})))
    found = lines[1]["memory"]
    assert found["content"] == "ann lives in porto"
    assert found["relations"] == [{"subject": "ann", "predicate": "lives_in", "object": "porto"}]


def test_a_memory_without_an_id_gets_the_same_one_every_time(tmp_path: Path) -> None:
    path = written(tmp_path, [{"memory": "Likes tea", "user_id": "ann"}, {"memory": "Likes tea", "user_id": "bob"}])
    first, second = list(mem0_lines(path)), list(mem0_lines(path))
    assert first == second
    assert first[0]["memory"]["id"] != first[1]["memory"]["id"]


def test_a_fact_of_zep_keeps_both_clocks_and_one_that_is_over_is_history(tmp_path: Path) -> None:
    edge = {
        "uuid": "e1",
        "fact": "Kendra loves Adidas shoes",
        "name": "LOVES",
        "created_at": "2024-08-20T00:00:00Z",
        "valid_at": "2024-08-18T00:00:00Z",
        "invalid_at": "2024-09-01T00:00:00Z",
        "expired_at": None,
    }
    over, goes_on = list(zep_lines(written(tmp_path, {"edges": [edge, edge | {"uuid": "e2", "invalid_at": None}]})))
    assert over["memory"]["valid_from"] == "2024-08-18T00:00:00+00:00"
    assert over["memory"]["valid_to"] == "2024-09-01T00:00:00+00:00"
    assert over["memory"]["created_at"] == "2024-08-20T00:00:00+00:00"
    assert (over["memory"]["active"], goes_on["memory"]["active"]) == (False, True)


@pytest.mark.parametrize("newer", [True, False])
def test_messages_of_zep_become_turns_of_their_thread(tmp_path: Path, newer: bool) -> None:
    who = {"role": "user", "name": "Jane"} if newer else {"role": "Jane", "role_type": "user"}
    said = {"uuid": "m1", "content": "I moved to Oslo", "created_at": "2024-01-02T03:04:05Z", **who}
    answered = {"uuid": "m2", "content": "Nice!", "role": "assistant", "role_type": "assistant"}
    thread = {"thread_id": "t1", "user_id": "jane", "messages": [said, answered]}
    (line,) = zep_lines(written(tmp_path, {"threads": [thread]}))
    assert (line["turns"]["session_id"], line["turns"]["user_id"]) == ("t1", "jane")
    assert line["turns"]["messages"][0] == {
        "id": "m1",
        "role": "user",
        "content": "I moved to Oslo",
        "name": "Jane",
        "timestamp": "2024-01-02T03:04:05+00:00",
    }
    assert line["turns"]["messages"][1]["role"] == "assistant"


def test_messages_of_zep_that_share_an_id_and_say_different_things_are_both_there(tmp_path: Path) -> None:
    said = [{"uuid": "m1", "role": "user", "content": text, "thread_id": "t"} for text in ("one", "two", "one")]
    (line,) = zep_lines(written(tmp_path, {"messages": said}))
    assert [(one.get("id"), one["content"]) for one in line["turns"]["messages"]] == [
        ("m1", "one"),
        (None, "two"),
        ("m1", "one"),
    ]


def test_threads_of_zep_without_an_id_are_conversations_of_their_own_and_the_same_every_time(tmp_path: Path) -> None:
    said = [{"messages": [{"role": "user", "content": text}]} for text in ("one", "two")]
    sessions = [[line["turns"]["session_id"] for line in zep_lines(written(tmp_path, said))] for _ in range(2)]
    assert sessions[0] == sessions[1]
    assert len(set(sessions[0])) == 2


def node(name: str, parent: str | None, role: str, parts: list[Any], **message: Any) -> dict[str, Any]:
    content = {"content_type": "text", "parts": parts}
    said = {"id": name, "author": {"role": role}, "content": content, "create_time": 1_700_000_000.5, "metadata": {}}
    return {"id": name, "parent": parent, "children": [], "message": said | message}


CHAT = {
    "title": "Trip",
    "create_time": 1_700_000_000.0,
    "conversation_id": "c1",
    "current_node": "e",
    "mapping": {
        "root": {"id": "root", "parent": None, "children": ["a"], "message": None},
        "a": node("a", "root", "system", [""]),
        "b": node("b", "a", "user", ["I fly to Rome on May 3"]),
        "c": node("c", "b", "assistant", ["a regenerated answer"]),
        "d": node("d", "b", "assistant", ["Enjoy ", {"asset_pointer": "x"}]),
        "t": node("t", "d", "tool", ["searched"]),
        "e": node("e", "t", "user", ["Thanks"]),
    },
}


def test_the_current_branch_of_a_chatgpt_conversation_becomes_turns(tmp_path: Path) -> None:
    (line,) = chatgpt_lines(written(tmp_path, [CHAT]))
    turns = line["turns"]
    assert (turns["session_id"], turns["metadata"]) == ("c1", {"title": "Trip"})
    assert [(one["role"], one["content"]) for one in turns["messages"]] == [
        ("user", "I fly to Rome on May 3"),
        ("assistant", "Enjoy"),
        ("user", "Thanks"),
    ]
    assert turns["messages"][0]["timestamp"] == "2023-11-14T22:13:20.500000+00:00"


def test_a_chatgpt_conversation_without_an_id_is_the_same_one_every_time(tmp_path: Path) -> None:
    unnamed = {name: value for name, value in CHAT.items() if name != "conversation_id"}
    tree: Any = CHAT["mapping"]
    goes_on = {**unnamed, "mapping": {**tree, "f": node("f", "e", "user", ["Bye"])}, "current_node": "f"}
    other = {**unnamed, "create_time": 1_600_000_000.0}
    lines = [list(chatgpt_lines(written(tmp_path, value))) for value in ([unnamed], [unnamed], [goes_on], [other])]
    sessions = [line["turns"].get("session_id") for (line,) in lines]
    assert sessions[0]
    assert sessions[0] == sessions[1] == sessions[2] != sessions[3]


@pytest.mark.parametrize("name", ["zep thread", "zep messages", "chatgpt"])
def test_messages_without_a_time_are_as_old_as_the_file_and_the_same_in_a_copy_of_it(tmp_path: Path, name: str) -> None:
    said = [{"role": "user", "content": text} for text in ("yes", "no", "yes")]
    untimed = {"id": None, "create_time": None}
    tree = {
        "a": node("a", None, "user", ["yes"], **untimed),
        "b": node("b", "a", "user", ["no"], **untimed),
        "c": node("c", "b", "user", ["yes"], **untimed),
    }
    value: Any = {
        "zep thread": {"threads": [{"thread_id": "t", "messages": said}]},
        "zep messages": {"messages": said},
        "chatgpt": [{"id": "c", "current_node": "c", "mapping": tree}],
    }[name]
    path = written(tmp_path, value)
    read = IMPORTERS[name.split(maxsplit=1)[0]]
    os.utime(path, (0, 1_700_000_000))
    (first,) = read(path)
    os.utime(path, (0, 1_800_000_000))
    (copy,) = read(path)
    assert first["turns"]["timestamp"] == "2023-11-14T22:13:20+00:00"
    assert first["turns"]["messages"] == copy["turns"]["messages"]
    assert len({one["id"] for one in first["turns"]["messages"]}) == 3


@pytest.mark.parametrize("name", ["zep", "chatgpt"])
def test_a_message_without_a_time_was_said_when_the_one_before_it_was(tmp_path: Path, name: str) -> None:
    tree = {"a": node("a", None, "user", ["hi"]), "b": node("b", "a", "assistant", ["ho"], create_time=None)}
    said = [{"uuid": "a", "content": "hi", "created_at": 1_700_000_000.5}, {"uuid": "b", "content": "ho"}]
    chat = {"id": "c", "create_time": 1_600_000_000.0, "current_node": "b", "mapping": tree}
    (line,) = IMPORTERS[name](written(tmp_path, {"zep": {"messages": said}, "chatgpt": [chat]}[name]))
    assert {one["timestamp"] for one in line["turns"]["messages"]} == {"2023-11-14T22:13:20.500000+00:00"}


def test_a_file_that_begins_with_a_byte_order_mark_is_read(tmp_path: Path) -> None:
    path = tmp_path / "from-windows.json"
    path.write_text(json.dumps([MEM0]), encoding="utf-8-sig")
    assert len(list(mem0_lines(path))) == 1


def test_the_archive_of_chatgpt_is_read_as_it_comes(tmp_path: Path) -> None:
    assert len(list(chatgpt_lines(archived(tmp_path, "data/conversations.json", [CHAT])))) == 1


def test_a_tree_that_leads_in_a_circle_ends(tmp_path: Path) -> None:
    circle = {"current_node": "a", "mapping": {"a": node("a", "b", "user", ["x"]), "b": node("b", "a", "user", ["y"])}}
    (line,) = chatgpt_lines(written(tmp_path, [circle]))
    assert [one["content"] for one in line["turns"]["messages"]] == ["y", "x"]


def test_a_long_conversation_is_cut_into_calls_that_the_api_takes(tmp_path: Path) -> None:
    said = [{"role": "user", "content": f"message {number}"} for number in range(1_200)]
    lines = list(zep_lines(written(tmp_path, {"threads": [{"thread_id": "t", "messages": said}]})))
    assert [len(line["turns"]["messages"]) for line in lines] == [500, 500, 200]


@pytest.mark.parametrize("name", sorted(IMPORTERS))
@pytest.mark.parametrize("text", ["", "no json", '{"results": [', '{"other": []}', '"text"', "7"])
def test_a_file_of_no_such_format_is_refused(tmp_path: Path, name: str, text: str) -> None:
    with pytest.raises(ConfigError):
        list(IMPORTERS[name](written(tmp_path, text)))


def test_a_file_that_is_not_there_and_an_archive_without_conversations_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        list(mem0_lines(tmp_path / "nothing.json"))
    with pytest.raises(ConfigError):
        list(chatgpt_lines(archived(tmp_path, "other.txt", "x")))


def test_an_encrypted_archive_is_refused(tmp_path: Path) -> None:
    path = archived(tmp_path, "conversations.json", [])
    raw = bytearray(path.read_bytes())
    raw[raw.index(b"PK\x01\x02") + 8] |= 1  # the flag in the directory
    path.write_bytes(raw)
    with pytest.raises(ConfigError, match="encrypted"):
        list(chatgpt_lines(path))


NAMES = tuple(
    """
    id memory fact messages content role role_type created_at valid_at invalid_at mapping
    current_node message author parts parent source target relationship categories metadata user_id
    name uuid
    """.split()  # noqa: SIM905
)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=5),
    max_leaves=12,
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(ANYTHING, max_size=4), st.sampled_from(sorted(IMPORTERS)))
def test_whatever_a_file_holds_nothing_but_lines_comes_out(tmp_path: Path, values: list[Any], name: str) -> None:
    for line in IMPORTERS[name](written(tmp_path, values)):
        assert line.keys() <= {"memory", "turns"}
