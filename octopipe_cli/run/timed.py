"""The workload of ``--timed``: stages that take the plan's times, stretched by a factor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from octopipe_cli.plan import Action, Plan
from octopipe_cli.run.workload import Gradients
from octopipe_cli.simulate import Timeline


def stretched(plan: Plan, factor: float) -> Plan:
    """Return the plan with all its times stretched: actions, transfers, optimizer steps."""

    def longer(time_ns: int) -> int:
        return round(time_ns * factor)

    stages = [
        msgspec.structs.replace(
            stage,
            action_ns={kind: longer(time_ns) for kind, time_ns in stage.action_ns.items()},
            transfer_ns=msgspec.structs.replace(
                stage.transfer_ns,
                forward=longer(stage.transfer_ns.forward),
                backward=longer(stage.transfer_ns.backward),
            ),
        )
        for stage in plan.stages
    ]
    ranks = [msgspec.structs.replace(rank, step_ns=longer(rank.step_ns)) for rank in plan.ranks]
    return msgspec.structs.replace(plan, stages=stages, ranks=ranks)


class TimedWorkload:
    """Stages that take the times of a timeline's pipeline and compute nothing."""

    def __init__(self, timeline: Timeline) -> None:
        self.pipeline = timeline.pipeline
        self.parts: dict[int, Any] = {}
        self.device: Any = None
        self.device_name = "cpu"

    def start(self, device: str, restart: Callable[[], None]) -> None:
        """Get ready to take time on a device."""
        from octopipe_cli.run.timed_layers import Device, Gpu

        self.device_name = device
        self.device = Device(restart) if device == "cpu" else Gpu(restart)

    def module(self, stage: int) -> Any:
        """Return a stage's layers."""
        from octopipe_cli.run.timed_layers import Part, TimedStage

        forward = self.pipeline.stages[stage - 1].forward_transfer_ns if stage else 0
        last = stage == self.pipeline.num_stages - 1
        backward = 0 if last else self.pipeline.stages[stage + 1].backward_transfer_ns
        part = Part((self._size(stage), self._size(stage + 1)), (forward, backward), self.device)
        self.parts[stage] = part
        return TimedStage(part, stage == 0).to(self.device_name)

    def _size(self, boundary: int) -> int:
        """Return the numbers in the tensor before a stage: as large as planned where links are real."""
        from octopipe_cli.run.timed_layers import LEAST_SIZE

        inner = 0 < boundary < self.pipeline.num_stages
        planned = self.pipeline.stages[boundary].bytes.input // 8 if inner and self.device_name != "cpu" else 0
        return max(LEAST_SIZE, planned)

    def examples(self, stage: int) -> tuple[Any, Any]:
        """Return empty boundary tensors."""
        import torch

        given, made = (
            torch.zeros(1, self._size(boundary), dtype=torch.float64, device=self.device_name)
            for boundary in (stage, stage + 1)
        )
        return given.requires_grad_(stage > 0), made.requires_grad_()

    def batch(self) -> Any:
        """Return an input of zeros, a row a micro-batch."""
        import torch

        return torch.zeros(self.pipeline.num_microbatches, self._size(0), dtype=torch.float64, device=self.device_name)

    def before(self, action: Action) -> None:
        """Set how long the stage is to take."""
        part, times = self.parts[action.stage], self.pipeline.stages[action.stage].action_ns
        part.busy_ns = times[action.kind] if action.kind != "W" else 0
        part.weight_ns = times["W"] if action.kind == "W" else 0  # of B all is taken at once

    def after(self, action: Action) -> None:
        """Hold the rank while its transfer lasts, where transfers block."""
        if self.pipeline.p2p == "blocking" and self.device_name == "cpu":
            stage = self.pipeline.stages[action.stage]
            lags = {"F": stage.forward_transfer_ns, "I": stage.backward_transfer_ns, "B": stage.backward_transfer_ns}
            self.device.take(lags.get(action.kind, 0))

    def loss(self, output: Any, target: Any) -> Any:
        """Return the sum of the output."""
        return output.sum()

    def gradients(self, stage: int, module: Any) -> Gradients:
        """Return nothing: there are no weights to speak of."""
        return {}

    def reference(self) -> tuple[float, Gradients]:
        """Return nothing to compare with."""
        return 0.0, {}
