"""What a person (or an application for one of its agents) chose of memory: whether it recalls, keeps and learns."""

import msgspec

CHOICES_VERSION = 1  # version of the stored form; written beside it, so that a later reader knows how to migrate it


class Choices(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The settings of a user, or of an agent of that user; None: the next wider place counts (agent, user,
    configuration). ``limit``: most memories of a recall; ``rerank`` False: without the reranker; ``learning`` False: no
    extraction, turns are still kept and recalled; ``compress_above_tokens``: of a history, 0 for never;
    ``memory_tools``: ``inject`` offers them to the model, ``none`` not.
    """

    mode: str | None = None
    limit: int | None = None
    rerank: bool | None = None
    learning: bool | None = None
    compress_above_tokens: int | None = None
    memory_tools: str | None = None

    def over(self, wider: "Choices") -> "Choices":
        """These, and where nothing was chosen those of the wider place."""
        chosen = {name: value for name in self.__struct_fields__ if (value := getattr(self, name)) is not None}
        return msgspec.structs.replace(wider, **chosen)

    @property
    def recalls(self) -> bool:
        """Whether memories may be searched for."""
        return self.mode in {None, "on", "read"}

    @property
    def captures(self) -> bool:
        """Whether what is said may be kept."""
        return self.mode in {None, "on", "write"}

    @property
    def learns(self) -> bool:
        """Whether facts may be read from what is kept."""
        return self.learning is not False


NOTHING_CHOSEN = Choices()
