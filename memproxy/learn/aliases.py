"""Names that the user said are one: a statement about "TS" is one about TypeScript once that was told. Nothing is
guessed: the palace's names of the owner decide, and what the plan under way adds to them.
"""

import msgspec

from memproxy.core.memory import Memory
from memproxy.core.palace import USER, is_role, same_names, subject_name
from memproxy.core.scope import Scope
from memproxy.core.slots import slot_name
from memproxy.ports import PalaceStore

_MOST_VARIANTS = 8


class Aliases:
    """The owner's names, made anew for every attempt at a plan."""

    def __init__(self, names: dict[str, str]) -> None:
        """``names`` maps every name and alias of a wing to the wing's own."""
        self._names = dict(names)

    @classmethod
    async def of(cls, state: PalaceStore, scope: Scope) -> "Aliases":
        """Those that hold for what is learned in a scope: names that were told in another project stay there.

        Raises:
            StateUnavailable: try again later.
        """
        return cls(await state.palace_names(scope, writing=True))

    def resolved(self, memory: Memory) -> Memory:
        """The statement by the names that its subject and its object go by; what it says of names itself stays."""
        pairs = same_names(memory)
        for one, other in pairs:
            known = self._names.get(other) or (None if is_role(one) else self._names.get(one)) or other
            self._names |= {one: known if is_role(one) else self._names.get(one, known), other: known}
        if pairs:
            return memory
        changed = msgspec.structs.replace(
            memory, subject=self._named(memory.subject), object=self._named(memory.object, thing=True)
        )
        return msgspec.structs.replace(changed, slot=slot_name(changed)) if changed != memory else memory

    def _named(self, said: str | None, *, thing: bool = False) -> str | None:
        """What somebody or something is called; values that are no names stay as they were said."""
        name = subject_name(said or "")
        known = self._names.get(name, name)
        if not said or known == name or self._is_user(name) or (thing and not self._is_only(said, name)):
            return said
        words = known.replace("-", " ")
        return words.title() if said[:1].isupper() or " " in said else words

    def _is_only(self, said: str, name: str) -> bool:
        return len(said.split()) <= len(name.split("-")) + 2

    def _is_user(self, name: str) -> bool:
        return self._names.get(name) == self._names.get(USER, USER)

    def slots(self, memory: Memory) -> list[str]:
        """The slots that the statement would hold by the other names of its subject and object: where it was known
        before these names were told.
        """
        found: list[str] = []
        for field in ("subject", "object"):
            for other in self._others(getattr(memory, field)):
                slot = slot_name(msgspec.structs.replace(memory, **{field: other.replace("-", " ")}))
                found += [slot] if slot is not None and slot != memory.slot else []
        return list(dict.fromkeys(found))[:_MOST_VARIANTS]

    def _others(self, said: str | None) -> list[str]:
        name = subject_name(said or "")
        known = self._names.get(name)
        if known is None or self._is_user(name):
            return []
        return [other for other, wing in self._names.items() if wing == known and other != name]
