"""Notices of changes: what one process did to somebody's memory, sent to all that may have cached some of it. A notice
says whom it concerns and what was done, never the new value: a subscriber drops what it cached.
"""

import enum
import json
from collections.abc import Callable
from typing import NamedTuple

from memproxy.core.scope import Scope


class What(enum.StrEnum):
    """What was done."""

    CHANGED = "changed"  # a call wrote, changed or deleted memories of the user, or undid a conversation
    REPLACED = "replaced"  # what the user said gave memories another form: texts that somebody keeps may not hold


class Change(NamedTuple):
    """A notice."""

    tenant: str
    user: str
    what: What

    @classmethod
    def of(cls, scope: Scope) -> "Change":
        """Memories of the scope's owner are not what they were."""
        return cls(*scope.owner, What.CHANGED)

    def encoded(self) -> str:
        """As text of hexadecimal digits, which every wire takes as it is."""
        return json.dumps(self).encode("ascii").hex()

    @classmethod
    def decoded(cls, text: str) -> "Change":
        """What `encoded` gave."""
        tenant, user, kind = json.loads(bytes.fromhex(text))
        return cls(tenant, user, What(kind))


OnChange = Callable[[Change | None], None]
"""Called with each change; None: changes of anybody may have been missed, so that nothing cached counts."""


class ChangeNotices:
    """Notices within one process; a subclass carries them to others. Publish a change after it is done: a subscriber
    told earlier could read the old value again. All are told within a second; where that is not sure they get None.
    """

    def __init__(self) -> None:
        self._subscribers: list[OnChange] = []

    def subscribe(self, callback: OnChange) -> None:
        """``callback`` is called in the event loop with each change, of this process or of another one; with one's own
        it may be called twice. It returns at once and raises nothing.
        """
        self._subscribers.append(callback)

    def publish(self, change: Change) -> None:
        """Tell everybody, this process at once. Returns at once, raises nothing."""
        self.tell(change)

    def tell(self, change: Change | None) -> None:
        """Tell the subscribers in this process."""
        for callback in self._subscribers:
            callback(change)
