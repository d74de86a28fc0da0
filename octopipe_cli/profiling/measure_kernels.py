"""Norms and gated activations of a transformers model that keep what training kernels keep.

Written as plain tensor operations they keep intermediates that no training engine does: an RMS norm its input in fp32
and its normalised copy, a gated activation silu(gate) beside gate, up and their product. Fused kernels (PyTorch's
rms_norm on CUDA, Transformer Engine, Liger) keep the input and a statistic a row, and compute the rest again.
"""

from __future__ import annotations

import functools
from typing import Any


def fuse(module: Any) -> list[str]:
    """Return the names of the submodules of a module whose forward is now a fused one, with the same results."""
    changed = []
    for name, part in module.named_modules():
        if _fuse_norm(part) or _fuse_mlp(part) or _fuse_experts(part):
            changed.append(name)
    return changed


def _fuse_norm(part: Any) -> bool:
    """Swap an RMS norm of one input, plain (weight) or zero-centred (1 + weight): whichever gives what it gave."""
    import torch

    weight, epsilon = getattr(part, "weight", None), getattr(part, "variance_epsilon", getattr(part, "eps", None))
    named = type(part).__name__.endswith("RMSNorm") and not isinstance(part, torch.nn.RMSNorm)
    if not named or epsilon is None or weight is None or weight.dim() != 1:
        return False
    generator = torch.Generator(weight.device).manual_seed(0)
    probe = torch.randn(4, weight.shape[0], device=weight.device, generator=generator).to(weight.dtype)
    with torch.no_grad():
        weight.uniform_(0.5, 1.5, generator=generator)  # all ones (or zeros) would not tell the two apart
        wanted = part(probe)
        for shift in (0.0, 1.0):
            fused = functools.partial(_norm, part, float(epsilon), shift)
            if torch.allclose(fused(probe).float(), wanted.float(), rtol=2e-2, atol=1e-2):
                part.forward = fused
                return True
    return False


def _norm(part: Any, epsilon: float, shift: float, hidden_states: Any) -> Any:
    import torch

    weight = part.weight if shift == 0.0 else part.weight + shift
    if hidden_states.is_cuda:
        return torch.nn.functional.rms_norm(hidden_states, (weight.shape[0],), weight, epsilon)
    return _functions()["norm"].apply(hidden_states, weight, epsilon)


def _fuse_mlp(part: Any) -> bool:
    """Swap the forward of a gated feed-forward block: down(act(gate(x)) * up(x))."""
    import torch

    parts: list[Any] = [getattr(part, name, None) for name in ("gate_proj", "up_proj", "down_proj")]
    activation = getattr(part, "act_fn", None)
    if activation is None or not all(isinstance(each, torch.nn.Linear) for each in parts):
        return False
    gate, up, down = parts

    def fused(hidden_states: Any) -> Any:
        return down(_gated(gate(hidden_states), up(hidden_states), activation))

    weight = gate.weight
    probe = torch.randn(4, weight.shape[1], device=weight.device, dtype=weight.dtype)
    with torch.no_grad():
        if not torch.allclose(fused(probe), part(probe), rtol=2e-2, atol=1e-3):
            return False
    part.forward = fused
    return True


def _fuse_experts(part: Any) -> bool:
    """Swap the gate of experts that are held as stacked matrices, where it is the usual one (no clamp, no bias)."""
    import torch

    apply_gate, activation = getattr(part, "_apply_gate", None), getattr(part, "act_fn", None)
    if (
        apply_gate is None
        or activation is None
        or not isinstance(getattr(part, "gate_up_proj", None), torch.nn.Parameter)
    ):
        return False

    def fused(both: Any) -> Any:
        gate, up = both.chunk(2, dim=-1)
        return _gated(gate, up, activation)

    probe = torch.randn(4, 8, device=part.gate_up_proj.device, dtype=part.gate_up_proj.dtype)
    with torch.no_grad():
        if not torch.allclose(fused(probe), apply_gate(probe), rtol=2e-2, atol=1e-3):
            return False
    part._apply_gate = fused
    return True


def _gated(gate: Any, up: Any, activation: Any) -> Any:
    return _functions()["gated"].apply(gate, up, activation)


@functools.cache
def _functions() -> dict[str, Any]:
    """Return the autograd functions; made at the first use, as torch is only imported then."""
    import torch

    def gated_forward(context: Any, gate: Any, up: Any, activation: Any) -> Any:
        context.save_for_backward(gate, up)
        context.activation = activation
        return activation(gate) * up

    def gated_backward(context: Any, gradient: Any) -> tuple[Any, Any, None]:
        gate, up = (saved.detach().requires_grad_() for saved in context.saved_tensors)
        with torch.enable_grad():
            out = context.activation(gate) * up
        return (*torch.autograd.grad(out, (gate, up), gradient), None)

    def norm_forward(context: Any, hidden: Any, weight: Any, epsilon: float) -> Any:
        wide = hidden.float()
        scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + epsilon)
        context.save_for_backward(hidden, weight, scale)
        return (wide * scale * weight.float()).to(hidden.dtype)

    def norm_backward(context: Any, gradient: Any) -> tuple[Any, Any, None]:
        hidden, weight, scale = context.saved_tensors
        normed, wide = hidden.float() * scale, gradient.float()
        weighted = wide * weight.float()
        inner = scale * (weighted - normed * (weighted * normed).mean(-1, keepdim=True))
        own = (wide * normed).flatten(0, -2).sum(0)
        return inner.to(hidden.dtype), own.to(weight.dtype), None

    def make(name: str, forward: Any, backward: Any) -> Any:
        members = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
        return type(name, (torch.autograd.Function,), members)

    return {"gated": make("Gated", gated_forward, gated_backward), "norm": make("Norm", norm_forward, norm_backward)}
