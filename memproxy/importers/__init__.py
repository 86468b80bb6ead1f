"""Other products' exports, read as lines of our own form (`core.transfer`), with the times that they tell."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from memproxy.importers.chatgpt import chatgpt_lines
from memproxy.importers.mem0 import mem0_lines
from memproxy.importers.zep import zep_lines

IMPORTERS: dict[str, Callable[[Path], Iterator[dict[str, Any]]]] = {
    "mem0": mem0_lines,
    "zep": zep_lines,
    "chatgpt": chatgpt_lines,
}
"""By the format's name. Each yields ``{"memory": …}`` and ``{"turns": …}``, and raises `errors.ConfigError` for a file
that is none of its own."""

__all__ = ["IMPORTERS", "chatgpt_lines", "mem0_lines", "zep_lines"]
