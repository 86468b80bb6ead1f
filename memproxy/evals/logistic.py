"""Weighted logistic regression by Newton's method: enough for a handful of features, and no further dependency."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

RIDGE = 1e-3
_STEPS = 50


def fit(features: Array, labels: Array, weights: Array) -> Array:
    """Bias and weights that make ``labels`` (0 or 1, one per row of ``features``) most likely."""
    rows = np.c_[np.ones(len(features)), features]
    found = np.zeros(rows.shape[1])
    for _ in range(_STEPS):
        chance = 1 / (1 + np.exp(-rows @ found))
        slope = rows.T @ (weights * (chance - labels)) + RIDGE * found
        curve = (rows * (weights * chance * (1 - chance))[:, None]).T @ rows + RIDGE * np.eye(len(found))
        step = np.linalg.solve(curve, slope)
        found = found - step
        if np.abs(step).max() < 1e-9:
            break
    return found
