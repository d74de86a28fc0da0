"""How much work each effort is: budgets in scheduled actions and solver time units, never in seconds."""

from __future__ import annotations

from typing import Final, NamedTuple

from octopipe_cli.plan import Effort


class Budget(NamedTuple):
    """What a search may spend.

    Attributes
    ----------
    bound_time, cuts_time, polish_time
        CP-SAT's deterministic time for the bound; for the cuts of one start; for the order of the best plan.
    first_work
        Work (about: actions scheduled) of the first round, shared evenly by all starts.
    rounds
        (how many of the best go on, from each how many runs, work of the round) for each later round.
    reorder_work
        Work spent on the priorities of single actions of the best partitions.
    fixed_work
        Work (actions replayed) of the cuts for an engine whose orders are settled.
    blind_work
        Work (candidates weighed by bounds alone) that evens out starts on unlike ranks, or of long steps.
    limited_polish_time
        CP-SAT's deterministic time for the order of each of the best plans under memory limits, where orders matter
        more than all other work on them.
    """

    bound_time: float
    cuts_time: float
    polish_time: float
    first_work: int
    rounds: tuple[tuple[int, int, int], ...]
    reorder_work: int
    fixed_work: int = 100_000
    blind_work: int = 50_000
    limited_polish_time: float = 0.05

    def for_size(self, num_actions: int, limited: bool = False, alike: bool = True) -> Budget:
        """Return the budget for an instance of about that many actions.

        Small ones are searched through sooner; in large ones, and where memory is limited, an action costs more time.
        Ranks that are not alike have many more ways to share the work.
        """
        share = min(1.0, num_actions / FULL_SIZE) if num_actions < LARGE else LARGE_SHARE
        share *= 1.0 if not limited else LIMITED_SHARE if alike else UNLIKE_SHARE
        if share == 1.0:
            return self
        return Budget(
            self.bound_time,
            self.cuts_time,
            self.limited_polish_time if limited else self.polish_time,
            int(self.first_work * share),
            tuple((keep, runs, int(work * share)) for keep, runs, work in self.rounds),
            int(self.reorder_work * share),
            self.fixed_work,
            self.blind_work,
            self.limited_polish_time,
        )


MILLION: Final = 1_000_000
FULL_SIZE: Final = 500  # actions of a step from which on an effort is spent whole
LARGE: Final = 3000
LARGE_SHARE: Final = 0.8
LIMITED_SHARE: Final = 0.4
UNLIKE_SHARE: Final = 0.6

BUDGETS: Final[dict[Effort, Budget]] = {
    "quick": Budget(
        2.0,
        0.2,
        0.1,
        12 * MILLION,
        ((4, 1, 12 * MILLION), (2, 1, 12 * MILLION)),
        4 * MILLION,
        300 * MILLION,
        20 * MILLION,
        0.3,
    ),
    "standard": Budget(
        6.0,
        0.5,
        0.6,
        160 * MILLION,
        ((8, 1, 200 * MILLION), (4, 2, 400 * MILLION)),
        30 * MILLION,
        2000 * MILLION,
        200 * MILLION,
        1.2,
    ),
    "thorough": Budget(
        60.0,
        3.0,
        40.0,
        400 * MILLION,
        ((12, 1, 600 * MILLION), (6, 2, 1200 * MILLION), (2, 2, 1600 * MILLION)),
        200 * MILLION,
        10_000 * MILLION,
        800 * MILLION,
        20.0,
    ),
}
