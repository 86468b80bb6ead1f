"""Which messages are meant for memory itself, and that those that only look so are not."""

import json
from importlib.resources import files

import pytest

from memproxy.core.control_phrases import MOST_OF_ITEM, Command, command_in, line, shortened

DATA = json.loads(files("memproxy.core").joinpath("control_phrases.json").read_text("utf-8"))
WHOLE = [(language, name, said) for language, all_of in DATA.items()
         for name in ("about", "unremember", "stop", "start") for said in all_of[name]]  # fmt: skip
SLOTS = [(language, kind, said) for language, all_of in DATA.items()
         for kind in ("forget", "forget_known") for said in all_of[kind]]  # fmt: skip


def test_every_phrase_is_read_as_what_it_stands_for() -> None:
    for language, name, said in WHOLE:
        for written in (said, f"{said}.", said.capitalize() + "!"):
            assert command_in(written) == Command(name=name, language=language), written  # type: ignore[arg-type]
    for language, kind, said in SLOTS:
        found = command_in(said.replace("{x}", "zebra"))
        expected = Command(name="forget", language=language, target="zebra", in_messages=kind == "forget")
        assert found == expected, said


@pytest.mark.parametrize(
    ("said", "name", "target"),
    [
        ("Hey, what do you know about me??", "about", ""),
        ("Please forget my birthday.", "forget", "birthday"),
        ("Could you forget that I live in Bern?", "forget", "live in bern"),
        ("Vergiss bitte meinen Geburtstag!", "forget", "geburtstag"),
        ("olvida mi cumpleaños, por favor", "forget", "cumpleaños"),
        ("私の誕生日を忘れてください", "forget", "誕生日"),
        ("请忘记我的生日。", "forget", "生日"),
        ("Don’t remember this.", "unremember", ""),
        ("WHAT DO YOU KNOW ABOUT ME", "about", ""),
    ],
)
def test_courtesy_case_and_marks_make_no_difference(said: str, name: str, target: str) -> None:
    found = command_in(said)
    assert found is not None
    assert (found.name, found.target) == (name, target)


@pytest.mark.parametrize(
    "said",
    [
        *("what do you know about me in this CV?", "What do you know about merge sort?", "what do you know", ""),
        *("Forget it", "forget about it", "Forget that.", "never mind, forget it", "forget everything"),
        *(
            "Forget everything about me",
            "vergiss es",
            "Vergiss das.",
            "oublie ça",
            "olvida eso",
            "忘了吧",
            "それを忘れて",
        ),
        *("Forget about the diet, give me a cake recipe", "forget my diet. What's for dinner?", "forget\nmy birthday"),
        *("Don't remember this song?", "stop remembering that day in Paris", "How do I stop remembering him?"),
        *("Write a poem: forget my heart, forget my name", "pleaseforget my birthday", "Stop", "start"),
        "forget my " + "very " * 30 + "long list",
    ],
)
def test_what_only_looks_so_is_for_the_model(said: str) -> None:
    assert command_in(said) is None


def test_an_answer_is_one_short_line_that_a_client_renders_as_text() -> None:
    about = Command(name="about", language="en")
    facts = [
        "User lives in\nBern.",
        "![x](http://127.0.0.1/y) <b>bold</b> `code`",
        "a" * 500,
        *(f"fact {n}" for n in range(20)),
    ]
    said = line(about, "about", facts)
    assert said.startswith("What I remember about you (23): “User lives in Bern”; ")
    assert said.endswith("… and 15 more.")
    assert "\n" not in said
    assert not set("[]<>`") & set(said)
    assert len(shortened("a" * 500)) == MOST_OF_ITEM
    assert line(about, "nothing") == "I remember nothing about you yet."


@pytest.mark.parametrize("language", DATA)
def test_every_language_has_every_answer(language: str) -> None:
    assert DATA[language].keys() == DATA["en"].keys()
    assert DATA[language]["say"].keys() == DATA["en"]["say"].keys()
    for which, said in DATA[language]["say"].items():
        told = line(Command(name="forget", language=language), which, ["one"]) if which != "more" else said
        assert "{items}" not in told or which == "more"
