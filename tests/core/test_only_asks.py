"""Which messages do nothing but ask to forget something."""

import pytest

from memproxy.core.facts import only_asks

SALARY = "forget what I told you about my salary"


@pytest.mark.parametrize(
    ("text", "quotes", "only"),
    [
        ("Please forget what I told you about my salary.", [SALARY], True),
        ("Thanks! Forget what I told you about my salary", [SALARY], True),
        ("Please, forget  what I told you about my salary, ok?", [SALARY], True),
        ("Forget my salary. Forget my dog, too!", ["Forget my salary.", "Forget my dog, too!"], True),
        ("Forget my salary. Forget my dog.", ["Forget my salary."], False),
        ("Forget what I told you about my salary, I found a flat in Rome", [SALARY], False),
        ("Forget the budget - money is no object", ["Forget the budget - money is no object"], False),
        ("The flat in Rome is mine. Forget what I told you about my salary.", [SALARY], False),
        ("Forget my salary.", [], False),
        ("Forget my salary.", [""], False),
        ("ok", ["ok"], False),
        ("Vergiss meinen Lohn!", ["Vergiss meinen Lohn"], True),
        ("Don’t remember my salary.", ["Don't remember my salary"], True),
        ("I'm not on Instagram anymore", ["I'm not on Instagram anymore"], False),
        ("I've stopped using Facebook.", ["I've stopped using Facebook"], False),
        ("I gave up sugar in my tea.", ["I gave up sugar in my tea"], False),
        ("We no longer have the car.", ["We no longer have the car."], False),
    ],
)
def test_what_only_asks_to_forget(text: str, quotes: list[str], only: bool) -> None:
    assert only_asks(text, quotes) is only
