"""What stages do and cost besides their layers: recomputation, times, sizes."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from octopipe_cli.diff import figures
from octopipe_cli.diff.change import Change
from octopipe_cli.diff.layers import Alignment, Layer
from octopipe_cli.diff.thresholds import Thresholds
from octopipe_cli.plan import PlanStage

#: What `PlanStage` says of a stage that other changes report; whatever else it holds is a cost.
_ELSEWHERE = ("layers", "kinds", "rank", "recompute")


def compare_stages(both: Alignment, thresholds: Thresholds) -> Iterator[Change]:
    """Yield where recomputation is switched, layer by layer, and where stages of the same layers cost otherwise."""

    def switched(a: Layer, b: Layer) -> bool | None:
        if a.stage is None or b.stage is None or a.stage.recompute == b.stage.recompute:
            return None
        return b.stage.recompute

    for run, on in both.runs(switched):
        verb = "recompute their activations" if on else "keep their activations"
        if len(run) == 1:
            verb = "recomputes its activations" if on else "keeps its activations"
        layer = both.new_layers[run[0]]
        assert layer.stage is not None
        message = f"{both.words(run)} now {verb} (rank {layer.stage.rank})"
        name = "recompute-on" if on else "recompute-off"
        yield thresholds.change(name, f"$.stages[{layer.number}].recompute", message, not on, on)
    yield from _costs(both, thresholds)


def _costs(both: Alignment, thresholds: Thresholds) -> Iterator[Change]:
    lines: list[str] = []
    count = 0
    first = 0
    for a, b in both.same_stages:
        was, now = both.old.stages[a], both.new.stages[b]
        if (was.rank, was.recompute) != (now.rank, now.recompute):
            continue  # reported as such; that it costs otherwise follows
        if any(
            both.old_layers[i].kind != both.new_layers[j].kind
            for i, j in zip(range(*was.layers), range(*now.layers), strict=False)
        ):
            continue
        count += 1
        if parts := _cost_parts(was, now):
            first = b if not lines else first
            span = figures.span_text("layer", now.layers[0], now.layers[1] - 1)
            lines.append(f"stage {b} ({span}): {'; '.join(parts)}")
    if lines:
        message = f"{len(lines)} of {count} stages of the same layers on the same rank have other times or sizes"
        yield thresholds.change("stage-costs-changed", f"$.stages[{first}]", message, details=figures.listed(lines))


def _cost_parts(was: PlanStage, now: PlanStage) -> list[str]:
    """Return what differs in the costs of a stage, in words."""
    parts = []
    for field in PlanStage.__struct_fields__:
        a, b = getattr(was, field), getattr(now, field)
        if field in _ELSEWHERE or a == b:
            continue
        a, b = msgspec.to_builtins(a), msgspec.to_builtins(b)
        if not isinstance(a, dict) or not isinstance(b, dict):
            parts.append(field)
            continue
        words = figures.times if field.endswith("_ns") else figures.sizes
        label = {"action_ns": "", "transfer_ns": "transfer ", "bytes": ""}.get(field, f"{field} ")
        for key in dict.fromkeys((*a, *b)):
            if key in a and key in b:
                if a[key] != b[key]:
                    parts.append(f"{label}{key} {words(a[key], b[key])}")
            else:
                parts.append(f"{label}{key} is {'gone' if key in a else 'new'}")
    return parts
