"""Start and end of every action on a rank, taken around the calls that the runtime makes into a stage."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from octopipe_cli.plan import Action, ActionKind
from octopipe_cli.run.job import Span
from octopipe_cli.run.workload import Workload


class Recorder:
    """Times the actions of a rank; the runtime's own waits for messages lie outside them.

    Parameters
    ----------
    workload
        Told of each action before and after.
    done
        Called after each action.
    """

    def __init__(self, workload: Workload, done: Callable[[], None], cuda: bool) -> None:
        self.workload = workload
        self.done = done
        self.clock = _DeviceClock() if cuda else _Clock()
        self.start: Any = None
        self.marks: list[tuple[Action, Any, Any]] = []

    def watch(self, stage: Any) -> None:
        """Time what a stage of the runtime does from now on."""
        forward, backward, weight = (
            stage.forward_one_chunk,
            stage.backward_one_chunk,
            stage.backward_weight_one_chunk,
        )
        number = stage.stage_index

        def forward_one_chunk(microbatch: int, *arguments: Any, **named: Any) -> Any:
            return self._timed(number, "F", microbatch, lambda: forward(microbatch, *arguments, **named))

        def backward_one_chunk(microbatch: int, loss: Any = None, full_backward: bool = True, **named: Any) -> Any:
            kind: ActionKind = "B" if full_backward else "I"
            return self._timed(
                number, kind, microbatch, lambda: backward(microbatch, loss, full_backward=full_backward, **named)
            )

        def backward_weight_one_chunk(microbatch: int, *arguments: Any, **named: Any) -> Any:
            return self._timed(number, "W", microbatch, lambda: weight(microbatch, *arguments, **named))

        stage.forward_one_chunk = forward_one_chunk
        stage.backward_one_chunk = backward_one_chunk
        stage.backward_weight_one_chunk = backward_weight_one_chunk

    def _timed(self, stage: int, kind: ActionKind, microbatch: int, work: Callable[[], Any]) -> Any:
        action = Action(stage, kind, microbatch)
        self.workload.before(action)
        self.restart()
        result = work()
        self.marks.append((action, self.start, self.clock.now()))
        self.workload.after(action)
        self.done()
        return result

    def restart(self) -> None:
        """Let the action that runs begin now: what it waited for has come."""
        self.start = self.clock.now()

    def begin(self) -> None:
        """Forget what was timed: a step begins."""
        self.marks.clear()
        self.clock.begin()

    def spans(self) -> list[Span]:
        """Return the actions of the step in the order in which they ran."""
        return [Span(action, self.clock.ns(start), self.clock.ns(end)) for action, start, end in self.marks]


class _Clock:
    """The clock that all processes of a machine share."""

    def begin(self) -> None:
        """Do nothing: it always runs."""

    def now(self) -> Any:
        """Return the time."""
        return time.monotonic_ns()

    def ns(self, mark: Any) -> int:
        """Return a time in ns."""
        return int(mark)


class _DeviceClock(_Clock):
    """Events on a GPU, which do not stop its queue; set against the processes' clock where a step begins."""

    def begin(self) -> None:
        """Take an event and the time together."""
        import torch

        torch.cuda.synchronize()
        self.origin = self.now()
        self.origin_ns = time.monotonic_ns()

    def now(self) -> Any:
        """Return an event at this place of the queue."""
        import torch

        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def ns(self, mark: Any) -> int:
        """Return when an event happened, in ns."""
        import torch

        torch.cuda.synchronize()
        return int(self.origin_ns + round(self.origin.elapsed_time(mark) * 1e6))
