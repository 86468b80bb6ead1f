"""Sections about how much callers may do: rates and quotas by tenant and by user. Nothing is limited by default."""

from pydantic import Field

from memproxy.settings.base import Positive, Section


class TenantLimits(Section):
    """Of one tenant, all its users together. What learning may cost it is `learn.model_tokens_per_hour`."""

    chat_per_minute: Positive | None = Field(None, description="Requests that carry memory in a minute (429 above).")
    turns_per_minute: Positive | None = Field(None, description="Turns that are taken in within a minute.")
    memories: Positive | None = Field(None, description="Memories that are kept, turns included.")


class UserLimits(Section):
    """Of one user."""

    chat_per_minute: Positive | None = Field(None, description="Requests that carry memory in a minute (429 above).")
    turns_per_minute: Positive | None = Field(None, description="Turns that are taken in within a minute.")
    memories: Positive | None = Field(None, description="Memories that are kept, turns included.")
    model_tokens_per_hour: Positive | None = Field(
        None, description="Tokens of learning's model calls in an hour; learning waits then."
    )


class LimitsSettings(Section):
    """How much callers may do. The memory API answers 429 above a limit; a chat request goes on without memory."""

    tenant: TenantLimits = TenantLimits()
    user: UserLimits = UserLimits()
