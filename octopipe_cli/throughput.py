"""What a step time means in the trade's numbers: tokens per second, per device, and model FLOPs utilisation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from octopipe_cli.plan import Plan, PlanTraining
from octopipe_cli.profile import Profile, Training, model_work


@dataclass(frozen=True)
class Throughput:
    """The rates of a plan, over all data-parallel replicas.

    Attributes
    ----------
    tokens_per_step, tokens_per_s
        Tokens of a step (all micro-batches of all replicas), and per second.
    devices, devices_per_rank
        Tensor x context x data parallel devices in each pipeline rank; experts are spread over the replicas.
    model_flops_per_step
        Of all replicas, nothing counted that is computed again; None where the profile did not know.
    mfu
        Model FLOPs utilisation: model FLOPs over what the devices could do in the time (PaLM, arXiv 2204.02311,
        appendix B); None where FLOPs or a rank's peak rate are not known.
    """

    tokens_per_step: int
    tokens_per_s: float
    devices: int
    devices_per_rank: int
    model_flops_per_step: int | None
    mfu: float | None

    @property
    def tokens_per_s_per_device(self) -> float:
        """Tokens per second for each device."""
        return self.tokens_per_s / self.devices


def training_of(profile: Profile) -> PlanTraining | None:
    """Return what a plan repeats of its profile's training; None where that does not tell the micro-batch's tokens."""
    training = profile.training
    if training.sequence_length is None or training.micro_batch_size is None:
        return None
    work = model_work(profile)
    fields = {name: getattr(training, name) for name in Training.__struct_fields__}
    if work is None:
        return PlanTraining(**fields)
    return PlanTraining(**fields, model_flops=work.flops, peak_tflops=work.peak_tflops)


def throughput(plan: Plan, step_time_ns: int) -> Throughput | None:
    """Return the rates of a plan whose step takes so long; None where it does not tell the tokens of a micro-batch."""
    training = plan.training
    if training is None or training.sequence_length is None or training.micro_batch_size is None or not step_time_ns:
        return None
    microbatches = plan.request.num_microbatches * training.data_parallel
    tokens = microbatches * training.sequence_length * training.micro_batch_size
    size = training.tensor_parallel * training.context_parallel * training.data_parallel
    flops = None if training.model_flops is None else training.model_flops * microbatches
    peaks = [(training.peak_tflops or {}).get(rank.hardware) for rank in plan.ranks]
    known = [peak for peak in peaks if peak is not None]
    mfu = None
    if flops is not None and len(known) == len(peaks):
        mfu = flops / (sum(known) * 1e12 * size * step_time_ns / 1e9)
    return Throughput(tokens, tokens * 1e9 / step_time_ns, len(peaks) * size, size, flops, mfu)


def throughput_document(plan: Plan, step_time_ns: int) -> dict[str, Any] | None:
    """Return the rates as a document, None where they are not known."""
    found = throughput(plan, step_time_ns)
    if found is None:
        return None
    training = plan.training
    assert training is not None
    return {
        "tokens_per_step": found.tokens_per_step,
        "tokens_per_s": round(found.tokens_per_s, 3),
        "tokens_per_s_per_device": round(found.tokens_per_s_per_device, 3),
        "devices": found.devices,
        "devices_per_rank": found.devices_per_rank,
        "tensor_parallel": training.tensor_parallel,
        "context_parallel": training.context_parallel,
        "expert_parallel": training.expert_parallel,
        "data_parallel": training.data_parallel,
        "model_flops_per_step": found.model_flops_per_step,
        "mfu": None if found.mfu is None else round(found.mfu, 6),
    }


def throughput_text(plan: Plan, step_time_ns: int) -> tuple[str, str | None] | None:
    """Return the rates in words: tokens and devices, and MFU where it is known; None where there are no rates."""
    found = throughput(plan, step_time_ns)
    if found is None:
        return None
    training = plan.training
    assert training is not None
    degrees = {name: getattr(training, f"{name}_parallel") for name in ("tensor", "context", "expert", "data")}
    cut = ", ".join(f"{name} parallel {degree}" for name, degree in degrees.items() if degree > 1)
    ranks = f"{len(plan.ranks)} ranks" + (f" of {found.devices_per_rank}" if found.devices_per_rank > 1 else "")
    rates = (
        f"{found.tokens_per_s:,.0f} tokens/s, {found.tokens_per_s_per_device:,.0f} a device on {found.devices} devices "
        f"({ranks}{'; ' + cut if cut else ''}); {found.tokens_per_step:,} tokens a step"
    )
    if found.mfu is None or training.peak_tflops is None:
        return rates, None
    used = dict.fromkeys(rank.hardware for rank in plan.ranks)
    peaks = ", ".join(f"{training.peak_tflops[name]:g} TFLOP/s of {name}" for name in used)
    return rates, f"{100 * found.mfu:.1f} % of {peaks} ({training.dtype or 'peak'}); recomputation does not count"
