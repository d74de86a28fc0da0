"""Where the ranks of a run are, and when it is given up."""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import Any, Final

from octopipe_cli.errors import EXIT_NO, OctopipeError
from octopipe_cli.run.job import Job

#: How often progress is looked at, in seconds.
LOOK_S: Final = 0.05


class RunError(OctopipeError):
    """A run that failed or hung (exit 1)."""

    exit_code = EXIT_NO


def where(job: Job, rank: int, step: int, done: int) -> str:
    """Return, in words, what a rank is in: its first action that has not ended."""
    if step < 0:
        return f"rank {rank} is starting"
    actions = job.timeline.orders[rank]
    if done < len(actions):
        return f"rank {rank} is in {actions[done]}, action {done + 1} of {len(actions)}"
    return f"rank {rank} has ended its actions"


class Watch(threading.Thread):
    """Ends this process where its rank does not get on; of the other ranks it knows nothing."""

    def __init__(self, job: Job, rank: int) -> None:
        super().__init__(daemon=True)
        self.job, self.rank = job, rank
        self.place = (-1, 0)
        self.last = time.monotonic()

    def progress(self, step: int, done: int) -> None:
        """Note that the rank got on."""
        self.place, self.last = (step, done), time.monotonic()

    def run(self) -> None:
        """Wait until the rank has stood still for too long."""
        while time.monotonic() - self.last < self.job.timeout_s:
            time.sleep(LOOK_S)
            if ended(self.job, self.rank, *self.place):
                return
        sys.stderr.write(f"octopipe: error: no action ended for {self.job.timeout_s:g} s: ")
        sys.stderr.write(where(self.job, self.rank, *self.place) + "\n")
        sys.stderr.flush()
        os._exit(EXIT_NO)


def ended(job: Job, rank: int, step: int, done: int) -> bool:
    """Return whether a rank has ended the actions of the last step: a check may take any time after that."""
    return bool(step == job.warmup + job.steps - 1 and done == len(job.timeline.orders[rank]))


def places(job: Job, board: Any) -> str:
    """Return, in words, what every rank is in; the board has step and ended actions of each."""
    return "; ".join(where(job, rank, board[2 * rank], board[2 * rank + 1]) for rank in range(len(job.plan.ranks)))


def hang(job: Job, board: Any) -> RunError:
    """Return the error of a run in which no rank gets on."""
    return RunError(
        f"the run was stopped: no action ended for {job.timeout_s:g} s",
        found=places(job, board),
        remedy="give it longer with --timeout, if its actions take so long",
    )
