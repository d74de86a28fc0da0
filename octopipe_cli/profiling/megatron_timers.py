"""Megatron-LM's timer logs: how long each pipeline rank computes forward and backward in an iteration.

With ``--timing-log-level 2 --timing-log-option all`` it prints after every log interval each rank's time, averaged over
the interval's iterations and summed over an iteration's micro-batches and model chunks (megatron/core/timers.py,
_get_all_ranks_time_string: the same since 2022)::

    times across ranks (ms):
      forward-compute:
         rank  0: 1234.56

The timers stand around the computation alone, devices synchronised: what is received and sent has timers of its own.
"""

from __future__ import annotations

import re
import statistics
from collections import defaultdict
from typing import Final

from octopipe_cli.errors import InputError
from octopipe_cli.formats import read_text, shown_file
from octopipe_cli.plan import ActionKind
from octopipe_cli.profiling.trace import Observed

TIMERS: Final[dict[str, ActionKind]] = {"forward-compute": "F", "backward-compute": "B"}
MAX_INTERVALS: Final = 10**6
REMEDY: Final = "run with --timing-log-level 2 --timing-log-option all"
#: Launchers put a prefix before each line.
_TIMER: Final = re.compile(r"(?:^|\s)([a-z][\w/-]*):$")
_RANK: Final = re.compile(r"(?:^|\s)rank\s+(\d{1,7}):\s+(\d{1,12}\.\d{1,6})$")
_LEAST_AND_LARGEST: Final = re.compile(r"time across ranks \(ms\):$")


def read_timers(file: str, num_ranks: int, num_microbatches: int) -> dict[tuple[int, ActionKind], Observed]:
    """Return how long a pipeline rank's layers take for one micro-batch, F and B, by rank.

    Parameters
    ----------
    file
        The log, ``-`` for standard input.
    num_ranks
        Pipeline ranks. Those of one follow one another: Megatron's default order, pipeline outermost.
    num_microbatches
        Of an iteration.

    Notes
    -----
    The median over a rank's devices, then over the log's intervals: the first, with its warm-up, weighs little.

    Raises
    ------
    InputError
        Where the log has no such timers, or not those of all ranks.
    """
    shown = shown_file(file)
    intervals = _intervals(read_text(file), shown)
    devices = {device for timers in intervals for times in timers.values() for device in times}
    count = max(devices) + 1
    if count % num_ranks or len(devices) != count:
        raise InputError(
            "the log's ranks are not those of the pipeline",
            file=shown,
            found=f"times of {len(devices)} ranks, the last of them {count - 1}",
            expected=f"a multiple of {num_ranks} pipeline ranks, all of them",
            remedy="give the plan that ran, and the whole log",
        )
    group = count // num_ranks
    runs: dict[tuple[int, ActionKind], list[float]] = defaultdict(list)
    for timers in intervals:
        for name, times in timers.items():
            for rank in range(num_ranks):
                own = [times[device] for device in range(rank * group, (rank + 1) * group) if device in times]
                if own:
                    runs[rank, TIMERS[name]].append(statistics.median(own) / num_microbatches)
    return {key: Observed(statistics.median(values), len(values)) for key, values in sorted(runs.items())}


def _intervals(text: str, file: str) -> list[dict[str, dict[int, float]]]:
    """Return for each log interval the timers that matter: milliseconds by device."""
    intervals: list[dict[str, dict[int, float]]] = []
    current: dict[int, float] | None = None
    summed = False
    for found_line in re.finditer(r"[^\n]+", text):  # no list of them: logs are long
        line = found_line[0].rstrip()
        if rank := _RANK.search(line):
            if current is not None:
                current[int(rank[1])] = float(rank[2])
        elif timer := _TIMER.search(line):
            current = None
            if timer[1] in TIMERS:
                if not intervals or timer[1] in intervals[-1]:
                    intervals.append({})
                    if len(intervals) > MAX_INTERVALS:
                        raise InputError("too many log intervals", file=file, expected=f"at most {MAX_INTERVALS}")
                current = intervals[-1].setdefault(timer[1], {})
        else:
            current = None
            summed = summed or bool(_LEAST_AND_LARGEST.search(line))
    found = {name for timers in intervals for name, times in timers.items() if times}
    missing = [name for name in TIMERS if name not in found]
    if missing:
        raise InputError(
            f"no times of {' and '.join(missing)} by rank in this log",
            file=file,
            found="only the least and the largest of all ranks" if summed else None,
            expected="lines of rank and milliseconds below forward-compute: and backward-compute:",
            remedy=REMEDY,
        )
    return intervals
