"""What people ask without the words of what they told: by its day, by whom it is for, by "he", or for all of a list."""

import msgspec


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """What was told, each text that many days ago, and a question; ``answers`` are given, and ``misleads`` is not.

    A text after ``>`` is the assistant's. ``earlier`` are the user's messages before the question.
    """

    told: tuple[tuple[int, str], ...]
    asked: str
    answers: tuple[str, ...]
    misleads: str = "no such text"
    earlier: tuple[str, ...] = ()


UNRELATED = (
    (200, "The train was packed this morning."),
    (180, "I had a headache yesterday evening."),
    (160, "I made pancakes for breakfast."),
    (120, "We spent a long weekend in Malta."),
    (90, "Someone dented a parked car on our street."),
    (60, "The meeting about the budget went on for three hours."),
    (30, "I found a nice cafe near the station."),
)
"""Told to the same assistant, some of it with words of the questions."""

BY_DAY = (
    Case(
        told=((6, "Today we climbed Helvellyn with the kids."),),
        asked="What did I do last weekend?",
        answers=("Helvellyn",),
        misleads="Malta",
    ),
    Case(
        told=((1, "Spent the whole day repairing the shed roof."),),
        asked="What was I doing yesterday?",
        answers=("shed",),
        misleads="headache",
    ),
    Case(
        told=((6, "Went to the flea market and got a brass lamp."),),
        asked="What did I buy last weekend?",
        answers=("brass lamp",),
    ),
    Case(
        told=((0, "Heute waren wir auf der Wartburg."),),
        asked="Was habe ich am Wochenende gemacht?",
        answers=("Wartburg",),
    ),
    Case(told=((1, "Subimos al Peñón de Ifach."),), asked="¿Qué hice ayer?", answers=("Ifach",)),
    Case(
        told=((1, "Nous sommes allés au lac d'Annecy."),), asked="Qu'est-ce que j'ai fait hier ?", answers=("Annecy",)
    ),
)
FOR_SOMEBODY = (
    Case(
        told=((50, "My wife loves orchids and mid-century ceramics."),),
        asked="Any ideas for a birthday present for my wife?",
        answers=("orchids",),
    ),
    Case(
        told=((50, "My husband Oliver is mad about rugby and whisky."),),
        asked="What could I give Oliver for Christmas?",
        answers=("rugby",),
    ),
    Case(
        told=((50, "No nuts at our house, Elsie has a severe peanut allergy."),),
        asked="What should I bake for Elsie's class party?",
        answers=("peanut",),
    ),
    Case(
        told=((50, "Meine Frau liebt Orchideen und Krimis."),),
        asked="Was soll ich meiner Frau zum Geburtstag schenken?",
        answers=("Orchideen",),
    ),
)
OF_A_LIST = (
    Case(
        told=((110, "Songs to practise: Autumn Leaves."), (40, "I should practise Blue in Green as well.")),
        asked="Which songs do I have to practise?",
        answers=("Autumn Leaves", "Blue in Green"),
    ),
    Case(
        told=((110, "Idea for my novel: the keeper is a forger."), (40, "For the novel: the storm takes the archive.")),
        asked="What ideas do I have for my novel?",
        answers=("forger", "archive"),
    ),
)
ANSWERED = (
    Case(
        told=((70, "How do I make a good lentil soup?"), (70, "> Sauté onions, add red lentils, finish with tahini.")),
        asked="What was in the lentil soup you suggested?",
        answers=("tahini",),
    ),
    Case(
        told=((70, "How can I get a red wine stain out of linen?"), (70, "> Blot it and pour on sparkling water.")),
        asked="How did you say I get wine out of linen?",
        answers=("sparkling",),
    ),
)
POINTED_AT = (
    Case(
        told=((70, "My hairdresser is called Silvia and charges 48 euros."),),
        earlier=("Silvia cut my hair again.",),
        asked="What does she charge?",
        answers=("48",),
    ),
    Case(
        told=((70, "My best friend Theo has been living in Lyon for ten years."),),
        earlier=("Theo just called me.",),
        asked="Which city is he living in?",
        answers=("Lyon",),
    ),
)
OF_KIN = (
    Case(
        told=(
            (70, "My husband drinks his espresso without sugar."),
            (40, "My husband is over at his new club a lot now."),
        ),
        asked="How does my husband take his espresso?",
        answers=("without sugar",),
    ),
    Case(
        told=((70, "I don't have any siblings."),),
        asked="How many siblings do I have?",
        answers=("any siblings",),
    ),
    Case(
        told=((70, "Our tomcat Mogli is seven."),),
        asked="How old is our tomcat?",
        answers=("seven",),
    ),
)
EVERYDAY = (*BY_DAY, *FOR_SOMEBODY, *OF_A_LIST, *ANSWERED, *POINTED_AT, *OF_KIN)
