"""What is to be run, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from octopipe_cli.plan import Action, Plan
from octopipe_cli.run.workload import Workload
from octopipe_cli.simulate import Timeline


@dataclass(frozen=True)
class Job:
    """A plan to run.

    Attributes
    ----------
    plan, timeline
        The plan with orders that the runtime takes, and its predicted timeline.
    schedule
        The runtime's CSV, sends and receives in it.
    workload
        What its stages compute.
    steps, warmup
        Steps whose times count, after those that do not.
    device
        ``cpu`` or ``cuda``.
    timeout_s
        The run is stopped when for so long no rank has finished an action.
    check
        Whether loss and gradients are compared with a run in one process.
    tolerance
        The largest difference of a gradient, relative to the largest entry of its reference.
    """

    plan: Plan
    timeline: Timeline
    schedule: str
    workload: Workload
    steps: int = 1
    warmup: int = 0
    device: str = "cpu"
    timeout_s: float = 60.0
    check: bool = False
    tolerance: float = 1e-4


class Span(NamedTuple):
    """An action as it ran: start and end on the clock that all ranks share, in ns."""

    action: Action
    start_ns: int
    end_ns: int


@dataclass(frozen=True)
class Check:
    """How a run compares with one in a single process.

    Attributes
    ----------
    loss, expected_loss
        The mean losses.
    parameters
        How many gradients were compared.
    worst, where
        The largest relative difference, and of which parameter.
    missing
        Parameters with a gradient in one run only.
    """

    loss: float
    expected_loss: float
    parameters: int
    worst: float
    where: str
    missing: tuple[str, ...] = ()

    def holds(self, tolerance: float) -> bool:
        """Return whether loss and all gradients are equal within a tolerance."""
        near = abs(self.loss - self.expected_loss) <= tolerance * max(1.0, abs(self.expected_loss))
        return near and not self.missing and self.worst <= tolerance


@dataclass
class Outcome:
    """What a run gave: for each step and rank the spans of its actions, the losses of each step, the check."""

    steps: list[list[list[Span]]] = field(default_factory=list)
    losses: list[list[float]] = field(default_factory=list)
    check: Check | None = None
