"""BM25 sparse vectors, made locally without any model."""

from qdrant_edge import Bm25, Bm25Config

from memproxy.core.text import spaced
from memproxy.ports import SparseVector

AVERAGE_LENGTH = 60.0
"""Words of an average document after stopwords, as `recall.documents.bm25_text` makes them. The engine's own 256 is
for web pages: with it a short fact would be no better than a long message that has the same words."""

MAX_CHARACTERS = 100_000  # what is read of one document; words beyond are not searched


class Bm25Encoder:
    """`ports.LexicalEncoder` on Qdrant Edge's BM25: English stemming and stopwords, accents folded. A word's index is a
    hash of its stem, so vectors of all processes and machines fit together; changing anything here asks for a reindex
    (``VERSION``). Scripts without spaces are searched by characters and pairs of them, other languages by their words,
    unstemmed as far as the English stemmer leaves them alone.
    """

    VERSION = 1

    def __init__(self) -> None:
        self._bm25 = Bm25(Bm25Config(avg_len=AVERAGE_LENGTH, language="english", ascii_folding=True))

    def encode_document(self, text: str) -> SparseVector:
        """Weights with term-frequency saturation (k 1.2) and length normalisation (b 0.75)."""
        vector = self._bm25.embed_document(spaced(text[:MAX_CHARACTERS]))
        return SparseVector(indices=list(vector.indices), values=list(vector.values))

    def encode_query(self, text: str) -> SparseVector:
        """Each distinct term with weight 1; empty when the query is all stopwords."""
        vector = self._bm25.embed_query(spaced(text[:MAX_CHARACTERS]))
        return SparseVector(indices=list(vector.indices), values=list(vector.values))
