"""Profiles from an architecture and a hardware file: every operation's roofline, bytes kept, steps of the optimizer."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from octopipe_cli import __version__
from octopipe_cli.errors import InputError
from octopipe_cli.formats import VERSION, Document, show
from octopipe_cli.profile import SCHEMA, compress, profile_from_document
from octopipe_cli.profiling import memory
from octopipe_cli.profiling.architecture import Architecture, Backward, Layer, walk
from octopipe_cli.profiling.blocks import Attention, Block, Embedding, GatedDeltaNet, Moe, Parallel, Shared
from octopipe_cli.profiling.hardware import Hardware
from octopipe_cli.profiling.lowering import lower
from octopipe_cli.profiling.operations import Exchange, Operation, Step, flops_of
from octopipe_cli.profiling.roofline import exchange_seconds, pass_time
from octopipe_cli.profiling.setting import ELEMENT, Setting
from octopipe_cli.profiling.stepping import step_seconds

PASSES: Final = ("forward", "input", "weight")
#: What the provenance says of a kind's backward where it is not whole.
LEFT: Final[dict[Backward, str]] = {
    "input": "frozen: W takes no time",
    "weight": "nothing before it is trained: I takes no time, and W what leads to its own weights",
    "none": "frozen, and nothing before it is trained: I and W take no time",
}
#: How profiles call a pass.
NAMES: Final = {"forward": "forward_ms", "input": "backward_input_ms", "weight": "backward_weight_ms"}


def estimate(architecture: Architecture, hardware: Hardware, setting: Setting, provenance: Document) -> Document:
    """Return the profile document of a model on a hardware.

    Parameters
    ----------
    architecture, hardware, setting
        The model, the device, how it is trained.
    provenance
        What the profile says of its origin, first.

    Raises
    ------
    InputError
        Where the model cannot be cut as the setting says, or the hardware has no such number format.
    """
    if setting.dtype not in hardware.peak_tflops:
        raise InputError(
            f"{hardware.name} has no peak rate for {setting.dtype}", expected=" or ".join(hardware.peak_tflops)
        )
    check_cut(architecture, setting)
    setting = replace(setting, rotary=setting.rotary and not _learned_positions(architecture))
    costs = {name: _Cost(layer, hardware, setting, architecture) for name, layer in architecture.kinds.items()}
    tied = [list(group) for group in architecture.tied]
    document: Document = {
        "schema": SCHEMA,
        "version": VERSION,
        "name": architecture.name,
        "provenance": {**provenance, "kinds": {name: cost.provenance() for name, cost in costs.items()}},
        "training": {
            "sequence_length": setting.sequence_length,
            "micro_batch_size": setting.micro_batch_size,
            "dtype": setting.dtype,
            "tensor_parallel": setting.tensor_parallel,
            "context_parallel": setting.context_parallel,
            "expert_parallel": setting.expert_parallel,
            "data_parallel": setting.data_parallel,
        },
        "kinds": {name: cost.kind() for name, cost in costs.items()},
        "layers": compress(tuple(layer.kind for layer in architecture.layers)),
        **({"rules": {"tied": tied}} if tied else {}),
    }
    profile_from_document(document, architecture.name)
    return document


def check_cut(architecture: Architecture, setting: Setting) -> None:
    """Raise InputError where heads or experts cannot be shared evenly by the devices.

    Fewer heads of keys and values than devices are copied (Megatron-LM's rule): then they must divide the devices.
    """
    blocks = [block for layer in architecture.kinds.values() for block in walk(layer.blocks)]
    if setting.expert_parallel > 1 and not any(isinstance(block, Moe) for block in blocks):
        raise InputError(
            f"{show(architecture.name)} has no experts to spread",
            found=f"expert parallel {setting.expert_parallel}",
            remedy="leave --expert-parallel out; --data-parallel counts replicas",
        )
    for kind, layer in architecture.kinds.items():
        for block in walk(layer.blocks):
            for what, count, degree, name in _cuts(block, setting):
                if count % degree and not (what == "heads of keys and values" and degree % count == 0):
                    raise InputError(
                        f"the {what} of layer kind {show(kind)} cannot be cut evenly",
                        found=f"{count} {what}, {name} parallel {degree}",
                        expected=f"a degree of {name} parallelism that divides {count}",
                    )


def _cuts(block: Block, setting: Setting) -> list[tuple[str, int, int, str]]:
    """Return what of a block the devices share: what it is, how many there are, the degree, its name."""
    degree = setting.tensor_parallel
    if isinstance(block, Moe):
        return [("experts", block.experts, setting.expert_parallel, "expert")]
    if isinstance(block, GatedDeltaNet):
        return [("key heads", block.key_heads, degree, "tensor"), ("value heads", block.value_heads, degree, "tensor")]
    parts = [("heads", getattr(block, "heads", 0), degree, "tensor")]
    if isinstance(block, Attention):
        parts.append(("heads of keys and values", block.kv_heads, degree, "tensor"))
    return parts


def _learned_positions(architecture: Architecture) -> bool:
    blocks = (block for layer in architecture.kinds.values() for block in walk(layer.blocks))
    return any(isinstance(block, Embedding) and block.positions for block in blocks)


def setting_provenance(hardware: Hardware, setting: Setting) -> Document:
    """Return what a profile's provenance says of hardware and setting beyond its `training`."""
    return {
        "hardware": hardware.name,
        "peak_tflops": {hardware.name: peak.value} if (peak := hardware.peak_tflops.get(setting.dtype)) else {},
        "sequence_parallel": setting.sequence_parallel and setting.tensor_parallel > 1,
        "zero": setting.zero,
        "grad_dtype": setting.grad_dtype,
        "optimizer": setting.optimizer,
        "flash_attention": setting.flash_attention,
        "tool": f"octopipe {__version__}",
    }


class _Cost:
    """What one kind of layer costs on one device."""

    def __init__(self, layer: Layer, hardware: Hardware, setting: Setting, architecture: Architecture) -> None:
        hidden = architecture.hidden
        if layer.images is not None:
            setting, hidden = setting.of_images(layer.images.positions), layer.images.width
        self.layer, self.hardware, self.setting, self.hidden = layer, hardware, setting, hidden
        self.operations = lower(layer, setting, hidden)
        self.weights = memory.weights_of(layer, setting)
        self.trained = layer.backward in ("full", "weight")
        gathered = _gathered(self.weights, setting)
        self.steps = {name: steps_of(self.operations, name) + gathered[name] for name in PASSES}
        _leave_out(self.steps, self.operations, layer.backward)
        self.times = {name: pass_time(steps, hardware, setting.dtype) for name, steps in self.steps.items()}
        self.step_seconds = step_seconds(self.weights, setting, hardware, hidden) if self.trained else 0.0
        self.step_seconds += _tied_seconds(layer, setting, hardware, architecture)

    def kind(self) -> Document:
        """Return the kind as profiles hold it."""
        layer, setting = self.layer, self.setting
        times = {NAMES[name]: _milliseconds(time.seconds) for name, time in self.times.items()}
        times["step_ms"] = _milliseconds(self.step_seconds)
        return {
            "parameters": layer.parameters,
            "state_bytes": memory.state_bytes(self.weights, setting, self.trained),
            "activation_bytes": 0 if layer.backward == "none" else memory.activation_bytes(self.operations),
            "weight_activation_bytes": memory.weight_activation_bytes(self.operations) if self.trained else 0,
            "output_bytes": memory.output_bytes(layer, setting, self.hidden),
            "workspace_bytes": memory.workspace_bytes(self.operations),
            **({"splittable": False} if _shares(layer.blocks) else {}),
            **({} if layer.role == "decoder" else {"role": layer.role}),
            **({} if layer.images is None else {"modality": "vision"}),
            **({"quadratic_share": share} if (share := self._quadratic_share()) else {}),
            "times": {self.hardware.name: times},
        }

    def _quadratic_share(self) -> float:
        """Return which share of the FLOPs grows with the square of a micro-batch's length.

        It is that of attention to all of a sequence, on every hardware. None for images: more of them are more
        sequences, not longer ones.
        """
        flops = [(sum(flops_of(getattr(part, name)) for name in PASSES), part.quadratic) for part in self.operations]
        grown = sum(count for count, quadratic in flops if quadratic)
        return round(grown / sum(count for count, _ in flops), 4) if grown and self.layer.images is None else 0.0

    def provenance(self) -> Document:
        """Return what a profile has no field for: active parameters, FLOPs on one device, what bounds each pass."""
        return {
            "active_parameters": self.layer.active_parameters,
            "flops": {name: flops_of(steps) for name, steps in self.steps.items()},
            "bound": {name: self.times[name].bound for name in PASSES if self.times[name].seconds},
            "least_weight_activation_bytes": (
                memory.least_weight_activation_bytes(self.operations) if self.trained else 0
            ),
            **({} if self.layer.backward == "full" else {"backward": LEFT[self.layer.backward]}),
        }


def _leave_out(steps: dict[str, list[Step]], operations: list[Operation], backward: Backward) -> None:
    """Leave out the passes that nothing needs.

    Without I, W takes over what leads to the weights behind the first operation: the gradients of the others' inputs.
    """
    if backward in ("input", "none"):
        steps["weight"] = []
    if backward == "weight":
        steps["weight"] = steps_of(operations[1:], "input") + steps["weight"]
    if backward in ("weight", "none"):
        steps["input"] = []


def steps_of(operations: list[Operation], name: str) -> list[Step]:
    """Return the steps of a layer's pass (`PASSES`), in the order they run."""
    steps: list[Step] = []
    for operation in operations if name == "forward" else reversed(operations):
        steps += getattr(operation, name)
    return steps


def _gathered(weights: list[memory.Weights], setting: Setting) -> dict[str, list[Step]]:
    """Return ZeRO 3's exchanges: weights gathered for F and I, gradients scattered after W, beside the work."""
    found: dict[str, list[Step]] = {name: [] for name in PASSES}
    if setting.zero < 3:
        return found
    for experts, count in ((False, sum(w.dense for w in weights)), (True, sum(w.expert for w in weights))):
        replicas = memory.replicas_of(setting, experts)
        if count and replicas > 1:
            stride = setting.tensor_parallel * (setting.expert_parallel if experts else 1)
            gather = Exchange("all_gather", ELEMENT * count, replicas, stride, hidden=True)
            found["forward"].append(gather)
            found["input"].append(gather)
            gradients = setting.gradient_element * count
            found["weight"].append(Exchange("reduce_scatter", gradients, replicas, stride, hidden=True))
    return found


def _tied_seconds(layer: Layer, setting: Setting, hardware: Hardware, architecture: Architecture) -> float:
    """Return how long a tied embedding's gradient takes to be summed with the head's, on another rank of the pipeline.

    Megatron-LM all-reduces it over the embedding group. Nothing where the head is not tied.
    """
    place = architecture.layers.index(layer)
    if layer.role != "embedding" or not any(place in group for group in architecture.tied):
        return 0.0
    count = sum(part.dense for part in memory.weights_of(layer, setting))
    apart = setting.tensor_parallel * setting.context_parallel * setting.data_parallel
    return exchange_seconds(Exchange("all_reduce", setting.gradient_element * count, 2, apart), hardware)


def _shares(blocks: tuple[Block, ...]) -> bool:
    """Return whether a layer shares weights: PyTorch cannot split the backward of a stage that uses them twice."""
    inner = [block.branches for block in blocks if isinstance(block, Parallel)]
    return any(isinstance(block, Shared) for block in blocks) or any(_shares(branches) for branches in inner)


def _milliseconds(seconds: float) -> float:
    return round(seconds * 1e3, 6)
