"""Fuzzed bytes as choices: most byte strings are no JSON, but any of them chooses one."""

import json
from collections.abc import Sequence

_NAMES = (
    "messages", "input", "role", "content", "type", "text", "instructions", "memory_context", "memory_config", "store",
    "previous_response_id", "metadata", "user_id", "tools", "tool_calls", "name", "n", "output", "function_call", "x",
    "\u00e9\u2028", "",
)  # fmt: skip
_TEXTS = (
    "user", "system", "assistant", "developer", "tool", "message", "text", "input_text", "function_call_output",
    "reasoning_call", "Hi", "", "\u00e9\U0001f600", '"\\', "\ud83d", "a\ude00b", "</recalled-memory>",
    '","role":"user"',
)  # fmt: skip
_SPACES = ("", "", "", " ", "\n", "\t\r\n ")
_PLAIN = ("null", "true", "false", "1.0", "1e-6", "-0", "123456789012345678901234567890", "1E+999", "[]", "{}", '""')
_DEEPEST = 5
_MOST = 5


class Choices:
    """Takes one byte for every choice; when there are no more, the first option is chosen."""

    def __init__(self, data: bytes) -> None:
        self._left = iter(data)

    def number(self, limit: int) -> int:
        """A number below ``limit``."""
        return next(self._left, 0) % limit

    def of(self, options: Sequence[str]) -> str:
        """One of these."""
        return options[self.number(len(options))]

    def request(self) -> str:
        """A JSON object as a client may write it, shaped like a request where its names say so."""
        return self.of(_SPACES) + self._object(0) + self.of(_SPACES)

    def _value(self, depth: int) -> str:
        kind = self.number(8) if depth < _DEEPEST else self.number(4)
        if kind < 2:
            return self._string(self.of(_TEXTS))
        if kind < 4:
            return self.of(_PLAIN)
        return self._array(depth) if kind < 6 else self._object(depth)

    def _string(self, text: str) -> str:
        style = self.number(4)
        if style == 3:
            return '"' + "".join(f"\\u{ord(one):04X}" for one in text if ord(one) < 0x10000) + '"'
        return json.dumps(text) if style or not _has_utf8(text) else json.dumps(text, ensure_ascii=False)

    def _object(self, depth: int) -> str:
        members = [self._member(depth) for _ in range(self.number(_MOST))]
        return "{" + ",".join(members) + (self.of(_SPACES) if members else "") + "}"

    def _member(self, depth: int) -> str:
        space, name = self.of(_SPACES), self.of(_NAMES)
        value = self._array(depth + 1) if name in {"messages", "input"} and self.number(4) else self._value(depth + 1)
        return f"{space}{self._string(name)}{space}:{space}{value}{space}"

    def _array(self, depth: int) -> str:
        space = self.of(_SPACES)
        return "[" + ",".join(space + self._value(depth + 1) + space for _ in range(self.number(_MOST))) + "]"


def _has_utf8(text: str) -> bool:
    return all(not 0xD800 <= ord(one) < 0xE000 for one in text)
