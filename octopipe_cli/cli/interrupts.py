"""Ctrl-C: the command ends with 130 wherever it is; a search keeps its best plan; a second Ctrl-C ends at once."""

from __future__ import annotations

import _thread
import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from types import FrameType
from typing import Final

from octopipe_cli.errors import EXIT_INTERRUPTED

#: How long a command may take to end by itself: an exception can be lost in what it interrupts (a library's import).
GRACE_S: Final = 2.0


class Interrupts:
    """Ctrl-C of this process; `asked` says whether the command was told to end by an exception."""

    def __init__(self) -> None:
        self.asked = False

    def listen(self) -> None:
        """Let Ctrl-C end the process from here on, also where the shell has it ignored, as in a script's ``&``."""
        signal.signal(signal.SIGINT, self._interrupt)

    def finish(self) -> None:
        """Let Ctrl-C end the process at once from here on: there is nothing left but to leave."""
        self.asked = True

    @contextlib.contextmanager
    def kept_for(self, stop: threading.Event) -> Iterator[None]:
        """Within it the first Ctrl-C only sets the event."""
        asked = False

        def interrupt(number: int, frame: FrameType | None) -> None:
            nonlocal asked
            if asked:
                end_at_once()
            asked = True
            stop.set()

        if threading.current_thread() is not threading.main_thread():  # signals belong to the main thread
            yield
            return
        before = signal.signal(signal.SIGINT, interrupt)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            end_at_once()
        self.asked = True
        # Not a `threading.Thread`: what is interrupted may hold that module's locks.
        _thread.start_new_thread(_end_soon, ())
        raise KeyboardInterrupt


def end_at_once() -> None:
    """End this process and its children, with the exit code of an interrupted command."""
    if "multiprocessing" in sys.modules:
        for child in sys.modules["multiprocessing"].active_children():
            child.kill()
    os._exit(EXIT_INTERRUPTED)


def _end_soon() -> None:
    time.sleep(GRACE_S)
    with contextlib.suppress(OSError):
        os.write(2, b"octopipe: interrupted\n")
    end_at_once()


CTRL_C: Final = Interrupts()
