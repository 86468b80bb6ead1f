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
        BIAS: -0.826,
        "free": 0.217,
        "behind": -0.635,
        "behind_many": 0.478,
        "above": 0.246,
        "near": -0.421,
        "crowd": -0.433,
        "terms": 0.084,
        "coverage": 0.186,
        "whole": -0.036,
        "coverage_crowd": -0.643,
        "coverage_terms": 0.522,
        "coverage_squared": 2.739,
        "phrases": 0.102,
        "speaker": 0.328,
        "mine": 1.118,
        "mine_coverage": -0.532,
        "many": 0.166,
        "many_behind": 0.235,
        "many_near": 0.128,
        "many_above": -0.191,
        "turn": -1.128,
        "cosine": 1.607,
        "cosine_standing": 0.488,
        "other_words": -0.056,
        "other_words_cosine": -2.214,
        "mine_cosine": -0.416,
        "coverage_cosine": -1.133,
        "topic": -5.535,
        "topic_squared": 81.914,
        "named": 0.958,
        "named_coverage": 0.258,
        "named_behind": -0.208,
        "named_cosine": -1.178,
        "own": 0.238,
        "own_coverage": 0.01,
        "own_cosine": -0.427,
    }
)

_LATE_LEVEL = MappingProxyType(
    {
        BIAS: -2.501,
        "free": -0.05,
        "behind": -0.576,
        "behind_many": -0.27,
        "above": 0.112,
        "near": -1.01,
        "crowd": 0.405,
        "terms": -0.206,
        "coverage": -2.129,
        "whole": 1.581,
        "coverage_crowd": -0.612,
        "coverage_terms": 1.374,
        "coverage_squared": 1.622,
        "phrases": -0.103,
        "speaker": 0.85,
        "mine": 0.428,
        "mine_coverage": -0.4,
        "many": -2.211,
        "many_behind": 0.628,
        "many_near": 1.045,
        "many_above": 0.335,
        "cosine": 1.071,
        "cosine_standing": 0.273,
        "other_words": -0.896,
        "other_words_cosine": -1.102,
        "mine_cosine": -1.43,
        "coverage_cosine": 4.368,
        "by_vector": 0.176,
        "late": 5.187,
        "late_window": -0.241,
        "late_squared": 0.895,
        "late_crowd": -0.961,
        "mine_late": 2.625,
        "coverage_late": -4.09,
        "topic": 1.551,
        "topic_squared": 55.221,
        "named": -0.63,
        "named_coverage": -1.979,
        "named_behind": -0.097,
        "named_cosine": -8.39,
        "named_late": 12.424,
        "own": 0.242,
        "own_coverage": 0.13,
        "own_cosine": -0.43,
        "own_late": -0.151,
    }
)

_LEXICAL_LEVEL = MappingProxyType(
    {
        BIAS: -0.936,
        "free": 0.422,
        "behind": -0.323,
        "behind_many": -0.665,
        "above": 0.282,
        "near": -0.195,
        "crowd": -0.76,
        "terms": 0.715,
        "coverage": 4.038,
        "whole": 0.575,
        "coverage_crowd": -0.517,
        "coverage_terms": -0.003,
        "coverage_squared": -0.235,
        "phrases": 0.211,
        "speaker": 0.268,
        "mine": 0.865,
        "mine_coverage": -0.428,
        "many": 0.122,
        "many_behind": 0.329,
        "many_near": -0.118,
        "many_above": -0.153,
        "turn": -1.706,
        "named": 0.424,
        "named_coverage": -1.407,
        "named_behind": 0.376,
        "own": 0.099,
        "own_coverage": -0.053,
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
