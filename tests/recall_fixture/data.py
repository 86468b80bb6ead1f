"""Short conversations of our own, and what is asked about them.

A question's gold are the messages that hold its answer, as ``session#place``. Questions without gold must bring
nothing into the request: they are about nothing that was said (``elsewhere``), or near it without an answer
(``unanswered``).
"""

from datetime import UTC, datetime

from memproxy.core.turn import Message
from memproxy.evals.dataset import Dataset, Question, Session
from memproxy.evals.longmemeval import turn_id

ASKED_AT = datetime(2024, 9, 1, 12, tzinfo=UTC)

TALKS: dict[str, dict[str, tuple[str, list[str]]]] = {
    "mara": {
        "mara-dog": (
            "2024-01-13",
            [
                "We finally did it: I adopted a dog from the shelter today, a beagle called Biscuit.",
                "Congratulations! Beagles have a great nose. How old is Biscuit?",
                "He is two. The shelter said he is allergic to chicken, so I buy lamb kibble.",
                "Good to know. Introduce new food slowly over about a week.",
                "Will do. His first vet appointment is on 25 January with Dr. Okafor.",
                "Bring the shelter's vaccination papers along.",
            ],
        ),
        "mara-move": (
            "2024-03-02",
            [
                "Today the removal van comes. After six years in Hamburg I am moving to Berlin.",
                "Exciting! Which part of the city?",
                "Neukölln, a flat on the third floor for 1,150 euros a month.",
                "That is a lively district. Remember to register your address within two weeks.",
                "My new job starts on 1 April: data engineer at a wind farm operator called Aerovolt.",
                "Good luck with the new job!",
            ],
        ),
        "mara-run": (
            "2024-06-20",
            [
                "I signed up for the half marathon on 13 October. Can you outline a plan?",
                "Sure: three runs a week, one of them long, with a rest week every fourth week.",
                "My knee hurts after long runs, by the way.",
                "Then swap one run for cycling and see a physiotherapist if it stays.",
            ],
        ),
    },
    "tomas": {
        "tomas-ops": (
            "2024-02-05",
            [
                "Our payments service is deployed from the release branch with the command make ship-payments.",
                "Noted. Who may trigger a release?",
                "Only Priya and I. Releases are frozen on Fridays.",
                "A sensible rule.",
                "If a release goes wrong we run make rollback and page the on-call phone.",
                "I would write that down in a runbook.",
            ],
        ),
        "tomas-bug": (
            "2024-05-17",
            [
                "The nightly export failed again. The cause was a full disk on host atlas-3.",
                "How long are exports kept there?",
                "Ninety days. I cut it down to thirty and the job is green.",
                "Consider an alert at eighty percent.",
                "We moved the main database from MySQL to Postgres 16 last month, so the old scripts are useless.",
                "Archive them so nobody runs them by accident.",
            ],
        ),
    },
    "ines": {
        "ines-trip": (
            "2024-04-09",
            [
                "I'm planning ten days in Portugal with my parents in September, budget 3,000 euros in total.",
                "Lovely. Would you rather stay in one place or travel around?",
                "Two places: Porto first, then the Algarve. My father uses a wheelchair, so no steep streets.",
                "Porto is hilly, but the Foz district by the river mouth is flat.",
                "Perfect. I booked the Hotel Maré in Foz from the 7th to the 11th.",
                "A good choice, the trams stop nearby.",
            ],
        ),
        "ines-food": (
            "2024-07-28",
            [
                "Can you suggest dinner for eight? Two guests are vegan and my sister Clara can't eat gluten.",
                "A chickpea tagine with saffron rice suits everybody, with an orange salad before it.",
                "I made the tagine, everybody loved it! Clara asked for the recipe.",
                "Great! Shall I write it down for twelve servings?",
                "Yes, for her birthday on 30 August.",
                "Done: double the chickpeas, and three preserved lemons.",
            ],
        ),
    },
    "joon": {
        "joon-music": (
            "2023-11-11",
            [
                "I started cello lessons with Mrs. Lindqvist, every Tuesday at six.",
                "Wonderful. What are you working on?",
                "The first Bach suite, very slowly. My cello is rented for 45 euros a month.",
                "Renting is fine in the first year.",
                "I'd love to play in the community orchestra some day.",
                "They usually hold auditions in spring.",
            ],
        ),
        "joon-car": (
            "2024-08-15",
            [
                "My old Corolla failed its inspection: brakes and exhaust, 1,400 euros to fix.",
                "Is it worth it for a car of that age?",
                "No. I sold it for parts and lease an electric Kona now, 289 a month.",
                "Do you have somewhere to charge it?",
                "At work it's free, and the garage at home gets a wallbox in November.",
                "Then you hardly need public chargers.",
            ],
        ),
    },
    "ruth": {
        "ruth-book": (
            "2024-05-02",
            [
                "I'm writing a novel about a lighthouse keeper in 1890s Maine. Working title: Salt and Lamp Oil.",
                "Evocative. Who tells the story?",
                "The keeper's daughter Abigail, who is deaf.",
                "Then light and vibration could carry the narrative.",
                "My editor Hanne wants the first hundred pages by the end of June.",
                "You could aim for two pages a day.",
            ],
        ),
        "ruth-garden": (
            "2024-06-11",
            [
                "Slugs ate all my lettuce. What helps without poison?",
                "Beer traps, copper tape, and watering in the morning instead of the evening.",
                "The copper tape worked! I lost only one dahlia.",
                "Glad to hear it. Check it for gaps after rain.",
            ],
        ),
    },
}

