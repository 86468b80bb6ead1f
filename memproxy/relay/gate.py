"""The gate, as the relay uses it: the settings, and which message it judges."""

from memproxy.core import gate
from memproxy.core.message_kinds import fitted
from memproxy.core.offered_tools import OfferedTool
from memproxy.settings import GateSettings
from memproxy.wire.request import RequestBody


class Gate:
    """Says whether a request is worth a search."""

    def __init__(self, settings: GateSettings) -> None:
        self._enabled = settings.enabled
        self._skip = frozenset[str](settings.skip)
        if self._enabled:
            fitted()  # read now rather than while the first request waits

    def judge(self, chat: RequestBody) -> gate.Verdict:
        """The verdict on the request's last user message.

        What tools are offered counts only when the message asks for one of them, or when the request makes the model
        call one.
        """
        if not self._enabled:
            return gate.Verdict(searched=True, reason="gate_off")
        *earlier, text = chat.user_texts[-2:]
        short = chat.has_tools and len(text) <= 2 * gate.COMMAND_CHARACTERS  # long ones are no commands
        offered = [OfferedTool(*tool) for tool in chat.offered_tools] if short else []
        return gate.judge(text, self._skip, offered=offered, tool_forced=chat.tool_choice_forced, follows=bool(earlier))

    def is_first_search(self, chat: RequestBody) -> bool:
        """Whether nothing that the user said before in this conversation was searched for: a session that begins with
        a greeting has its first turn after it.
        """
        return gate.is_first_search(chat.user_texts[:-1], self._skip if self._enabled else frozenset())
