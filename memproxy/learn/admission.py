"""Which of the nominated candidates may become facts: those that rest on a message and that their source may state."""

from collections.abc import Sequence

import msgspec

from memproxy.core.memory import Trust
from memproxy.learn.answers import in_order, is_echo
from memproxy.learn.candidates import Extracted, Grounded, Read, Rejected, Window
from memproxy.learn.ground import Heard, ground
from memproxy.learn.guard import admitted, rejection
from memproxy.learn.idle_turns import was_asked
from memproxy.learn.mistaken import mistaken
from memproxy.learn.moments import dated
from memproxy.metrics import metrics


class Admission:
    """The checks of code on what a model (or the rules) nominates; what is rejected is counted by reason.

    Args:
        min_trust: ``learn.min_trust``; what comes from a less trusted source waits in quarantine.
    """

    def __init__(self, min_trust: Trust) -> None:
        self._min_trust = min_trust

    def of_model(self, candidates: Sequence[Extracted], window: Window) -> Read:
        """What a model named, each candidate against the messages that the model was shown."""
        heard = Heard(window)
        read = self._sorted([(one, rejection(one) or _of_message(one, heard, window)) for one in candidates])
        return Read(in_order(read.kept), read.rejected)

    def of_rules(self, read: Read) -> Read:
        """What the rules found: they name the turn themselves; the guard and the trust of sources are the same."""
        checked = self._sorted([(found.candidate, rejection(found.candidate) or found) for found in read.kept])
        return Read(checked.kept, [*read.rejected, *checked.rejected])

    def _sorted(self, grounded: Sequence[tuple[Extracted, Grounded | str]]) -> Read:
        read = Read([], [])
        for candidate, found in grounded:
            allowed = found if isinstance(found, str) else admitted(found, self._min_trust)
            if isinstance(allowed, str):
                metrics().candidates_rejected.labels(reason=allowed).inc()
                read.rejected.append(Rejected(candidate, allowed))
            else:
                read.kept.append(allowed)
        return read


def _of_message(candidate: Extracted, heard: Heard, window: Window) -> Grounded | str:
    """The candidate with its message, or why it is no fact of that."""
    found = ground(candidate, heard)
    if isinstance(found, str):
        return found
    if is_echo(candidate, found.turn, window):
        return "echo"
    asked = was_asked(window.turns, found.turn)
    return mistaken(found, asked=asked) or msgspec.structs.replace(
        found, candidate=dated(candidate, found.turn.created_at)
    )
