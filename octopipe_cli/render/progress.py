"""How a search is getting on: one line on a terminal, nothing elsewhere."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Final, Protocol

from rich.console import Console
from rich.live import Live
from rich.text import Text

from octopipe_cli.render.console import glyphs_of, make_console
from octopipe_cli.render.glyphs import Glyphs
from octopipe_cli.words import percent_text, time_text

LEAST_INTERVAL_S: Final = 0.1


class ProgressLike(Protocol):
    """What is known of a search at one moment; the search's own record has these attributes."""

    @property
    def phase(self) -> str:
        """What the search is doing."""

    @property
    def best_ns(self) -> int | None:
        """Step time of the best plan so far."""

    @property
    def bound_ns(self) -> int | None:
        """The certified bound so far."""

    @property
    def candidates(self) -> int:
        """How many candidates were looked at."""

    @property
    def seconds(self) -> float:
        """How long the search has been running."""


def progress_text(progress: ProgressLike, glyphs: Glyphs) -> Text:
    """Return the line for one moment: phase, time, best step time, bound, gap, candidates per second."""
    minutes, seconds = divmod(int(progress.seconds), 60)
    parts = [glyphs.name(progress.phase).ljust(10), f"{minutes}:{seconds:02d}"]
    best, bound = progress.best_ns, progress.bound_ns
    if best is not None:
        parts.append(f"best {time_text(best)}")
    if bound is not None:
        parts.append(f"bound {time_text(bound)}")
    if best is not None and bound:
        parts.append(f"gap {percent_text(best - bound, bound, 2)} %")
    if progress.candidates and progress.seconds > 0:
        parts.append(f"{round(progress.candidates / progress.seconds)} candidates/s")
    return Text(glyphs.plain("  ".join(parts)), no_wrap=True, overflow="ellipsis")


class SearchProgress:
    """A context in which `update` shows how a search is getting on; it leaves no trace on the screen.

    Parameters
    ----------
    console
        Where to; unless it is a terminal nothing is written.
    clock
        Seconds that never go back; updates closer than 0.1 s to the last one shown are passed over.
    """

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._glyphs = glyphs_of(console)
        self._shown_at: float | None = None
        self._phase = ""
        self._live: Live | None = None
        if console.is_terminal and not console.is_dumb_terminal:
            self._live = Live(console=console, auto_refresh=False, transient=True)

    def __enter__(self) -> SearchProgress:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def update(self, progress: ProgressLike) -> None:
        """Show this moment, unless the last one shown is too recent and of the same phase."""
        if self._live is None:
            return
        now = self._clock()
        recent = self._shown_at is not None and now - self._shown_at < LEAST_INTERVAL_S
        if recent and progress.phase == self._phase:
            return
        self._shown_at, self._phase = now, progress.phase
        self._live.update(progress_text(progress, self._glyphs), refresh=True)


@contextlib.contextmanager
def progress_line() -> Iterator[Callable[[ProgressLike], None]]:
    """Yield an observer of a search that shows its progress on stderr."""
    with SearchProgress(make_console(stderr=True)) as shown:
        yield shown.update
