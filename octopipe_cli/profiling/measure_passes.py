"""F, I, W and B of one layer: how long they take, what stays in memory between them, what they need while they run.

I and W are PyTorch's own split, the one its pipelining runtime runs (torch.distributed.pipelining's
stage_backward_input and stage_backward_weight): I keeps the whole graph and the gradients where weights branch off. A
layer that cannot be split so cannot be split by the runtime either; its I is then autograd.grad for the inputs alone.
"""

from __future__ import annotations

import statistics
import time
import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from octopipe_cli.profiling.measure_model import Piece

T = TypeVar("T")
Passes = dict[str, list[float]]
WARMUP = 3
#: How near, relative, the norms of gradients are that differ by the order of sums alone.
SAME = 0.02


@dataclass(frozen=True)
class Measured:
    """What was measured of one layer.

    Parameters
    ----------
    milliseconds
        For F, I, W and B every repeat's time; I and W are missing where the layer takes no gradient of its input.
    splittable
        Whether PyTorch's split of the backward works; `why` says why not.
    activation_bytes, weight_activation_bytes
        What autograd keeps from F to I, and from I to W (gradients where weights branch off included), without
        weights and what all layers share.
    workspace_bytes
        The most that F, I or B need beyond that.
    parameters
        Weights of the module that was run, as a checkpoint holds them: buffers that no gradient trains with them.
    """

    milliseconds: Passes
    splittable: bool
    why: str
    activation_bytes: int
    weight_activation_bytes: int
    output_bytes: int
    workspace_bytes: int
    parameters: int

    def median(self, name: str) -> float:
        """Return the median time of a pass."""
        return statistics.median(self.milliseconds[name])

    @property
    def spread(self) -> float:
        """The widest pass's interquartile range, relative to its median."""
        return max(spread_of(values) for values in self.milliseconds.values())


def spread_of(values: list[float]) -> float:
    """Return the interquartile range relative to the median; 0 where there are too few values to tell."""
    if len(values) < 4:
        return 0.0
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return (high - low) / middle if middle > 0 else 0.0


def measure_piece(piece: Piece, device: str, repeats: int) -> Measured:
    """Return what one layer costs on a device."""
    import torch

    for weight in piece.parameters:  # a step adds to gradients that are there
        weight.grad = torch.zeros_like(weight)
    why = _why_not_split(piece)
    takes_gradient = piece.make_input().requires_grad
    passes: dict[str, Callable[[Any], None]] = {"B": _whole}
    if takes_gradient:
        passes["split"] = _split if why == "" else _apart
    timer = _Timer(device)
    for turn in range(WARMUP + repeats):
        if turn == WARMUP:
            timer.start()
        for run in passes.values():
            run(_Run(piece, timer))
    milliseconds = timer.milliseconds()
    after_forward, after_input, output = _kept(piece, split=takes_gradient and why == "")
    return Measured(
        milliseconds,
        why == "",
        why,
        after_forward,
        after_input,
        0 if piece.role == "head" else output,
        _workspace(piece, device, after_forward, takes_gradient and why == ""),
        sum(tensor.numel() for tensor in piece.module.state_dict().values()),
    )


class _Timer:
    """Times on the device: CUDA events on a GPU, which do not stop its queue, the clock on a CPU."""

    def __init__(self, device: str) -> None:
        self.cuda = device.startswith("cuda")
        self.found: dict[str, list[Any]] = {}
        self.running = False

    def start(self) -> None:
        """Forget the warm-up."""
        self.running = True

    def __call__(self, name: str, work: Callable[[], T]) -> T:
        """Return what the work returns."""
        begin = self._now()
        result = work()
        if self.running:
            self.found.setdefault(name, []).append((begin, self._now()))
        return result

    def _now(self) -> Any:
        if not self.cuda:
            return time.perf_counter_ns()
        import torch

        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def milliseconds(self) -> Passes:
        """Return every time taken."""
        if not self.cuda:
            return {name: [(end - begin) / 1e6 for begin, end in pairs] for name, pairs in self.found.items()}
        import torch

        torch.cuda.synchronize()
        return {name: [begin.elapsed_time(end) for begin, end in pairs] for name, pairs in self.found.items()}


@dataclass
class _Run:
    """One micro-batch through a layer."""

    piece: Piece
    timer: Callable[[str, Callable[[], Any]], Any]
    input: Any = field(init=False)
    output: Any = field(init=False)
    gradients: Any = field(init=False)

    def __post_init__(self) -> None:
        import torch

        self.input = self.piece.make_input()
        self.output = self.timer("F", lambda: self.piece.run(self.input))
        self.gradients = None if self.piece.role == "head" else [torch.randn_like(self.output)]


def _whole(run: _Run) -> None:
    """Run B in one piece."""
    import torch

    run.timer("B", lambda: torch.autograd.backward([run.output], run.gradients))


def _split(run: _Run) -> None:
    """Run I and W as PyTorch's pipelining runtime does."""
    from torch.distributed.pipelining._backward import stage_backward_input, stage_backward_weight

    weights = run.piece.parameters
    outputs = [run.output]
    _, groups = run.timer("I", lambda: stage_backward_input(outputs, run.gradients, [run.input], iter(weights)))
    run.timer("W", lambda: stage_backward_weight(iter(weights), groups))


def _apart(run: _Run) -> None:
    """Run the gradient of the input alone, then those of the weights."""
    import torch

    outputs, weights = [run.output], run.piece.parameters
    run.timer("I", lambda: torch.autograd.grad(outputs, [run.input], run.gradients, retain_graph=True))
    run.timer("W", lambda: torch.autograd.grad(outputs, weights, run.gradients, allow_unused=True))


