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
    """Ordered stages and the weights of their columns, for candidates with a vector and for those without.

    ``calibrated``: the weighted sum is log odds, and the score the probability of it; else the sum itself is the
    score, cut to [0, 1]. ``candidates`` are asked for on each side (by vector, by words), at least.
    """

    name: str
    stages: tuple[str, ...]
    hybrid: Weights
    lexical: Weights
    candidates: int = 60
    calibrated: bool = False


_BY_HAND = MappingProxyType({"assistant": -3.0, "your_words": 3.0, "not_your_words": -2.0, "newest": 0.5})
"""LoCoMo has no assistant and no question for the latest: chosen on LongMemEval's development questions."""

_HYBRID = MappingProxyType(
    {
        BIAS: -0.642,
        "cosine": 1.867,
        "cosine_standing": 0.633,
        "bm25_standing": 0.68,
        "coverage": 1.545,
        "crowd": -0.906,
        "other_words": -0.735,
        "other_words_cosine": 5.472,
        "answers": 0.523,
        "answers_match": 0.309,
        "after_coverage": 0.447,
        "session": 0.049,
        "speaker": 0.78,
        "near_time": 1.534,
        "number": 0.835,
        "name": 0.39,
        "time_word": 0.323,
        "turn": 0.691,
        "length": 0.644,
        "question": -0.715,
        "first_person": 0.964,
        "acknowledgement": -0.288,
        "turn_crowd": -0.681,
        **_BY_HAND,
    }
)
"""For candidates with a vector. Both are fitted, and printed again, by ``python -m memproxy.evals.calibration``."""

_LEXICAL = MappingProxyType(
    {
        BIAS: 0.493,
        "bm25_place": 0.809,
        "coverage": 3.021,
        "crowd": -0.861,
        "answers": 0.002,
        "answers_match": 0.574,
        "after_coverage": 0.274,
        "session": 0.21,
        "speaker": 1.107,
        "near_time": 1.322,
        "number": 0.929,
        "name": 0.425,
        "time_word": 0.397,
        "turn": 0.475,
        "length": 0.338,
        "question": -0.675,
        "first_person": 0.84,
        "acknowledgement": -0.509,
        "turn_crowd": -0.844,
        **_BY_HAND,
    }
)
"""For candidates without a vector and searches without a model."""

DEFAULT = Recipe(
    name="default",
    stages=("fused", "neighbours", "sessions", "speakers", "times", "expectations", "substance"),
    hybrid=_HYBRID,
    lexical=_LEXICAL,
    calibrated=True,
)


def _plain(name: str, stage: str, weights: Weights, lexical: Weights | None = None) -> Recipe:
    return Recipe(name=name, stages=(stage,), hybrid=weights, lexical=lexical or weights)


RECIPES: Mapping[str, Recipe] = MappingProxyType(
    {
        recipe.name: recipe
        for recipe in (
            DEFAULT,
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
