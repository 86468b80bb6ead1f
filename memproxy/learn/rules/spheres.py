"""What is spoken of without its name: "the airline changed it, we leave at 15:05" is of the flight that is known.

Words belong to a sphere by what they tell of it; a change that names only such words is of the one known statement of
that sphere.
"""

from memproxy.learn.rules.ledger import Known, terms

_SPHERES: dict[str, tuple[str, str]] = {
    "journey": (
        "airline carrier gate boarding takeoff land leave depart departure railway platform ferry fly",
        "flight plane train ferry bus",
    ),
    "medicine": (
        "doctor doc gp pharmacist cardiologist neurologist psychiatrist dose dosage tablet pill prescription",
        "medicine dose mg tablet pill insulin thyroxine",
    ),
    "home": ("landlord landlady tenant lease flat apartment", "rent"),
    "pay": ("raise wage payslip boss pay promotion earn paid", "salary earn paid wage"),
    "visit": (
        "surgery clinic practice receptionist dentist doctor vet hairdresser garage physio rang phone reschedule",
        "appointment dentist doctor vet checkup physio haircut service",
    ),
    "party": ("guest cousin invitation invite caterer venue rsvp", "wedding party birthday guest reception"),
    "study": ("teacher professor supervisor examiner extension", "exam thesis essay deadline test homework"),
    "energy": ("energy electricity gas power utility bill heating", "gas electricity energy heating power"),
    "contract": (
        "provider contract tariff subscription carrier plan bill",
        "internet phone broadband mobile subscription insurance",
    ),
    "insurance": ("insurer insurance premium policy broker", "insurance premium"),
    "body": ("scale scales weigh diet kilo", "weigh weight"),
    "money": ("deposit saving save bank standing order", "saving save aside"),
    "children": ("nursery kindergarten creche childminder daycare", "nursery kindergarten creche daycare childcare"),
    "work": ("client customer boss manager stakeholder team", "deadline launch release meeting demo sprint"),
}
"""Of each sphere: the words that bring it up, and the words of what is known of it."""

_BRINGS_UP = {name: terms(words) | frozenset(words.split()) for name, (words, _) in _SPHERES.items()}
_IS_OF = {name: terms(words) | frozenset(words.split()) for name, (_, words) in _SPHERES.items()}


def spheres_of(sentence: str) -> frozenset[str]:
    """The spheres that the words of a sentence bring up."""
    said = terms(sentence)
    return frozenset(name for name, words in _BRINGS_UP.items() if words & said)


def is_of(known: Known, spheres: frozenset[str]) -> bool:
    """Whether a known statement belongs to one of these spheres."""
    return known.statement.stance is None and any(known.told & _IS_OF[name] for name in spheres)


def unsaid(named: frozenset[str], known: Known) -> frozenset[str]:
    """What is named that neither the known statement holds nor brings its sphere up: of something else."""
    brought_up = frozenset[str]().union(*(words for name, words in _BRINGS_UP.items() if known.told & _IS_OF[name]))
    return named - known.told - brought_up
