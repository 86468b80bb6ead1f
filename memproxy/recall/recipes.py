"""Recipes: which stages rank, and what each of their columns is worth. Data, no branches."""

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from memproxy.errors import ConfigError
from memproxy.recall.stages import STAGES
from memproxy.settings import RecallSettings

Weights = Mapping[str, float]

BIAS = "bias"


class Recipe(msgspec.Struct, frozen=True, kw_only=True):
    """Ordered stages and the weights of their columns: for candidates with a vector (``hybrid``), for those without
    (``lexical``), and for those with the vectors of their tokens where the stage ``late`` looks at them (``late``;
    None: as ``hybrid``).

    ``calibrated``: the weighted sum is log odds, and the score the probability of it; else the sum itself is the
    score, cut to [0, 1]. ``candidates`` are asked for on each side (by vector, by words), at least.
    """

    name: str
    stages: tuple[str, ...]
    hybrid: Weights
    lexical: Weights
    late: Weights | None = None
    candidates: int = 60
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
        BIAS: 0.034,
        "cosine": 1.255,
        "cosine_standing": -0.179,
        "bm25_standing": -0.273,
        "crowd": -1.02,
        "other_words": -0.266,
        "other_words_cosine": 4.761,
        "answers": -0.08,
        "answers_match": 0.288,
        "after_coverage": -0.098,
        "session": 0.389,
        "speaker": 2.325,
        "near_time": 3.505,
        "number": 1.349,
        "name": 0.985,
        "time_word": 1.128,
        "turn": 2.346,
        "length": 0.083,
        "question": -0.314,
        "first_person": 0.563,
        "acknowledgement": -0.167,
        "turn_crowd": -1.194,
        "phrases": 0.085,
        "late": 2.677,
        "late_standing": -0.106,
        "late_window": 1.152,
        "coverage": 3.2,
        **_BY_HAND,
    }
)
"""For candidates with the vectors of their tokens: what late interaction tells takes the place of most of what the one
vector and single words tell.
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

_WITH_TOKENS = 100
"""Candidates of each side: 0.935 of LoCoMo's gold turns are among them, of 60 0.900. Late interaction puts more of
them first; without it more candidates change nothing.
"""

DEFAULT = Recipe(
    name="default",
    stages=(
        "fused",
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
    calibrated=True,
)


WITH_TOKENS = msgspec.structs.replace(
    DEFAULT, name="late", stages=("fused", "late", *DEFAULT.stages[1:]), candidates=_WITH_TOKENS
)
"""Not the default, as LongMemEval loses by it: docs/decisions/0017-late-interaction.md."""


def _plain(name: str, stage: str, weights: Weights, lexical: Weights | None = None) -> Recipe:
    return Recipe(name=name, stages=(stage,), hybrid=weights, lexical=lexical or weights)


RECIPES: Mapping[str, Recipe] = MappingProxyType(
    {
        recipe.name: recipe
        for recipe in (
            DEFAULT,
            WITH_TOKENS,
            _plain("dense", "dense", {"dense": 1.0}),
            _plain("rrf", "rrf", {"rank_dense": 0.6, "rank_bm25": 0.4}, {"rank_bm25": 1.0}),
            _plain("average", "average", {"average": 1.0}),
            _plain("bm25", "bm25", {"bm25": 1.0}),
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
