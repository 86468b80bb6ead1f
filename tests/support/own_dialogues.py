"""The dialogues of `eval extraction`, read once for all tests that look at them."""

from memproxy.evals.extraction import dialogues

OWN = tuple(dialogues.load(None))
