"""The models that recall asks, when the settings want them: for rewriting queries and for reranking."""

from typing import NamedTuple

from memproxy.engine.role import TenantModel
from memproxy.learn.access import ModelAccess
from memproxy.learn.budget import TokenMeter
from memproxy.learn.extract import load_prompt
from memproxy.models.chat_when_asked import ChatModelWhenAsked
from memproxy.ports import ChatModel, Reranker
from memproxy.recall.rerank import ModelReranker
from memproxy.recall.rewrite import Rewriter
from memproxy.settings import ModelSettings, Settings


class Roles(NamedTuple):
    """What recall asks (None: it asks nobody), and the chat models behind, to be closed with the engine."""

    rewriter: Rewriter | None
    reranker: Reranker | None
    models: tuple[ChatModel, ...]


def make_roles(settings: Settings, access: ModelAccess, meter: TokenMeter) -> Roles:
    """The roles of these settings; a model is made only for a role that is used. Reads the prompts' files.

    Raises:
        ConfigError: a prompt of ``learn.prompts_dir`` does not begin with its version.
    """
    rewriter: Rewriter | None = None
    reranker: Reranker | None = None
    models: list[ChatModel] = []

    def model(source: str, role: ModelSettings, timeout_s: float) -> TenantModel:
        chat = ChatModelWhenAsked(role, role=source)
        models.append(chat)
        return TenantModel(chat, access, role, source=source, timeout_s=min(timeout_s, role.timeout_s), meter=meter)

    redacted = frozenset[str](settings.privacy.redact)
    folder = settings.learn.prompts_dir
    if settings.rewrite.mode in {"llm", "hyde"}:
        rewriter = Rewriter(
            model("rewrite", settings.models.rewrite, settings.rewrite.timeout_s),
            rewriting=load_prompt(folder, "rewrite.md").text,
            hypothetical=load_prompt(folder, "hyde.md").text,
            redact_kinds=redacted,
        )
    if settings.recall.rerank == "model":
        reranker = ModelReranker(
            model("rerank", settings.models.rerank, settings.recall.rerank_timeout_s),
            prompt=load_prompt(folder, "rerank.md").text,
            redact_kinds=redacted,
        )
    return Roles(rewriter, reranker, tuple(models))
