import numpy as np

from tests.fitting.logistic import Ordered, fit

CHANCE = np.random.default_rng(7)


def test_the_weights_that_made_the_labels_are_found_again() -> None:
    features = CHANCE.normal(size=(4000, 2))
    labels = (CHANCE.random(4000) < 1 / (1 + np.exp(-(0.5 + features @ [2.0, -1.0])))).astype(float)
    assert np.allclose(fit(features, labels, np.ones(4000)), [0.5, 2.0, -1.0], atol=0.25)


def test_lists_decide_what_comes_first_where_single_rows_say_little() -> None:
    """The first column tells right from wrong within a list, and lists from each other the wrong way round."""
    shift = np.repeat(np.arange(50.0), 4) * -1
    labels = np.tile([1.0, 0.0, 0.0, 0.0], 50) * (np.repeat(np.arange(50), 4) % 2)
    features = (labels + shift)[:, None]
    lists = [Ordered(start, start + 4, 5.0) for start in range(0, 200, 4) if labels[start : start + 4].any()]
    alone, ordered = (fit(features, labels, np.ones(200), some)[1] for some in ([], lists))
    assert ordered > alone


def test_log_odds_that_are_there_already_are_not_learned_again() -> None:
    features = CHANCE.normal(size=(4000, 1))
    labels = (CHANCE.random(4000) < 1 / (1 + np.exp(-2 * features[:, 0]))).astype(float)
    assert np.allclose(fit(features, labels, np.ones(4000), offsets=2 * features[:, 0]), [0.0, 0.0], atol=0.15)