def _untimed(_: str, work: Callable[[], T]) -> T:
    return work()


def _why_not_split(piece: Piece) -> str:
    """Return why PyTorch cannot split this layer's backward; nothing where it can, or there is nothing to split."""
    if not piece.make_input().requires_grad:
        return ""
    whole = _gradient_sizes(piece, _whole)
    try:
        split = _gradient_sizes(piece, _split)
    except (RuntimeError, AssertionError) as error:
        cause = error.__cause__ or error
        return (str(cause).strip() or type(cause).__name__).splitlines()[0]
    same = all(abs(one - other) <= SAME * max(one, other) for one, other in zip(whole, split, strict=True))
    return "" if same else "it gives other gradients"


def _gradient_sizes(piece: Piece, backward: Callable[[_Run], None]) -> list[float]:
    """Return the norms of the weights' gradients that a backward gives; the gradients are zero after it."""
    import torch

    torch.manual_seed(0)
    backward(_Run(piece, _untimed))
    sizes = []
    for weight in piece.parameters:
        sizes.append(float(torch.linalg.vector_norm(weight.grad, dtype=torch.float32)))
        weight.grad.zero_()
    return sizes


class _Saved:
    """A tensor that autograd keeps: as long as this lives, so does the tensor."""

    __slots__ = ("__weakref__", "tensor")

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor


def _kept(piece: Piece, split: bool) -> tuple[int, int, int]:
    """Return the bytes kept after F and after I, and those of the output.

    A layer is measured with another one's weight behind it, as it stands inside a stage: of the graph, I leaves what
    comes before any weight. Behind the head nothing comes, so its loss is free after I.
    """
    import torch
    from torch.distributed.pipelining._backward import stage_backward_input

    saved: list[weakref.ref[_Saved]] = []

    def pack(tensor: Any) -> _Saved:
        box = _Saved(tensor.detach())
        saved.append(weakref.ref(box))
        return box

    def alive() -> list[Any]:
        return [box.tensor for box in (each() for each in saved) if box is not None]

    known = _storages([*piece.module.parameters(), *piece.module.buffers(), *piece.shared])
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda box: box.tensor):
        run = _Run(piece, _untimed)
        output = run.output.untyped_storage().nbytes()
        forward = _bytes(alive(), known)
        if not split:
            gradient = [] if run.gradients is None else run.gradients
            return forward, _bytes([*alive(), *gradient], known), output
        weights = piece.parameters
        if piece.role != "head":
            weights.append(torch.zeros(1, device=run.output.device, dtype=run.output.dtype, requires_grad=True))
            run.output = run.output + weights[-1]
        outputs, gradients, inputs = [run.output], run.gradients, [run.input]
        _, groups = stage_backward_input(outputs, gradients, inputs, iter(weights))
        del run, outputs, gradients, inputs
        branches = [grad for group in groups for grads in group.get("grads") or () for grad in grads or ()]
        return forward, _bytes([*alive(), *(grad for grad in branches if grad is not None)], known), output


def _storages(tensors: Iterable[Any]) -> set[int]:
    return {tensor.untyped_storage().data_ptr() for tensor in tensors}


def _bytes(tensors: Iterable[Any], known: set[int]) -> int:
    """Return the bytes of the storages behind tensors, each once, without the known ones."""
    sizes = {}
    for tensor in tensors:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in known:
            sizes[storage.data_ptr()] = storage.nbytes()
    return sum(sizes.values())


def _workspace(piece: Piece, device: str, kept: int, split: bool) -> int:
    """Return the most that F, I or B allocate beyond what is kept."""
    from torch.distributed.pipelining._backward import stage_backward_input

    def start() -> Any:
        return piece.make_input()

    def forward() -> _Run:
        return _Run(piece, _untimed)

    def inputs(run: _Run) -> Any:
        return stage_backward_input([run.output], run.gradients, [run.input], iter(piece.parameters))

    peaks = [_peak(device, start, piece.run) - kept, _peak(device, forward, _whole)]
    if split:
        peaks.append(_peak(device, forward, inputs))
    return max(0, *peaks)


def _peak(device: str, before: Callable[[], T], work: Callable[[T], Any]) -> int:
    """Return the most memory that some work on what `before` gives has at a time, beyond what there was then."""
    import torch

    if not device.startswith("cuda"):
        return _peak_on_cpu(before, work)
    given = before()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    level = torch.cuda.memory_allocated()
    kept = work(given)
    torch.cuda.synchronize()
    del kept
    return int(torch.cuda.max_memory_allocated() - level)


def _peak_on_cpu(before: Callable[[], T], work: Callable[[T], Any]) -> int:
    """Return the same from the CPU allocator's reports, which the profiler collects."""
    from torch.profiler import ProfilerActivity, profile, record_function

    mark = "octopipe: work"
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        given = before()  # inside: the profiler does not see that memory is given back which it did not see taken
        with record_function(mark):
            kept = work(given)
    del kept
    events = sorted(profiled.profiler.kineto_results.events(), key=lambda event: event.start_ns())
    begin = next(event.start_ns() for event in events if event.name() == mark)
    changes = [(event.start_ns() >= begin, event.nbytes()) for event in events if event.name() == "[memory]"]
    level = highest = 0
    for during, change in changes:
        if during:
            level += change
            highest = max(highest, level)
    return highest