ANSWERED = [
    ("mara", "What is my dog called?", ["mara-dog#0"]),
    ("mara", "What food is Biscuit allergic to?", ["mara-dog#2"]),
    ("mara", "Which vet did I book for Biscuit?", ["mara-dog#4"]),
    ("mara", "How much rent do I pay for the flat?", ["mara-move#2"]),
    ("mara", "Which city did I live in before Berlin?", ["mara-move#0"]),
    ("mara", "Where do I work as a data engineer?", ["mara-move#4"]),
    ("mara", "When is my half marathon?", ["mara-run#0"]),
    ("mara", "What did you say about my knee after long runs?", ["mara-run#2", "mara-run#3"]),
    ("tomas", "How do I deploy the payments service?", ["tomas-ops#0"]),
    ("tomas", "Who is allowed to release?", ["tomas-ops#2"]),
    ("tomas", "What do we do when a release goes wrong?", ["tomas-ops#4"]),
    ("tomas", "Why did the nightly export fail?", ["tomas-bug#0"]),
    ("tomas", "Which database do we use now?", ["tomas-bug#4"]),
    ("ines", "What is my budget for Portugal?", ["ines-trip#0"]),
    ("ines", "Which hotel did I book in Porto?", ["ines-trip#4"]),
    ("ines", "Why should the streets not be steep?", ["ines-trip#2"]),
    ("ines", "What can't Clara eat?", ["ines-food#0"]),
    ("ines", "When is my sister's birthday?", ["ines-food#4"]),
    ("ines", "Which dinner did you suggest for my eight guests?", ["ines-food#1"]),
    ("joon", "Who teaches me the cello?", ["joon-music#0"]),
    ("joon", "How much is the rent of my cello?", ["joon-music#2"]),
    ("joon", "What car do I lease now?", ["joon-car#2"]),
    ("joon", "Where can I charge my car for free?", ["joon-car#4"]),
    ("ruth", "What is the title of my novel?", ["ruth-book#0"]),
    ("ruth", "Who tells the story in my book?", ["ruth-book#2"]),
    ("ruth", "What does my editor Hanne want, and by when?", ["ruth-book#4"]),
    ("ruth", "What helped against the slugs?", ["ruth-garden#1", "ruth-garden#2"]),
]
TWO_HOPS = [("mara", "In which city does Biscuit's owner live now?", ["mara-move#0"])]
ELSEWHERE = [
    ("mara", "How do I write a quicksort in Python?"),
    ("mara", "Translate this paragraph into Spanish"),
    ("tomas", "Write a poem about autumn leaves"),
    ("tomas", "What are good names for a baby girl?"),
    ("ines", "Explain how a transformer network works"),
    ("ines", "Is Rust faster than Go?"),
    ("joon", "How do vaccines work?"),
    ("joon", "Draft an apology letter to a customer"),
    ("ruth", "What is the square root of 1764?"),
    ("ruth", "Summarize the plot of Hamlet"),
]
UNANSWERED = [
    ("mara", "What is my cat called?"),
    ("mara", "Which phone did I buy?"),
    ("tomas", "What is my wife's first name?"),
    ("ines", "Which airline did my brother complain about?"),
    ("joon", "What is the wifi password at my office?"),
    ("ruth", "Which school does my son attend?"),
]


def fixture(*parts: str) -> Dataset:
    """The conversations, with the questions of these parts (all by default)."""
    sessions = [
        Session(user=user, name=name, date=datetime.fromisoformat(date).replace(hour=18, tzinfo=UTC), messages=[
            Message(role="assistant" if place % 2 else "user", id=turn_id(name, place), content=text)
            for place, text in enumerate(texts)
        ])
        for user, talks in TALKS.items()
        for name, (date, texts) in talks.items()
    ]  # fmt: skip
    questions = {
        "answered": [_question("answered", user, text, gold) for user, text, gold in ANSWERED],
        "two hops": [_question("two hops", user, text, gold) for user, text, gold in TWO_HOPS],
        "elsewhere": [_question("elsewhere", user, text, []) for user, text in ELSEWHERE],
        "unanswered": [_question("unanswered", user, text, []) for user, text in UNANSWERED],
    }
    chosen = [question for part in parts or questions for question in questions[part]]
    return Dataset(name="fixture", total="answered", sessions=sessions, questions=chosen)


def _question(group: str, user: str, text: str, gold: list[str]) -> Question:
    return Question(
        id=f"{group}: {text}",
        user=user,
        text=text,
        group=group,
        asked_at=ASKED_AT,
        gold_turns=frozenset(gold),
        gold_sessions=frozenset(turn.partition("#")[0] for turn in gold),
        scored=bool(gold),
    )
