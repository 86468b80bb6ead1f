"""Questions asked in the middle of a conversation, and what they need of it.

Some say nothing without what was said before ("And when is it?"); some are complete, and what was said before would
only stand in the way ("And how much is my rent?" amid the plans for a trip); some have a word of their own and still
mean the one that was talked about ("What about the hotel?").
"""

import msgspec

KNOWN = (
    "User's budget for the Hawaii vacation is $10,000",
    "User's flight to Hawaii leaves on 12 June at 9:40",
    "User's Hawaii hotel is the Palm Court in Honolulu",
    "User's rent is 1,150 euros a month",
    "User's dog Biscuit is a beagle",
    "Biscuit is allergic to chicken",
    "User's vet is Dr. Okafor",
    "User's sister Anna lives in Lisbon",
    "User's half marathon is on 13 October",
    "User's knee hurts after long runs",
    "User works as a data engineer at Aerovolt",
    "User's dentist appointment is on 3 May",
    "User's hotel for the Boston conference is the Harbor Inn",
    "User pays 45 euros a month for the gym",
)


class FollowUp(msgspec.Struct, frozen=True, kw_only=True):
    """``said`` are the user's earlier messages, ``answer`` the place in `KNOWN` of what answers ``asked``."""

    said: tuple[str, ...]
    asked: str
    answer: int


_TRIP = ("I'm planning our Hawaii vacation", "Which beaches in Hawaii are good for snorkelling?")
_DOG = ("Biscuit, my beagle, did not eat his food today", "He drinks enough, though")
_RUN = ("I want to get faster for my half marathon", "Is interval training a good idea before a half marathon?")

LEANING = (
    FollowUp(said=("Which budget did we set for the Hawaii vacation?",), asked="How much was it?", answer=0),
    FollowUp(said=("I have to pack for the flight to Hawaii",), asked="And when is it?", answer=1),
    FollowUp(said=_RUN, asked="And when is it again?", answer=8),
    FollowUp(said=("I have to call the vet for my dog",), asked="Who was it?", answer=6),
    FollowUp(said=_TRIP, asked="How much?", answer=0),
)
"""Nothing without what was said before."""

COMPLETE = (
    FollowUp(said=_TRIP, asked="And how much is my rent?", answer=3),
    FollowUp(said=_TRIP, asked="And who is my vet?", answer=6),
    FollowUp(said=_TRIP, asked="So where does my sister live?", answer=7),
    FollowUp(said=_TRIP, asked="And when is my dentist appointment?", answer=11),
    FollowUp(said=_DOG, asked="And how much is my rent?", answer=3),
    FollowUp(said=_DOG, asked="But when is that half marathon?", answer=8),
    FollowUp(said=_RUN, asked="And how much is the gym?", answer=13),
    FollowUp(said=_RUN, asked="And what breed is my dog?", answer=4),
)
"""What was said before has nothing to do with it."""

BETWEEN = (
    FollowUp(said=_TRIP, asked="What about the hotel?", answer=2),
    FollowUp(said=("I fly to the Boston conference next week",), asked="And the hotel?", answer=12),
    FollowUp(said=_TRIP, asked="And when is my flight?", answer=1),
    FollowUp(said=_DOG, asked="And his allergy?", answer=5),
)
"""A word of its own, and more meant than it says."""
