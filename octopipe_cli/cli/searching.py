"""Running the search from the command line: progress on a terminal, Ctrl-C keeps the best plan so far."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from typing import Any

from octopipe_cli.cli.interrupts import CTRL_C
from octopipe_cli.cluster import Cluster
from octopipe_cli.errors import EXIT_INTERRUPTED, LimitError, OctopipeError
from octopipe_cli.formats import Loaded
from octopipe_cli.length_sets import LengthLists
from octopipe_cli.plan import Plan, Request
from octopipe_cli.profile import Profile


class Interrupted(OctopipeError):
    """Ctrl-C before there was a plan (exit 130)."""

    exit_code = EXIT_INTERRUPTED


def search(
    profile: Loaded[Profile],
    cluster: Loaded[Cluster],
    request: Request,
    jobs: int,
    time_limit_s: float | None,
    warm: Loaded[Plan] | None = None,
    sets: Sequence[LengthLists] | None = None,
) -> tuple[Plan, bool]:
    """Return the plan that was found, and whether Ctrl-C ended the search; `warm` is a plan to begin from.

    Raises
    ------
    InfeasibleError
        Where it is proven that no plan fits.
    LimitError
        Where a limit was reached before there was a plan.
    Interrupted
        Where Ctrl-C ended the search before there was a plan.
    """
    from octopipe_cli.search import make_plan

    stop = threading.Event()
    outcome: Future[Plan] = Future()

    def work() -> None:
        try:
            with progress() as observer:
                options: dict[str, Any] = {"jobs": jobs, "time_limit_s": time_limit_s, "observer": observer}
                outcome.set_result(make_plan(profile, cluster, request, **options, stop=stop, warm=warm, sets=sets))
        except BaseException as error:
            outcome.set_exception(error)

    # In a thread of its own, so that this one is free for signals while the search is inside a solver.
    thread = threading.Thread(target=work, name="search", daemon=True)
    with CTRL_C.kept_for(stop):
        thread.start()
        while thread.is_alive():
            thread.join(0.5)
    try:
        return outcome.result(), stop.is_set()
    except LimitError:
        if stop.is_set():
            raise Interrupted("interrupted before there was a plan") from None
        raise


def cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextlib.contextmanager
def progress() -> Iterator[Any]:
    """Yield what shows the search's progress on stderr, None where stderr is no terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from octopipe_cli.render.progress import progress_line

    with progress_line() as observer:
        yield observer
