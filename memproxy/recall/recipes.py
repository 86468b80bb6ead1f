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

    ``calibrated``: these sums are the order, and the score is the probability that the weights of the same name and
    ``_level`` tell of a candidate in it (`recall.levels`); else the sum itself is the score, cut to [0, 1].
    ``candidates`` are asked for on each side (by vector, by words), at least; ``by_tokens`` where the question has the
    vectors of its tokens.
    """

    name: str
    stages: tuple[str, ...]
    hybrid: Weights
    lexical: Weights
    late: Weights | None = None
    hybrid_level: Weights = MappingProxyType({})
    late_level: Weights = MappingProxyType({})
    lexical_level: Weights = MappingProxyType({})
    candidates: int = 60
    by_tokens: int = 60
    calibrated: bool = False


_BY_HAND = MappingProxyType(
    {
        "assistant": -3.0,
        "your_words": 3.0,
        "not_your_words": -2.0,
        "newest": 0.5,
    }
)
"""LoCoMo has no assistant, and no question for the latest: chosen on LongMemEval's development questions."""

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
vector and single words tell.
"""

_LEXICAL = MappingProxyType(
    {
        BIAS: 0.688,
        "bm25_place": 0.53,
        "crowd": -0.803,
        "answers_match": 0.52,
        "after_coverage": 0.649,
        "session_words": 0.631,
        "speaker": 1.332,
        "near_time": 1.54,
        "number": 0.589,
        "name": 0.793,
        "time_word": 0.819,
        "turn": 1.281,
        "length": -0.056,
        "question": -0.442,
        "first_person": 0.621,
        "acknowledgement": -0.256,
        "turn_crowd": -0.913,
        "phrases": 0.282,
        "coverage": 2.4,
        **_BY_HAND,
    }
)
"""For candidates without a vector and searches without a model."""

_HYBRID_LEVEL = MappingProxyType(
    {
        BIAS: -0.945,
        "free": 0.188,
        "behind": -0.591,
        "behind_many": 0.406,
        "above": 0.236,
        "near": -0.414,
        "crowd": -0.493,
        "terms": 0.397,
        "coverage": 1.328,
        "whole": -0.016,
        "coverage_crowd": -0.652,
        "coverage_terms": 0.404,
        "coverage_squared": 2.687,
        "phrases": 0.104,
        "speaker": 0.386,
        "mine": 1.194,
        "mine_coverage": -1.364,
        "many": -0.055,
        "many_behind": 0.252,
        "many_near": 0.218,
        "many_above": -0.139,
        "turn": -1.063,
        "cosine": 1.344,
        "cosine_standing": 0.45,
        "other_words": -0.251,
        "other_words_cosine": -1.31,
        "mine_cosine": 0.145,
        "coverage_cosine": -1.873,
        "topic": -3.878,
        "topic_squared": 71.296,
        "named": 0.753,
        "named_coverage": -0.076,
        "named_behind": -0.197,
        "named_cosine": -0.743,
    }
)

_LATE_LEVEL = MappingProxyType(
    {
        BIAS: -2.796,
        "free": -0.066,
        "behind": -0.532,
        "behind_many": -0.317,
        "above": 0.108,
        "near": -1.015,
        "crowd": 0.427,
        "terms": 0.055,
        "coverage": -1.812,
        "whole": 1.645,
        "coverage_crowd": -0.451,
        "coverage_terms": 1.476,
        "coverage_squared": 1.826,
        "phrases": -0.123,
        "speaker": 0.84,
        "mine": 0.071,
        "mine_coverage": -1.729,
        "many": -2.366,
        "many_behind": 0.653,
        "many_near": 1.066,
        "many_above": 0.375,
        "cosine": 0.692,
        "cosine_standing": 0.218,
        "other_words": -0.953,
        "other_words_cosine": -0.923,
        "mine_cosine": -0.9,
        "coverage_cosine": 3.964,
        "by_vector": 0.146,
        "late": 7.249,
        "late_window": -0.226,
        "late_squared": -0.73,
        "late_crowd": -1.25,
        "mine_late": 4.321,
        "coverage_late": -4.547,
        "topic": 2.198,
        "topic_squared": 49.452,
        "named": -0.979,
        "named_coverage": -2.764,
        "named_behind": -0.125,
        "named_cosine": -7.955,
        "named_late": 13.575,
    }
)

_LEXICAL_LEVEL = MappingProxyType(
    {
        BIAS: -1.729,
        "free": 0.358,
        "behind": -0.274,
        "behind_many": -0.719,
        "above": 0.358,
        "near": -0.26,
        "crowd": -0.728,
        "terms": 1.217,
        "coverage": 5.393,
        "whole": 0.653,
        "coverage_crowd": -0.598,
        "coverage_terms": -0.406,
        "coverage_squared": -0.492,
        "phrases": 0.186,
        "speaker": 0.346,
        "mine": 0.911,
        "mine_coverage": -0.545,
        "many": 0.038,
        "many_behind": 0.327,
        "many_near": -0.069,
        "many_above": -0.168,
        "turn": -1.557,
        "named": 0.312,
        "named_coverage": -1.38,
        "named_behind": 0.375,
    }
)

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
        "topics",
        "expectations",
        "substance",
    ),
    hybrid=_HYBRID,
    lexical=_LEXICAL,
    late=_LATE,
    hybrid_level=_HYBRID_LEVEL,
    late_level=_LATE_LEVEL,
    lexical_level=_LEXICAL_LEVEL,
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
