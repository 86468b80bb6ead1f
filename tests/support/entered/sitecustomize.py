"""Python imports this when a process starts with this folder in ``PYTHONPATH``: the files of memproxy that the process
enters are written, in the order in which it enters them, to ``ENTERED_FOLDER``.

What ``ENTERED_FOLDER/phase`` holds is the name of the phase that is noted; a second word is where the relay's notes
begin, so that a captured turn is not followed through the request that brought it.
"""

import os
import sys
import threading
from pathlib import Path
from types import FrameType

_PACKAGE = str(Path(__file__).resolve().parents[3] / "memproxy") + os.sep
"""A checkout may be called memproxy, too: what else is in it is none of the package's files."""

_LOOK_S = 0.01


class Entered:
    """The files of one process."""

    def __init__(self, folder: Path, process: str) -> None:
        self._folder = folder
        self._process = process
        self._files: list[str] = []
        self._known: set[str] = set()
        self._begins_in = ""

    def note(self, frame: FrameType, event: str, _argument: object) -> None:
        """Called for each call of a function."""
        name = frame.f_code.co_filename
        if event != "call" or name in self._known:
            return
        if self._begins_in:
            if not name.endswith(self._begins_in):
                return
            self._begins_in = ""
        self._known.add(name)
        if name.startswith(_PACKAGE):
            self._files.append(name.removeprefix(_PACKAGE).replace(os.sep, "/"))

    def write(self) -> None:
        """Follow the phases, until the process ends. A phase has begun here when it has a file."""
        sys.setprofile(None)
        phase, written, pause = "", -1, threading.Event()
        while True:
            named = (self._folder / "phase").read_text(encoding="utf-8").split()
            if named and named[0] != phase:
                phase, written = named[0], -1
                self._files.clear()
                self._begins_in = named[1] if len(named) > 1 and self._process == "relay" else ""
                self._known.clear()
            files = self._files[:]
            if phase and len(files) > written:
                new = self._folder / f"{self._process}.new"
                new.write_text("\n".join(files), encoding="utf-8")
                new.replace(self._folder / f"{phase}-{self._process}")
                written = len(files)
            pause.wait(_LOOK_S)


if "ENTERED_FOLDER" in os.environ and sys.orig_argv[-1] in {"_relay", "_engine", "_state"}:
    entered = Entered(Path(os.environ["ENTERED_FOLDER"]), sys.orig_argv[-1].removeprefix("_"))
    threading.Thread(target=entered.write, daemon=True).start()
    sys.setprofile(entered.note)
    threading.setprofile(entered.note)
