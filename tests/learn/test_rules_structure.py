"""What sentences say by how they are built: reasons in questions, people without "my", who or what is gone."""

import pytest

from memproxy.learn.candidates import Intent
from tests.learn.rules_rig import contents, said

STATED = [
    ("Which saddle suits me best, because I am left-handed?", "User is left-handed."),
    ("Is it normal that we live in Ghent and pay twice?", "User lives in Ghent."),
    ("Can we afford it when I bring home 2100 a month?", "User brings home 2100 a month."),
    ("Grandma's 88 and still rows.", "User's grandma is 88."),
    ("The hamster's called Pim.", "User has a hamster named Pim."),
    ("My aunt Ruth, she turns 60 in June and is really into opera.", "User's aunt Ruth is into opera."),
    ("soooo the eye clinic says I have glaucoma", "User has glaucoma."),
    ("I'd take rain over snow any day.", "User prefers rain over snow any day."),
    ("Two cappuccinos a day, no more.", "User drinks two cappuccinos a day."),
]
NOT_STATED = [
    ("What do I pay if I live in Ghent because I study there?", "Ghent"),
    ("Should I sell it because I might move to Oslo?", "Oslo"),
    ("My cousin has a hamster. The hamster is called Pim.", "User has a hamster"),
    ("It's my turn, I have two rooks and a bishop.", "rook"),
    ("My brother Per left early.", "has left"),
]
ENDED = [
    ("My manager is Odile.", "Odile has left, I report to a guy named Bram now.", "Odile"),
    ("I practise judo at Tora.", "Tora closed, I train at Kodan instead.", "Tora"),
    ("I have two spoons of honey in my tea.", "No honey in my tea anymore.", "honey"),
    ("I have a greenhouse.", "Gave the greenhouse back to the owner.", "greenhouse"),
    ("I live in Vaasa.", "Please forget what I said about living in Vaasa.", "Vaasa"),
    ("I am a retired juggler.", "ok that was a joke. I drive a bus.", "juggler"),
]


@pytest.mark.parametrize(("text", "content"), STATED)
def test_what_a_sentence_takes_for_granted_or_leaves_out_is_read(text: str, content: str) -> None:
    assert content in contents(text)


@pytest.mark.parametrize(("text", "part"), NOT_STATED)
def test_what_is_supposed_played_or_somebody_elses_is_not(text: str, part: str) -> None:
    assert not [one for one in contents(text) if part in one and not one.startswith("User's cousin")]


@pytest.mark.parametrize(("before", "then", "part"), ENDED)
def test_what_is_gone_is_no_longer_held(before: str, then: str, part: str) -> None:
    read = said(("user", before), ("assistant", "Noted."), ("user", then))
    over = [one for one in read if one.intent is not Intent.STATE]
    assert any(part in (one.content if one.intent is Intent.FORGET else one.replaces or "") for one in over)


def test_what_is_told_of_a_relative_does_not_take_the_place_of_his_age() -> None:
    read = said(("user", "Our son Leo is 5, he's allergic to eggs and he started school in September"))
    assert {one.predicate for one in read if "allergic" in one.content} == {"allergic_to"}


def test_who_moves_away_does_not_get_the_name_of_the_place() -> None:
    read = said(("user", "Our cleaner Inga comes on Mondays."), ("user", "Inga moved back to Latvia."))
    assert not [one for one in read if "Latvia comes" in one.content]


def test_a_place_is_forgotten_of_the_user_alone() -> None:
    read = said(
        ("user", "I live in Vaasa, my mum lives in Vaasa too."),
        ("user", "Please forget what I said about living in Vaasa."),
    )
    assert [one.subject for one in read if one.intent is Intent.FORGET] == ["user"]


def test_now_is_no_part_of_what_a_course_is_asked_for() -> None:
    (read,) = said(("user", "my pottery course now starts on Tuesdays"))
    assert "now" not in (read.predicate or "").split("_")
    assert read.content == "User's pottery course starts on Tuesdays."
