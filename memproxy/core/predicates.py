"""What is asked by a predicate: which ones ask the same, and which have many answers at once.

Names are those of `slots.predicate_name`: words in lower case, singular, joined by underscores, without "is" and "has".
What is in no list here has one answer at a time: a new one ends the old one.
"""

from memproxy.core.stance import FEEL_ABOUT

OFFERED_ONE = (
    *("name", "birthday", "age", "lives_in", "address", "staying_in", "comes_from", "nationality", "marital_status"),
    *("spouse", "partner", "works_at", "works_as", "salary", "university", "field_of_study", "drives", "height"),
    *("weight", "diet", "email", "phone_number", "timezone", "answer_language", "answer_style", "gets_up_at"),
    *("goes_to_bed_at", "bank", "doctor", "dentist"),
)
"""Predicates offered to an extraction model that have one answer at a time."""

OFFERED_MANY = (
    *("has_child", "has_sibling", "has_friend", "has_colleague", "has_pet", "speaks", "allergic_to", "intolerant_to"),
    *("has_condition", "takes_medication", "likes", "dislikes", "preference", "hobby", "plays_instrument", "owns"),
    *("uses_tool", "works_on", "goal", "wants", "plans_to", "routine", "requirement", "visited", "subscription"),
)
"""Predicates offered to an extraction model that may have several answers at once."""

OFFERED = frozenset((*OFFERED_ONE, *OFFERED_MANY))
OTHER = "other"
"""What a model says in place of a predicate when none that is offered fits; its own name for it stands beside."""

_SPOUSE, _PARTNER, _HOME, _EMPLOYER, _JOB = "spouse", "partner", "live_in", "employer", "job_title"

SAME = {
    **dict.fromkeys(("work_at", "work_for", "working_at", "working_for", "employed_by", "employed_at"), _EMPLOYER),
    **dict.fromkeys(("workplace", "work_place", "started_at", "started_working_at", "started_working_for"), _EMPLOYER),
    **dict.fromkeys(("start_at", "employer_name", "company", "job_at"), _EMPLOYER),
    **dict.fromkeys(("work_as", "working_as", "occupation", "profession", "employed_as", "job_role"), _JOB),
    **dict.fromkeys(("living_in", "reside_in", "residing_in", "residence", "home_city", "city", "based_in"), _HOME),
    **dict.fromkeys(("move_to", "moved_to", "relocated_to", "city_residence", "place_residence"), _HOME),
    **dict.fromkeys(("wife", "husband", "married_to", "marry_to", "wife_name", "husband_name"), _SPOUSE),
    **dict.fromkeys(("spouse_name", "name_wife", "name_husband", "wed_to"), _SPOUSE),
    **dict.fromkeys(("girlfriend", "boyfriend", "dating", "in_relationship_with", "girlfriend_name"), _PARTNER),
    **dict.fromkeys(("boyfriend_name", "partner_name", "relationship_with", "name_girlfriend"), _PARTNER),
    **dict.fromkeys(("name_boyfriend", "name_partner"), _PARTNER),
    **dict.fromkeys(("work_from", "work_mode"), "work_arrangement"),
    **dict.fromkeys(("relationship_status", "civil_status"), "marital_status"),
    **dict.fromkeys(("time_zone",), "timezone"),
    **dict.fromkeys(("telephone", "phone_no", "telephone_number", "mobile_number", "cell_number"), "phone_number"),
}
"""Predicates that ask what another one asks, in other words."""

ENDS = {
    **dict.fromkeys(("broke_up_with", "broken_up_with", "split_up_with", "split_from", "ended_thing_with"), _PARTNER),
    **dict.fromkeys(("divorced_from", "divorced", "separated_from"), _SPOUSE),
    **dict.fromkeys(("left_job_at", "resigned_from", "laid_off_from", "laid_off_by", "fired_from"), _EMPLOYER),
}
"""Predicates that say that an answer to another one does not hold any longer."""

_PEOPLE = frozenset(
    """
    child children kid son daughter sibling brother sister friend colleague coworker parent grandparent grandchild
    grandson granddaughter grandmother grandfather uncle aunt cousin niece nephew roommate flatmate housemate neighbor
    neighbour teammate classmate mentor student client customer guest participant attendee member team_member teacher
    """.split()  # noqa: SIM905 - a list of many quoted words reads worse
)
_ANIMALS = frozenset("dog cat pet animal horse rabbit bird fish hamster parrot chicken puppy kitten".split())  # noqa: SIM905

_THINGS = frozenset(
    """
    possession language hobby interest skill allergy intolerance instrument sport tool goal medication supplement
    symptom condition disease illness diagnosis injury event experience certification award achievement publication
    subscription membership habit routine preference fear dream belief requirement constraint
    restriction dietary_restriction food_restriction food_allergy task todo problem issue question feature dependency
    ingredient step note idea responsibility duty course class project side_project trip_idea wish
    programming_language spoken_language language_spoken collection
    """.split()  # noqa: SIM905
)
DOING = frozenset(
    """
    interested know use want plan prefer need go study follow collect avoid include contain working work use_for belong
    responsible eat drink cook bake grow take take_medication teach volunteer run practice practise train subscribe
    subscribed listen support donate invest wear write paint draw build sing dance hike cycle swim knit suffer diagnosed
    treated intolerant fear afraid scared worry worried excited proud hope hoping dreaming intend considering planning
    thinking booked ordered scheduled received bought_from sold lost found built created wrote invited
    started began reading watching playing listening learning studying training practicing collecting cooking
    growing involved familiar experienced proficient certified good bad struggling dealt interact live_with spend_time
    """.split()  # noqa: SIM905
)
"""Verbs; with a thing of many behind ("uses_tool", "works_on_project") they have many answers too."""

_BARE = frozenset(
    {"is", "is_a", "is_an", "are", "am", "was", "were", "be", "has", "have", "had", "do", "does", "did", "to"}
)
"""What is left of "is a nurse" or "has been to Rome" when the object carries all the meaning."""

MANY = _PEOPLE | _ANIMALS | _THINGS | DOING | _BARE | {FEEL_ABOUT}
"""Predicates that several memories may answer at once, prepositions at their end and "name" aside."""

NAMED_MANY = _PEOPLE | _ANIMALS
"""Those whose name ("sister_name", "name of the dog") has as many answers."""

MANY_ACTIONS = frozenset(
    """
    own speak visit visited attend attended read watch watched bought buy purchased went met made tried play played
    allergic traveled travelled mentioned discussed asked said learned finished completed ate cooked saw joined won ran
    collected lived worked studied used taught graduated stayed moved celebrated hosted volunteered
    """.split()  # noqa: SIM905
)
"""First words of predicates that name things done or true many times, whatever follows ("visited_in_2020")."""

PREPOSITIONS = frozenset({"to", "in", "on", "at", "for", "with", "about", "from", "by", "as", "named", "called"})
