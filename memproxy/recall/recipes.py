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
    ``_level`` tell of a candidate in it (`recall.calibration`); else the sum itself is the score, cut to [0, 1].
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
"""For candidates with a vector. Both are fitted, and printed again, by ``python -m tests.fitting.calibration``."""

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
        BIAS: -0.764,
        "free": 0.192,
        "behind": -0.607,
        "behind_many": 0.459,
        "above": 0.247,
        "near": -0.469,
        "crowd": -0.457,
        "terms": 0.1,
        "coverage": 0.232,
        "whole": 0.025,
        "coverage_crowd": -0.508,
        "coverage_terms": 0.489,
        "coverage_squared": 2.333,
        "phrases": 0.103,
        "speaker": 0.301,
        "mine": 0.982,
        "mine_coverage": -0.488,
        "many": 0.097,
        "many_behind": 0.233,
        "many_near": 0.178,
        "many_above": -0.175,
        "turn": -0.993,
        "cosine": 1.529,
        "cosine_standing": 0.496,
        "other_words": -0.184,
        "other_words_cosine": -1.827,
        "mine_cosine": -0.222,
        "coverage_cosine": -1.315,
        "topic": -5.847,
        "topic_squared": 85.884,
        "named": 0.445,
        "named_coverage": 0.523,
        "named_behind": -0.198,
        "named_cosine": -0.504,
        "own": 0.264,
        "own_coverage": 0.001,
        "own_cosine": -0.469,
        "inside_time": 0.587,
    }
)

_LATE_LEVEL = MappingProxyType(
    {
        BIAS: -2.287,
        "free": -0.13,
        "behind": -0.57,
        "behind_many": -0.257,
        "above": 0.12,
        "near": -0.999,
        "crowd": 0.334,
        "terms": -0.212,
        "coverage": -1.975,
        "whole": 1.548,
        "coverage_crowd": -0.58,
        "coverage_terms": 1.285,
        "coverage_squared": 1.706,
        "phrases": -0.118,
        "speaker": 0.998,
        "mine": 0.432,
        "mine_coverage": -0.396,
        "many": -2.205,
        "many_behind": 0.626,
        "many_near": 1.067,
        "many_above": 0.343,
        "cosine": 1.102,
        "cosine_standing": 0.245,
        "other_words": -0.826,
        "other_words_cosine": -1.107,
        "mine_cosine": -1.43,
        "coverage_cosine": 4.557,
        "by_vector": 0.209,
        "late": 5.55,
        "late_window": -0.162,
        "late_squared": 0.735,
        "late_crowd": -0.828,
        "mine_late": 2.626,
        "coverage_late": -4.765,
        "topic": 2.144,
        "topic_squared": 51.99,
        "named": -1.021,
        "named_coverage": -2.005,
        "named_behind": -0.084,
        "named_cosine": -8.533,
        "named_late": 13.367,
        "own": 0.244,
        "own_coverage": 0.136,
        "own_cosine": -0.449,
        "own_late": -0.147,
        "inside_time": 0.393,
    }
)

_LEXICAL_LEVEL = MappingProxyType(
    {
        BIAS: -0.953,
        "free": 0.428,
        "behind": -0.321,
        "behind_many": -0.67,
        "above": 0.276,
        "near": -0.195,
        "crowd": -0.755,
        "terms": 0.719,
        "coverage": 4.02,
        "whole": 0.579,
        "coverage_crowd": -0.524,
        "coverage_terms": -0.001,
        "coverage_squared": -0.207,
        "phrases": 0.211,
        "speaker": 0.264,
        "mine": 0.864,
        "mine_coverage": -0.426,
        "many": 0.124,
        "many_behind": 0.33,
        "many_near": -0.12,
        "many_above": -0.154,
        "turn": -1.72,
        "named": 0.441,
        "named_coverage": -1.435,
        "named_behind": 0.374,
        "own": 0.099,
        "own_coverage": -0.052,
        "inside_time": -0.089,
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
