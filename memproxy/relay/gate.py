"""The gate, as the relay uses it: the settings, and which message it judges."""

from memproxy.core import gate
from memproxy.settings import GateSettings
from memproxy.wire.chat import ChatRequest


class Gate:
    """Says whether a request is worth a search."""

    def __init__(self, settings: GateSettings) -> None:
        self._enabled = settings.enabled
        self._skip = frozenset[str](settings.skip)

    def judge(self, chat: ChatRequest) -> gate.Verdict:
        """The verdict on the request's last user message."""
        if not self._enabled:
            return gate.Verdict(searched=True, reason="gate_off")
        return gate.judge(chat.user_texts[-1], self._skip)

    def is_housekeeping(self, text: str) -> bool:
        """Whether it is a client's own prompt (titles, tags, follow-ups): neither recalled for nor captured."""
        return gate.is_housekeeping(text)
