"""All errors of memproxy, one tree below `MemproxyError`. The HTTP status and the OpenAI error type sit on the class.
Every message says what happened, where, and what to do about it.
"""

from datetime import datetime
from typing import Any


class MemproxyError(Exception):
    """Root of the tree. ``status`` is the HTTP status, ``kind`` the ``type`` in an OpenAI-shaped error body."""

    status = 500
    kind = "server_error"
    code: str | None = None

    def __init__(self, message: str, *, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        if code is not None:
            self.code = code

    def body(self) -> dict[str, Any]:
        """The OpenAI-shaped JSON body of this error."""
        return {"error": {"message": self.message, "type": self.kind, "param": self.param, "code": self.code}}


class ConfigError(MemproxyError):
    """The configuration cannot be used. The message names the key's path, its value and what is allowed."""


class RequestError(MemproxyError):
    """The caller's mistake."""

    status = 400
    kind = "invalid_request_error"


class Unauthenticated(RequestError):
    """No identity, or one that is not accepted."""

    status = 401
    kind = "authentication_error"
    code = "invalid_api_key"


class Forbidden(RequestError):
    """Known, but not allowed."""

    status = 403
    kind = "permission_error"
    code = "forbidden"


class NotFound(RequestError):
    """Not there, or somebody else's; the two look the same from outside."""

    status = 404
    kind = "not_found_error"
    code = "not_found"


class MethodNotAllowed(RequestError):
    """The path is there, and does not take this method."""

    status = 405
    code = "method_not_allowed"


class BodyTimeout(RequestError):
    """The request's body did not come to its end in time; the connection is closed."""

    status = 408
    code = "body_timeout"


class Conflict(RequestError):
    """The state changed under the caller."""

    status = 409
    code = "conflict"


class Ambiguous(Conflict):
    """A short id stands for several memories: it takes more of the id, or the whole, to name one."""

    code = "ambiguous_id"


class PreconditionFailed(RequestError):
    """What is to be changed is not the version that the caller knows."""

    status = 412
    code = "precondition_failed"


class BodyTooLarge(RequestError):
    """The request's body is over ``server.max_body_bytes``, or a JSON call's of the memory API over 8 MiB."""

    status = 413
    code = "body_too_large"


class UnsupportedMedia(RequestError):
    """The endpoint takes another content type."""

    status = 415
    code = "unsupported_media_type"


class KeyReused(RequestError):
    """An idempotency key names one call; another one came with it."""

    status = 422
    code = "idempotency_key_reused"


class TooManyRequests(RequestError):
    """Over a rate limit or a quota; ``retry_after_s`` is when it is worth trying again, in seconds."""

    status = 429
    kind = "rate_limit_error"
    code = "rate_limit_exceeded"

    def __init__(
        self, message: str, *, retry_after_s: int = 1, param: str | None = None, code: str | None = None
    ) -> None:
        super().__init__(message, param=param, code=code)
        self.retry_after_s = retry_after_s


class NotBuilt(MemproxyError):
    """Something the product does not do."""

    status = 501
    kind = "not_implemented_error"
    code = "not_implemented"


class AuthUnavailable(MemproxyError):
    """Who calls cannot be found out just now: the identity provider's keys are out of reach."""

    status = 503
    code = "auth_unavailable"


class Overloaded(MemproxyError):
    """More requests than ``server.max_concurrent_requests``, or more of bodies than ``server.max_held_bytes``."""

    status = 503
    kind = "overloaded_error"
    code = "overloaded"


class UpstreamError(MemproxyError):
    """The upstream could not be reached; its host is named, its key never."""

    status = 502
    kind = "upstream_error"


class UpstreamUnreachable(UpstreamError):
    """No connection, or one that broke before the answer began (a kept one that was closed is tried anew)."""

    code = "upstream_unreachable"


class UpstreamTimeout(UpstreamError):
    """No answer or no taking of the body within ``upstream.timeout_s``, or ``upstream.connect_timeout_s``."""

    status = 504
    code = "upstream_timeout"


class MemoryUnavailable(MemproxyError):
    """Memory does not work just now. A chat request never sees this: it goes on without memory."""

    status = 503
    kind = "memory_unavailable_error"
    code = "memory_unavailable"


class StoreUnavailable(MemoryUnavailable):
    """The memory store does not answer. What waits to be written is kept and tried again, without end."""

    code = "store_unavailable"


class StateUnavailable(MemoryUnavailable):
    """The state store (journal, slots, sessions) does not answer."""

    code = "state_unavailable"


class CacheUnavailable(MemoryUnavailable):
    """Redis does not answer, or does not take what it is given. What may be forgotten is there, nothing else."""

    code = "cache_unavailable"


class EngineUnavailable(MemoryUnavailable):
    """The engine process does not answer."""

    code = "engine_unavailable"


class EmbedderUnavailable(MemoryUnavailable):
    """No vectors for now; recall goes on by words."""

    code = "embedder_unavailable"


class ModelError(MemoryUnavailable):
    """A model's call failed; it is tried again."""

    code = "model_error"


class ModelRefused(ModelError):
    """The model's key is missing or not accepted: learning waits for another key and spends no retries."""

    code = "model_refused"


class ModelUnavailable(ModelError):
    """The model did not answer (no connection, a timeout, 5xx), or not this account just now (``limited``: 429, 402,
    404). Nothing is known to be wrong with what it was asked. ``retry_after_s`` is the provider's word, in seconds.
    """

    def __init__(self, message: str, *, retry_after_s: float | None = None, limited: bool = False) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s
        self.limited = limited


class ModelAwaited(ModelUnavailable):
    """Learning leaves the model alone until ``until``, or until ``outage`` (a number) is over.

    Args:
        asked: it was asked for this job, and did not answer.
        answers: how many calls it had answered by then; None where that tells nothing of the job (a limit).
    """

    def __init__(
        self, message: str, *, until: datetime, outage: int, asked: bool = False, answers: int | None = None
    ) -> None:
        super().__init__(message)
        self.until = until
        self.outage = outage
        self.asked = asked
        self.answers = answers


class BudgetSpent(ModelError):
    """``learn.model_tokens_per_hour`` (``_per_day``) is used up: learning waits until ``until``, no retry is spent."""

    code = "budget_spent"

    def __init__(self, message: str, *, until: datetime) -> None:
        super().__init__(message)
        self.until = until


class ModelUnreadable(ModelError):
    """The model answered something that cannot be read as what was asked for. Never taken for "nothing to learn"."""

    code = "model_unreadable"
