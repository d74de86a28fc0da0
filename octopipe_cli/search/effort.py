"""How much work each effort is: budgets in scheduled actions and solver time units, never in seconds."""

from __future__ import annotations

from typing import Final, NamedTuple

from octopipe_cli.plan import Effort


class Budget(NamedTuple):
    """What a search may spend.

    Attributes
    ----------
    bound_time, cuts_time
        CP-SAT's deterministic time for the bound; for the cuts of one start.
    first_work
        Work (about: actions scheduled) of the first round, shared evenly by all starts.
    rounds
        (how many of the best go on, from each how many runs, work of the round) for each later round.
    polish_work
        Work spent on the order of the best partitions.
    """

    bound_time: float
    cuts_time: float
    first_work: int
    rounds: tuple[tuple[int, int, int], ...]
    polish_work: int


MILLION: Final = 1_000_000

BUDGETS: Final[dict[Effort, Budget]] = {
    "quick": Budget(2.0, 0.2, 12 * MILLION, ((4, 1, 12 * MILLION), (2, 1, 12 * MILLION)), 4 * MILLION),
    "standard": Budget(6.0, 0.5, 60 * MILLION, ((6, 1, 60 * MILLION), (2, 2, 120 * MILLION)), 20 * MILLION),
    "thorough": Budget(
        60.0,
        3.0,
        400 * MILLION,
        ((12, 1, 600 * MILLION), (6, 2, 1200 * MILLION), (2, 2, 1600 * MILLION)),
        200 * MILLION,
    ),
}
