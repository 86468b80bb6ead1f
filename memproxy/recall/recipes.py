"""Recipes: which stages rank, and what each of their columns is worth (``data/weights.json``). No branches."""

from collections.abc import Mapping
from importlib.resources import files
from types import MappingProxyType
from typing import Any

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
    ``_level`` give a candidate in it (`recall.scores`); else the sum itself is the score, cut to [0, 1].
    ``candidates`` are asked for on each side (by vector, by words), at least; ``by_tokens`` where the question has the
    vectors of its tokens. ``hops``: relations that a question goes by are followed (`recall.links`).
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
    hops: bool = True


def _fitted() -> dict[str, Any]:
    """The weights of the default recipe by their names in `Recipe`, as ``python -m tests.fitting.calibrating`` prints
    them. A column is fitted where it has a weight here: a new one begins with 0.

    Those of ``assistant``, ``your_words``, ``not_your_words`` and ``newest`` were chosen on LongMemEval's development
    questions: LoCoMo has no assistant, and no question for the latest. With late interaction what it tells takes the
    place of most of what the one vector and single words tell.
    """
    text = files("memproxy.recall").joinpath("data/weights.json").read_bytes()
    weights: dict[str, Any] = msgspec.json.decode(text, type=dict[str, dict[str, float]])
    return weights


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
    **_fitted(),
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
