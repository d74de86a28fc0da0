"""The sentences of `show --why`, each with the numbers behind it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from octopipe_cli.explain import Explanation
from octopipe_cli.plan import BoundArgument, Plan
from octopipe_cli.words import gibibyte_text, percent_text, time_text

#: A rank that waits longer in between than one part in so many of the step does not set the pace.
LONG_WAIT: Final = 20
#: How many ranks are told apart on the critical path.
MOST_RANKS: Final = 5

#: Engines whose orders follow from partition and placement.
FIXED_ORDERS: Final = ("megatron", "megatron-hybrid", "deepspeed")


def paragraphs(plan: Plan, explanation: Explanation) -> Iterator[tuple[str, str]]:
    """Yield (label, text): the pace, the bound, what the bound of this partition is made of, memory, the path."""
    text = f"The step takes {time_text(explanation.step_time_ns)}. "
    if plan.request.objective == "span":
        text = text[:-2] + "; the plan was made for a short span, which is not explained here. "
    yield "why", text + _bottleneck_text(plan, explanation)
    yield "bound", _bound_text(plan, explanation)
    yield "partition", _parts_text(explanation)
    if explanation.full:
        yield "memory", _memory_text(explanation)
    yield "path", _path_text(explanation)


def _bottleneck_text(plan: Plan, explanation: Explanation) -> str:
    slow, number = explanation.bottleneck, plan.request.num_microbatches
    parts = []
    if slow.before_first_ns:
        parts.append(f"starts at {time_text(slow.before_first_ns)}")
    each = f" ({number} micro-batches of {time_text(slow.busy_ns // number)})" if number > 1 else ""
    parts.append(f"works {time_text(slow.busy_ns)}{each}")
    if slow.between_ns:
        parts.append(f"waits {time_text(slow.between_ns)} in between")
    if slow.step_ns:
        parts.append(f"steps the optimizer for {time_text(slow.step_ns)}")
    if slow.after_last_ns:
        parts.append(f"is done {time_text(slow.after_last_ns)} before the end")
    role = "waits least" if slow.between_ns * LONG_WAIT > explanation.step_time_ns else "sets the pace"
    text = f"Rank {slow.rank} {role}: it {_and(parts)}."
    load = slow.busy_ns + slow.step_ns
    if len(plan.ranks) > 1 and load and slow.mean_ns:
        more = percent_text(abs(load - slow.mean_ns), slow.mean_ns)
        side = "more" if load >= slow.mean_ns else "less"
        even = "as much as" if not float(more) else f"{more} % {side} than"
        text += f" It has {even} the ranks' mean load of {time_text(slow.mean_ns)}."
    if 2 * load < explanation.step_time_ns:
        text += f" Even so it is at work for {percent_text(load, explanation.step_time_ns)} % of the step only."
    return text


def _and(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


#: What a certified bound counts, for the arguments that say something.
ARGUMENTS: Final[Mapping[BoundArgument | None, str]] = {
    "load": "the work of one rank, after its first layer can start",
    "round trip": "the forwards and gradients of one rank, then the way back to the first layer",
    "gradients": "the backward work of one rank, after one micro-batch has passed all layers",
    "path": "one micro-batch alone",
    "memory at the turns": "what memory lets a rank do before the first gradient and after the last forward",
    "packing": "the work of the rank with the most, however the layers are handed out",
    "exact": "whole plans: the instance is small enough to look at all of them",
    "memory over time": "all that is held, for as long as it must be",
}


def _bound_text(plan: Plan, explanation: Explanation) -> str:
    bounds, step_time = explanation.bounds, explanation.step_time_ns
    certified = bounds.certified_ns
    gap = step_time - certified
    if not certified:
        return "The plan records no bound."
    if gap < 0:
        return f"The recorded bound of {time_text(certified)} is above the step time: `octopipe verify` tells more."
    if not gap:
        return f"Optimal: the step time equals the bound ({bounds.scope})."
    text = f"The bound ({bounds.scope}) is {time_text(certified)}: the step is {_share(gap, certified)} above it."
    if bounds.argument in ARGUMENTS:
        text += f" It counts {ARGUMENTS[bounds.argument]}."
    if plan.request.engine in FIXED_ORDERS:
        return f"{text} The engine fixes the orders: only another partition or placement may help."
    if not bounds.order_ns:
        return f"{text} No other order of this partition and placement helps; only another partition or placement may."
    if not bounds.partition_ns:
        return f"{text} Another order may gain all of it: the bound of this partition is no higher."
    return (
        f"{text} Another order of this partition and placement can gain at most {time_text(bounds.order_ns)}, "
        f"another partition or placement at most {time_text(bounds.partition_ns)} more."
    )


def _share(part: int, whole: int) -> str:
    return f"{time_text(part)} ({percent_text(part, whole, 1 if 1000 * part >= whole else 2)} %)"


def _parts_text(explanation: Explanation) -> str:
    """Return what the bound of this partition and placement is made of."""
    bounds = explanation.bounds
    parts = bounds.plan
    work = f"{time_text(parts.work_ns)} of work" + (" and blocking transfers" if explanation.blocking else "")
    said = [f"has {work}"]
    if parts.argument == "part":
        said = [f"has {work} besides the forward of its earlier stages"]
    elif parts.argument == "gradients":
        said = [f"has {work} in the backward from there on"]
    elif parts.argument == "round trip":
        said = [f"has {work} up to its last gradient"]
    if parts.start_ns:
        thing = "gets no gradient for" if parts.argument == "gradients" else "cannot start"
        said.insert(0, f"{thing} stage {parts.stage} before {time_text(parts.start_ns)}")
    if parts.idle_ns:
        said.append(f"must idle {time_text(parts.idle_ns)}")
    after = time_text(parts.after_ns)
    if parts.after_ns and parts.argument != "round trip":
        said.append(f"steps the optimizer for {after}")
    text = f"rank {parts.rank} {_and(said)}."
    if parts.argument == "path":
        text = f"one micro-batch alone takes {time_text(parts.total_ns)}."
    elif parts.after_ns and parts.argument == "round trip":
        text += f" After that, the way back and the work at its end, on rank {parts.last_rank}, take {after}."
    text = f"This partition and placement needs at least {time_text(parts.total_ns)}: {text}"
    return text + (" The recorded bound is the stronger one." if parts.total_ns < bounds.certified_ns else "")


def _memory_text(explanation: Explanation) -> str:
    parts = [
        f"rank {full.rank} at {gibibyte_text(full.peak_bytes)} of {gibibyte_text(full.limit_bytes)} GiB "
        f"({percent_text(full.peak_bytes, full.limit_bytes)} %)"
        for full in explanation.full
    ]
    bounds = explanation.bounds
    saved = bounds.plan.total_ns - bounds.unlimited_ns
    text = f"Near its limit: {'; '.join(parts)}. "
    if saved:
        return text + (
            f"Without limits this partition would need at least {time_text(bounds.unlimited_ns)}, "
            f"{time_text(saved)} less."
        )
    return text + "The limits do not raise the bound of this partition, but they decide which partitions fit."


def _path_text(explanation: Explanation) -> str:
    path = explanation.path
    kinds = [f"{kind} {time_text(total)}" for kind, total in path.work_by_kind_ns().items()]
    text = f"The critical path has no gap: {time_text(path.work_ns)} of work"
    text += f" ({', '.join(kinds)})" if kinds else ""
    if path.transfer_ns:
        text += f", {time_text(path.transfer_ns)} of transfers"
    if path.step_ns:
        text += f", {time_text(path.step_ns)} of optimizer step"
    ranks = [(total, rank) for rank, total in enumerate(path.work_by_rank_ns()) if total]
    most = [f"rank {rank} {time_text(total)}" for total, rank in sorted(ranks, key=lambda each: (-each[0], each[1]))]
    if len(most) > MOST_RANKS:
        most[MOST_RANKS - 1 :] = [f"{len(most) - MOST_RANKS + 1} others the rest"]
    return text + (f". By rank: {', '.join(most)}." if len(most) > 1 else ".")
