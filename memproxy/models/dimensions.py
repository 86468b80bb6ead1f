"""Vector lengths of embedding models, known before a model is loaded: a store is made for one length."""

import json
from contextlib import suppress

from memproxy.errors import ConfigError
from memproxy.settings import EmbeddingSettings

DEFAULT = 384  # of the default model, and of a store without an embedder, so that the default can come later

KNOWN = {
    "sentence-transformers/all-MiniLM-L6-v2": 384,
    "sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2": 384,
    "BAAI/bge-small-en-v1.5": 384,
    "BAAI/bge-base-en-v1.5": 768,
    "BAAI/bge-large-en-v1.5": 1024,
    "intfloat/multilingual-e5-large": 1024,
    "nomic-ai/nomic-embed-text-v1.5": 768,
    "text-embedding-3-small": 1536,
    "text-embedding-3-large": 3072,
    "text-embedding-ada-002": 1536,
}
"""As the models' own pages give them."""


def dimension_of(settings: EmbeddingSettings) -> int:
    """The vector length of the configured model.

    Raises:
        ConfigError: it is not known; the message asks for ``embedding.dimension``.
    """
    if settings.dimension is not None:
        return settings.dimension
    if settings.provider == "none":
        return DEFAULT
    dimension = KNOWN.get(settings.model)
    if settings.model_path is not None:
        with suppress(OSError, ValueError):
            size = json.loads((settings.model_path / "config.json").read_text(encoding="utf-8")).get("hidden_size")
            dimension = (size if isinstance(size, int) else None) or dimension
    if dimension is None:
        raise ConfigError(
            f"embedding.model: the vector length of {settings.model!r} is not known here; set embedding.dimension."
        )
    return dimension
