"""What autograd keeps of a layer between its actions, and what they need while they run."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from octopipe_cli.profiling.measure_model import Piece
from octopipe_cli.profiling.measure_run import Run, untimed, whole_backward

T = TypeVar("T")


class _Saved:
    """A tensor that autograd keeps: as long as this lives, so does the tensor."""

    __slots__ = ("__weakref__", "tensor")

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor


def kept_bytes(piece: Piece, split: bool) -> tuple[int, int, int]:
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
        run = Run(piece, untimed)
        output = run.output.untyped_storage().nbytes()
        forward = _bytes(alive(), known)
        if not split:
            gradient = [] if run.gradients is None else run.gradients
            return forward, _bytes([*alive(), *gradient], known), output
        weights = piece.parameters
        behind = None
        if piece.role != "head":
            weights.append(torch.zeros(1, device=run.output.device, dtype=run.output.dtype, requires_grad=True))
            behind = torch.autograd.graph.get_gradient_edge(weights[-1]).node
            run.output = run.output + weights[-1]
        outputs, gradients, inputs = [run.output], run.gradients, [run.input]
        _, groups = stage_backward_input(outputs, gradients, inputs, iter(weights))
        del run, outputs, gradients, inputs
        own = [group for group in groups if group["params"] != {behind}]  # that one's gradient is the next layer's
        branches = [grad for group in own for grads in group.get("grads") or () for grad in grads or ()]
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


def workspace_bytes(piece: Piece, device: str, kept: int, split: bool) -> int:
    """Return the most that F, I or B allocate beyond what is kept."""
    from torch.distributed.pipelining._backward import stage_backward_input

    def start() -> Any:
        return piece.make_input()

    def forward() -> Run:
        return Run(piece, untimed)

    def inputs(run: Run) -> Any:
        return stage_backward_input([run.output], run.gradients, [run.input], iter(piece.parameters))

    peaks = [_peak(device, start, piece.run) - kept, _peak(device, forward, whole_backward)]
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
