"""The steady state of a step: a stretch in which all ranks do the same again and again, found in the times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from typing import Final, NamedTuple

from octopipe_cli.simulate import Timeline

#: Fewer repetitions are no steady state.
LEAST_REPEATS: Final = 3
#: Periods of more micro-batches than this are not looked for, and of those worth a try so many are tried.
MOST_MICROBATCHES: Final = 128
MOST_TRIES: Final = 8

#: An action's start and end in ns, by (stage, kind, micro-batch).
_Times = dict[tuple[int, str, int], tuple[int, int]]


class Steady(NamedTuple):
    """A stretch of a step in which one pattern repeats, times in ns.

    In the `repeats` periods from `from_ns` on every rank does the same at the same distance from the period's start,
    each action with the same stage and kind, its micro-batch `microbatches` higher than in the period before.
    """

    from_ns: int
    period_ns: int
    microbatches: int
    repeats: int

    @property
    def to_ns(self) -> int:
        """Where the last whole period ends."""
        return self.from_ns + self.repeats * self.period_ns

    @property
    def saved_ns(self) -> int:
        """What is left out where the pattern is shown once."""
        return (self.repeats - 1) * self.period_ns


def steady_state(timeline: Timeline) -> Steady | None:
    """Return the steady state of a timeline; None where no pattern repeats exactly, three times or more.

    Of several periods the shortest that leaves out half of the step is taken, else the one that leaves out most.
    """
    times: _Times = {}
    for actions, starts, ends in zip(timeline.orders, timeline.start_ns, timeline.end_ns, strict=True):
        times.update(zip(actions, zip(starts, ends, strict=True), strict=True))
    best: Steady | None = None
    for microbatches, period_ns in _candidates(timeline, times):
        found = _stretch(timeline, times, microbatches, period_ns)
        if found is not None and (best is None or found.saved_ns > best.saved_ns):
            best = found
            if 2 * best.saved_ns >= timeline.step_time_ns:
                break
    return best


def _candidates(timeline: Timeline, times: _Times) -> Iterator[tuple[int, int]]:
    """Yield (micro-batches, ns) of the periods in which the first and the last stage take micro-batches for long."""
    count, last = timeline.pipeline.num_microbatches, timeline.pipeline.num_stages - 1
    entries = [[times[stage, "F", m][0] for m in range(count)] for stage in (0, last)]
    tries = 0
    for shift in range(1, min(count // LEAST_REPEATS, MOST_MICROBATCHES) + 1):
        least = (LEAST_REPEATS - 1) * shift  # so many micro-batches have their like a period later
        periods = [Counter(distance for distance, many in _runs(starts, shift) if many >= least) for starts in entries]
        common = [period for period in periods[0] if period > 0 and period in periods[1]]
        for period in common:
            yield shift, period
            tries += 1
            if tries == MOST_TRIES:
                return


def _runs(starts: list[int], shift: int) -> Iterator[tuple[int, int]]:
    """Yield the distances between starts `shift` apart, and how many in a row have each."""
    distances = (later - start for start, later in zip(starts, starts[shift:], strict=False))
    return ((distance, len(list(alike))) for distance, alike in groupby(distances))


def _stretch(timeline: Timeline, times: _Times, microbatches: int, period_ns: int) -> Steady | None:
    """Return the longest stretch that repeats with a period; None where it is shorter than three of them.

    An action without its like a period later, and one without its like a period before, seen a period before, break
    the pattern for as long as they run: the stretch lies between two such breaks. Where it ends, the last period
    begins, so that this may end wherever an action without a like goes on.
    """
    breaks: list[tuple[int, int]] = []
    for (stage, kind, microbatch), (start, end) in times.items():
        if times.get((stage, kind, microbatch + microbatches)) != (start + period_ns, end + period_ns):
            breaks.append((start, end))
        if times.get((stage, kind, microbatch - microbatches)) != (start - period_ns, end - period_ns):
            breaks.append((start - period_ns, end - period_ns))
    for rank, step_ns in enumerate(timeline.pipeline.step_ns):
        if step_ns:
            last = timeline.last_end_ns(rank)
            breaks += [(last, last + step_ns), (last - period_ns, last + step_ns - period_ns)]
    breaks.sort()
    longest, begin, reached = 0, 0, 0
    for start, end in (*breaks, (timeline.step_time_ns, timeline.step_time_ns)):
        if start - reached > longest:
            longest, begin = start - reached, reached
        reached = max(reached, end)
    repeats = longest // period_ns + 1
    return Steady(begin, period_ns, microbatches, repeats) if repeats >= LEAST_REPEATS else None
