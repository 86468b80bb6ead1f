"""Recipes: which stages rank, and what each of their columns is worth. Data, no branches."""

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from memproxy.errors import ConfigError
from memproxy.recall.stages import STAGES
from memproxy.settings import RecallSettings

Weights = Mapping[str, float]

BIAS = "bias"
LATE = "late"
"""The stage that reads token vectors."""


class Recipe(msgspec.Struct, frozen=True, kw_only=True):
    """Ordered stages and the weights of their columns: for candidates with a vector (``hybrid``), for those without
    (``lexical``), and for turns with the vectors of their tokens where the stage ``late`` looks at them (``late``;
    None: as ``hybrid``).

    ``calibrated``: the weighted sum is log odds, and the score the probability of it (see `recall.scores`); else the
    sum itself is the score, cut to [0, 1]. ``candidates`` are asked for on each side (by vector, by words), at least;
    ``by_tokens`` where the question has the vectors of its tokens.
    """

    name: str
    stages: tuple[str, ...]
    hybrid: Weights
    lexical: Weights
    late: Weights | None = None
    candidates: int = 60
    by_tokens: int = 60
    calibrated: bool = False


_BY_HAND = MappingProxyType(
    {
        "assistant": -3.0,
        "your_words": 3.0,
        "not_your_words": -2.0,
        "newest": 0.5,
        "preference": 4.0,
        "told_preference": 0.5,
    }
)
"""LoCoMo has no assistant, no question for the latest and none for advice: chosen on LongMemEval's development
questions, and ``preference``, of which neither has facts, on probes of our own (tests/recall/test_preferences.py).
"""

_HYBRID = MappingProxyType(
    {
        BIAS: -0.134,
        "cosine": 1.57,
        "cosine_standing": 0.414,
        "bm25_standing": 0.603,
        "crowd": -0.871,
        "other_words": -1.175,
        "other_words_cosine": 6.054,
        "answers": 0.321,
        "answers_match": 0.27,
        "after_coverage": 0.311,
        "session": 0.218,
        "speaker": 1.166,
        "near_time": 1.485,
        "number": 0.766,
        "name": 0.605,
        "time_word": 0.725,
        "turn": 1.044,
        "length": 0.521,
        "question": -0.562,
        "first_person": 0.672,
        "acknowledgement": -0.153,
        "turn_crowd": -0.78,
        "phrases": 0.319,
        "coverage": 0.8,
        **_BY_HAND,
    }
)
"""For candidates with a vector. Both are fitted, and printed again, by ``python -m memproxy.evals.calibration``."""

_LATE = MappingProxyType(
    {
        BIAS: -0.84,
        "cosine": 0.456,
        "cosine_standing": -0.169,
        "bm25_standing": -0.131,
        "crowd": -0.997,
        "other_words": -0.111,
        "other_words_cosine": 3.822,
        "answers": -0.058,
        "answers_match": 0.272,
        "after_coverage": -0.153,
        "session": 0.391,
        "speaker": 2.226,
        "near_time": 3.406,
        "number": 1.277,
        "name": 0.966,
        "time_word": 1.095,
        "turn": 2.316,
        "length": 0.121,
        "question": -0.319,
        "first_person": 0.518,
        "acknowledgement": -0.164,
        "turn_crowd": -1.149,
        "phrases": 0.094,
        "late": 6.647,
        "late_standing": -0.147,
        "late_window": 1.032,
        "coverage": 1.6,
        **_BY_HAND,
    }
)
"""For turns with the vectors of their tokens: what late interaction tells takes the place of most of what the one
vector and single words tell. What passes the floor is told by both sets (`recall.scores`).
"""

_LEXICAL = MappingProxyType(
    {
        BIAS: 0.733,
        "bm25_place": 0.544,
        "crowd": -0.833,
        "answers_match": 0.552,
        "after_coverage": 0.529,
        "session_words": 0.66,
        "speaker": 1.266,
        "near_time": 1.341,
        "number": 0.769,
        "name": 0.68,
        "time_word": 0.705,
        "turn": 1.242,
        "length": 0.115,
        "question": -0.451,
        "first_person": 0.614,
        "acknowledgement": -0.307,
        "turn_crowd": -0.933,
        "phrases": 0.339,
        "coverage": 2.4,
        **_BY_HAND,
    }
)
"""For candidates without a vector and searches without a model."""

_BY_TOKENS = 100
"""Candidates of each side: 0.935 of LoCoMo's gold turns are among them, of 60 0.900. Late interaction puts more of
them first; without it more candidates change nothing.
"""

DEFAULT = Recipe(
    name="default",
    stages=(
        "fused",
        LATE,
        "phrases",
        "neighbours",
        "sessions",
        "speakers",
        "times",
        "preferences",
        "expectations",
        "substance",
    ),
    hybrid=_HYBRID,
    lexical=_LEXICAL,
    late=_LATE,
    by_tokens=_BY_TOKENS,
    calibrated=True,
)

VECTORS = msgspec.structs.replace(
    DEFAULT, name="vectors", stages=tuple(stage for stage in DEFAULT.stages if stage != LATE), by_tokens=60
)
"""The default without late interaction: a text's one vector, and words. Keeps no vectors of tokens."""


def _plain(name: str, stage: str, weights: Weights, lexical: Weights | None = None) -> Recipe:
    return Recipe(name=name, stages=(stage,), hybrid=weights, lexical=lexical or weights)


RECIPES: Mapping[str, Recipe] = MappingProxyType(
    {
        recipe.name: recipe
        for recipe in (
            DEFAULT,
            msgspec.structs.replace(DEFAULT, name=LATE),
            _plain("dense", "dense", {"dense": 1.0}),
            _plain("rrf", "rrf", {"rank_dense": 0.6, "rank_bm25": 0.4}, {"rank_bm25": 1.0}),
            _plain("average", "average", {"average": 1.0}),
            _plain("bm25", "bm25", {"bm25": 1.0}),
            VECTORS,
        )
    }
)


def named(name: str) -> Recipe:
    """Raises:
    ConfigError: there is no recipe of such a name; the message lists those that there are.
    """
    if name not in RECIPES:
        raise ConfigError(f"recall.recipe: there is no recipe {name!r}; the recipes are {', '.join(RECIPES)}")
    return RECIPES[name]


def configured(settings: RecallSettings) -> Recipe:
    """The recipe of the settings, with ``stages`` in place of its own when there are any.

    Raises:
        ConfigError: the recipe or a stage does not exist (loading the settings refuses both already).
    """
    recipe = named(settings.recipe)
    if not settings.stages:
        return recipe
    unknown = [name for name in settings.stages if name not in STAGES]
    if unknown:
        raise ConfigError(f"recall.stages: there is no stage {unknown[0]!r}; the stages are {', '.join(STAGES)}")
    return msgspec.structs.replace(recipe, stages=tuple(settings.stages))
