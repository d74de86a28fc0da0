"""Hanayo-style waves: stages run down and up the ranks, once or several times, the backward in one piece."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from octopipe_cli.errors import InputError
from octopipe_cli.plan import Orders
from octopipe_cli.schedules.greedy import Setting, StageTimes, greedy_orders, in_flight_limit

#: What is tried: backwards first, as in 1F1B; forwards first; the same with fewer in flight on the early stages.
_SETTINGS: Final = (
    Setting(bias_eighths=8, slack_eighths=None, look_ahead=False),
    Setting(bias_eighths=-16, slack_eighths=None, look_ahead=False),
    Setting(bias_eighths=8, slack_eighths=None, look_ahead=False, cap_eighths=12),
)
#: Above so many actions only the first setting is tried.
_MANY_ACTIONS: Final = 20_000


def zigzag(num_ranks: int, stages_per_rank: int) -> tuple[int, ...]:
    """Return the rank of each stage: 0 to P - 1, P - 1 to 0, and so on."""
    down = tuple(range(num_ranks))
    return tuple(rank for turn in range(stages_per_rank) for rank in (down if turn % 2 == 0 else down[::-1]))


@lru_cache(maxsize=4)
def wave(num_ranks: int, num_microbatches: int, waves: int = 1) -> Orders:
    """Return the orders of a pipeline of that many waves, two stages a rank each (after arXiv 2308.15762).

    They depend on counts alone: the best of what a greedy does with equal stages, backwards twice as long as
    forwards, when a rank may hold as many stage activations as the pipeline has stages (the bytes 1F1B holds on
    its first rank).

    Raises
    ------
    InputError
        Where there is no wave.
    """
    if waves < 1:
        raise InputError("a wave schedule without a wave", found=str(waves), expected="at least 1")
    rank_of = zigzag(num_ranks, 2 * waves)
    stages = len(rank_of)
    nothing = (0,) * stages
    times = StageTimes(rank_of, num_ranks, (1,) * stages, (2,) * stages, (None,) * stages, nothing, nothing)
    limit = in_flight_limit([stages] * num_ranks, stages)
    few = 2 * stages * num_microbatches <= _MANY_ACTIONS
    settings = _SETTINGS if few else _SETTINGS[:1]
    runs = [greedy_orders(times, num_microbatches, limit, setting) for setting in settings]
    return min(runs, key=lambda run: run[1])[0]
