"""Whether a question that no pattern knows asks for general knowledge (``gate.prototypes``), by its vector."""

import logging
from collections.abc import Sequence

from memproxy.core.gate import UNDECIDED
from memproxy.errors import EmbedderUnavailable
from memproxy.ports import Embedder
from memproxy.recall.prototypes import Prototypes

log = logging.getLogger(__name__)


class GeneralQuestions:
    """The examples, embedded once the embedder is there; until then, and without one, nothing is general."""

    def __init__(self, embedder: Embedder, *, enabled: bool) -> None:
        self._embedder = embedder
        self._enabled = enabled
        self._prototypes: Prototypes | None = None

    async def prepare(self) -> None:
        """Embed the examples, if that is still to be done and can be; called now and then."""
        if not self._enabled or self._prototypes is not None or self._embedder.state != "ready":
            return
        try:
            self._prototypes = await Prototypes.embedded(self._embedder)
        except EmbedderUnavailable as error:
            log.info("the examples of general questions are embedded later: %s", error.message)

    def asks(self, verdict: str | None, vector: Sequence[float] | None) -> bool:
        """Whether the gate left the question undecided and its vector is clearly nearer to general examples."""
        if self._prototypes is None or vector is None or verdict != UNDECIDED:
            return False
        return self._prototypes.is_general(vector)
