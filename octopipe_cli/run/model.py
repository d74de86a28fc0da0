"""The workload of ``--model``: the real layers of a Hugging Face config, at random weights."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, Final

from octopipe_cli.errors import InputError
from octopipe_cli.formats import Document
from octopipe_cli.plan import Action, Plan
from octopipe_cli.profile import expand
from octopipe_cli.profiling.architecture import Architecture
from octopipe_cli.profiling.configs.families import Config, architecture_of
from octopipe_cli.run.workload import Gradients

#: By number format, the largest relative difference of gradients that rounding explains.
TOLERANCES: Final = {"fp64": 1e-9, "fp32": 1e-3, "bf16": 0.1, "fp16": 0.05}


def check_layers(plan: Plan, config: Config) -> Architecture:
    """Return the architecture of a config whose layers are the plan's.

    Raises
    ------
    InputError
        Where it has other layers, MTP depths, or weights that layers of different stages share.
    """
    architecture = architecture_of(config)
    roles = [plan.kinds.get(kind, "decoder") for stage in plan.stages for kind in expand(stage.kinds)]
    expected = [layer.role for layer in architecture.layers]
    if "mtp" in expected:
        raise InputError(
            "transformers has no multi-token prediction: MTP depths cannot be run",
            file=config.file,
            remedy="plan for the config with num_nextn_predict_layers 0",
        )
    if roles != expected:
        raise InputError(
            "the plan is not for this model",
            file=config.file,
            found=f"{len(expected)} layers: {_counted(expected)}",
            expected=f"{len(roles)} layers, as in the plan: {_counted(roles)}",
        )
    stage_of = [number for number, stage in enumerate(plan.stages) for _ in range(*stage.layers)]
    for group in architecture.tied:
        decoders = [index for index in group if architecture.layers[index].role == "decoder"]
        if len({stage_of[index] for index in decoders}) > 1:
            raise InputError(
                f"layers {', '.join(map(str, decoders[:6]))} share weights and are in different stages, which the "
                "runtime cannot train",
                file=config.file,
            )
    return architecture


def _counted(roles: Sequence[str]) -> str:
    return ", ".join(f"{roles.count(role)} {role}" for role in dict.fromkeys(roles))


class ModelWorkload:
    """The layers of a model, cut as the plan has it."""

    def __init__(
        self, plan: Plan, document: Document, architecture: Architecture, *, dtype: str, batch: int, length: int
    ) -> None:
        self.plan = plan
        self.document = copy.deepcopy(document)
        self.architecture = architecture
        self.dtype, self.batch_size, self.length = dtype, batch, length
        self.unties = self._apart()
        if self.unties:
            self.document["tie_word_embeddings"] = False
        self.device = "cpu"
        self.layers: Any = None
        self.ids: Any = None
        self.microbatch = 0

    def _apart(self) -> bool:
        """Return whether embedding and head share weights and are in different stages."""
        last = len(self.architecture.layers) - 1
        return len(self.plan.stages) > 1 and any(0 in group and last in group for group in self.architecture.tied)

    def start(self, device: str, restart: Callable[[], None]) -> None:
        """Build what all layers need, and draw the tokens."""
        import torch

        from octopipe_cli.profiling.measure_model import Layers

        self.device = device
        torch.manual_seed(0)
        self.layers = Layers(
            self.document,
            self.architecture,
            device=device,
            dtype=self.dtype,
            batch=self.batch_size,
            length=self.length,
            fused=False,
        )
        torch.manual_seed(1)
        rows = self.plan.request.num_microbatches * self.batch_size
        self.ids = torch.randint(0, self.architecture.vocabulary, (rows, self.length)).to(device)

    def module(self, stage: int) -> Any:
        """Return the layers of a stage, run one after another."""
        return self._module(range(*self.plan.stages[stage].layers))

    def _module(self, indices: range) -> Any:
        import torch

        pieces = [(index, self.layers.piece(index, seed=index)) for index in indices]
        module = torch.nn.Module()
        for index, piece in pieces:
            module.add_module(f"layer{index}", piece.module)

        def forward(hidden: Any) -> Any:
            for _, piece in pieces:
                hidden = piece.run(hidden, self._labels()) if piece.role == "head" else piece.run(hidden)
            return hidden.clone() if hidden._is_view() else hidden  # the runtime detaches in place

        module.forward = forward
        return module

    def _labels(self) -> Any:
        """Return the tokens of the micro-batch at hand; the head shifts them itself."""
        first = self.microbatch * self.batch_size
        return self.ids[first : first + self.batch_size]

    def examples(self, stage: int) -> tuple[Any, Any]:
        """Return tokens or hidden states, and hidden states or a loss."""
        import torch

        hidden = torch.empty_like(self.layers.hidden())
        given = self.ids[: self.batch_size] if stage == 0 else hidden.requires_grad_()
        last = stage == len(self.plan.stages) - 1
        return given, (torch.zeros((), device=self.device) if last else torch.empty_like(hidden)).requires_grad_()

    def batch(self) -> Any:
        """Return the tokens of all micro-batches."""
        return self.ids

    def before(self, action: Action) -> None:
        """Note the micro-batch: the head has its labels here."""
        self.microbatch = action.microbatch

    def after(self, action: Action) -> None:
        """Do nothing."""

    def loss(self, output: Any, target: Any) -> Any:
        """Return the last stage's output, which is the loss."""
        return output

    def gradients(self, stage: int, module: Any) -> Gradients:
        """Return the gradients of a stage's weights."""
        return {name: weight.grad for name, weight in module.named_parameters() if weight.grad is not None}

    def reference(self) -> tuple[float, Gradients]:
        """Return mean loss and gradients of all layers in this process, micro-batch by micro-batch."""
        count = self.plan.request.num_microbatches
        self.start(self.device, lambda: None)
        module = self._module(range(len(self.architecture.layers)))
        total = 0.0
        for microbatch in range(count):
            self.microbatch = microbatch
            loss = module(self._labels())
            (loss / count).backward()
            total += float(loss)
        return total / count, self.gradients(0, module)
