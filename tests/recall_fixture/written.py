"""Facts as a model writes them, in the third person, and what their user asks in his own words."""

import msgspec


class Written(msgspec.Struct, frozen=True):
    """A fact, the predicate it has (empty: none), a question and what its answer holds; empty: nothing is asked."""

    text: str
    predicate: str = ""
    asked: str = ""
    answer: str = ""
    steps: bool = False


WRITTEN = (
    Written("User drives a Skoda Octavia.", "drives", "What car do I drive?", "Skoda"),
    Written("User's car has a new windscreen wiper."),
    Written("User is the CFO of Brightwater.", "job_title", "What is my job?", "CFO"),
    Written("User's hairdresser retired and closed the shop."),
    Written("User reports to Helen Marsh.", "reports_to", "Who is my manager?", "Helen"),
    Written("User resides in Ghent.", "resides_in", "Where do I live?", "Ghent"),
    Written("User's neighbour complained about the new cycle lane."),
    Written("User voted for the new street lamps."),
    Written("User's parents live in Bergen.", "", "Where do my parents live?", "Bergen"),
    Written("User's colleague Ole moved to Turku."),
    Written("User pays 740 euros rent per month.", "rent", "How much rent do I pay?", "740"),
    Written("User's landlord wants the forms by 3 May."),
    Written(
        "To deploy: make image, make push, then approve the release.", "deploy_steps", "How do I deploy?", "push", True
    ),
    Written("User deploys on Thursdays.", "deploy_day", "Which day do I deploy?", "Thursdays"),
)
