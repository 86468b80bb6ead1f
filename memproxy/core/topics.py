"""Topics of everyday life, by their words: what a question for advice and a stated preference have in common.

"Recommend a restaurant" and "I'm allergic to nuts" share no word, and their vectors are far apart.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType

from memproxy.core.text import words

_LISTS = {
    "food": """
        allergic allergy appetizer bake baking beer bread breakfast brunch cafe cake cheese chef chicken chocolate
        cocktail coffee cook cooking cuisine curry dairy dessert diet dinner dish drink eat eating fish food fruit
        gluten grill halal ingredient intolerant kosher lactose lunch meal meat menu noodle nut nuts pasta peanut
        pescatarian pizza recipe restaurant rice salad seafood shellfish snack soup spicy steak sugar sushi sweet
        tea vegan vegetable vegetarian wine
    """,
    "travel": """
        airbnb airline airport beach camping city country cruise destination flight flights hike hiking holiday
        hotel hostel itinerary journey luggage mountain road roadtrip sightseeing ski skiing tour train travel
        traveling travelling trip vacation visit weekend
    """,
    "film": """
        actor anime cinema comedy director documentary episode film films genre horror movie movies netflix screen
        series show shows sitcom streaming thriller tv watch watching
    """,
    "music": """
        album artist band cello choir composer concert guitar instrument jazz listen listening music opera piano
        playlist podcast rock singer song songs spotify symphony techno violin
    """,
    "reading": """
        author authors biography book books fantasy fiction kindle library magazine novel novels poetry read reading
    """,
    "sport": """
        bike biking climbing cycling dance exercise fitness football gym jog jogging marathon pilates run running
        soccer sport sports swim swimming tennis training workout yoga
    """,
    "health": """
        asthma back bedtime diabetes diabetic doctor headache health injury insomnia knee medication medicine
        meditation migraine pain physio sleep sleeping stress therapy
    """,
    "clothing": """
        boots clothes clothing coat dress fashion jacket jeans outfit shirt shoes sneakers style suit wardrobe wear
    """,
    "home": """
        apartment balcony bathroom bedroom decor decorate flat furniture garden gardening house kitchen lawn paint
        plant plants renovate renovation room sofa
    """,
    "devices": """
        camera charger computer console device earbuds game games gaming hardware headphones iphone keyboard laptop
        macbook monitor nas network phone printer router screen smartphone speaker storage tablet television watch
        wifi
    """,
    "code": """
        api backend code coding css database deploy docker editor framework frontend function golang java javascript
        kotlin kubernetes language library linter node postgres programming python react refactor rust script sql
        stack test testing typescript vue
    """,
    "animals": """
        aquarium bird breed cat cats dog dogs hamster horse kitten parrot pet pets puppy rabbit vet
    """,
    "gifts": """
        anniversary birthday christmas gift gifts party present presents wedding
    """,
    "learning": """
        class classes course courses degree exam language learn learning lesson school study studying tutor
        university
    """,
    "driving": """
        car cars commute drive driving electric garage motorbike suv tires vehicle
    """,
    "money": """
        bank budget credit etf fund income invest investing investment loan mortgage pension retirement savings
        stock
    """,
}
TOPICS: Mapping[str, frozenset[str]] = MappingProxyType(
    {name: frozenset(text.split()) for name, text in _LISTS.items()}
)
"""English words by topic; a word may belong to several."""

_WORDS = frozenset[str]().union(*TOPICS.values())
_TOPICS_OF = MappingProxyType(
    {word: frozenset(name for name, known in TOPICS.items() if word in known) for word in _WORDS}
)

_ADVICE = re.compile(
    r"\b(?:recommend|suggest|advise|any (?:ideas|tips|suggestions|recommendations|advice)|ideas for|tips (?:for|on)"
    r"|(?:what|which|where|how)\b[^.?!]{0,60}\bshould (?:i|we)\b|should (?:i|we)\b"
    r"|help (?:me|us) (?:plan|choose|pick|decide|find)|what(?:'s| is| are) (?:a |some )?(?:good|the best|nice)"
    r"|(?:plan|find|pick|choose|design|make) (?:me |us )?(?:a|an|some|my)\b|give me (?:a|an|some)\b"
    r"|what (?:do|would) you think|trying to decide|looking for|i(?:'d| would) like (?:a|an|some))",
    re.IGNORECASE,
)
_PREFERENCE = re.compile(
    r"\b(?:like|likes|love|loves|enjoy|enjoys|prefer|prefers|preferred|hate|hates|dislike|dislikes|avoid|avoids|favou?rite"
    r"|can't stand|cannot stand|fan of|into|allergic|allergy|intolerant|vegan|vegetarian|pescatarian|halal|kosher|diet"
    r"|gluten|lactose|always|never|rather|wants?|needs?|uses?|owns?|has)\b",
    re.IGNORECASE,
)
_READ = 600


def asks_advice(query: str) -> bool:
    """Whether a query asks for a recommendation, an idea or a plan, which depends on who asks (English forms)."""
    return _ADVICE.search(query[:_READ]) is not None


def states_preference(text: str) -> bool:
    """Whether a text tells what somebody likes, avoids, needs or has (English forms)."""
    return _PREFERENCE.search(text[:_READ]) is not None


def topics_of(text: str) -> frozenset[str]:
    """The topics that a text has words of."""
    found = (_TOPICS_OF.get(word) or _TOPICS_OF.get(word.removesuffix("s")) for word in words(text[:_READ]))
    return frozenset[str]().union(*(topics for topics in found if topics))
