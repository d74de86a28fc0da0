"""Small layers for plans to run: each a residual step with a weight of its own, or two where it stands for more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from octopipe_cli.plan import Action, Plan
from octopipe_cli.run.workload import Gradients

WIDTH = 5
ROWS = 2


class SmallWorkload:
    """A layer h + tanh(h A) for every layer of a plan, in float64; the loss compares with a target of its own."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.count = plan.request.num_microbatches
        self.microbatch = 0

    def start(self, device: str, restart: Callable[[], None]) -> None:
        import torch

        torch.manual_seed(7)
        shape = (self.count * ROWS, WIDTH)
        self.inputs, self.targets = torch.randn(shape, dtype=torch.float64), torch.randn(shape, dtype=torch.float64)

    def module(self, stage: int) -> Any:
        return self._module(range(*self.plan.stages[stage].layers), stage == len(self.plan.stages) - 1)

    def _module(self, layers: range, last: bool) -> Any:
        import torch

        module = torch.nn.Module()
        for layer in layers:
            torch.manual_seed(100 + layer)
            module.add_module(f"layer{layer}", torch.nn.Linear(WIDTH, WIDTH, dtype=torch.float64))

        def forward(hidden: Any) -> Any:
            for layer in layers:
                hidden = hidden + torch.tanh(module.get_submodule(f"layer{layer}")(hidden))
            if not last:
                return hidden
            first = self.microbatch * ROWS
            return ((hidden - self.targets[first : first + ROWS]) ** 2).mean()

        module.forward = forward
        return module

    def examples(self, stage: int) -> tuple[Any, Any]:
        import torch

        hidden = torch.zeros(ROWS, WIDTH, dtype=torch.float64)
        loss = torch.zeros((), dtype=torch.float64)
        made = loss if stage == len(self.plan.stages) - 1 else hidden.clone()
        return hidden.requires_grad_(stage > 0), made.requires_grad_()

    def batch(self) -> Any:
        return self.inputs

    def before(self, action: Action) -> None:
        self.microbatch = action.microbatch

    def after(self, action: Action) -> None:
        pass

    def loss(self, output: Any, target: Any) -> Any:
        return output

    def gradients(self, stage: int, module: Any) -> Gradients:
        return {name: weight.grad for name, weight in module.named_parameters()}

    def reference(self) -> tuple[float, Gradients]:
        module = self._module(range(self.plan.stages[-1].layers[1]), last=True)
        total = 0.0
        for microbatch in range(self.count):
            self.microbatch = microbatch
            first = microbatch * ROWS
            loss = module(self.inputs[first : first + ROWS])
            (loss / self.count).backward()
            total += float(loss)
        return total / self.count, self.gradients(0, module)
