"""Which layers there are, where the model is cut, and which rank holds what."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from octopipe_cli.diff import figures
from octopipe_cli.diff.change import Change
from octopipe_cli.diff.layers import Alignment, Layer
from octopipe_cli.diff.thresholds import Thresholds
from octopipe_cli.plan import Plan
from octopipe_cli.words import kinds_text

#: Stages up to which a placement is written out.
MOST_STAGES: Final = 64


def compare_partition(both: Alignment, thresholds: Thresholds) -> Iterator[Change]:
    """Yield what differs in layers, cuts and ranks of layers, stage count and placement."""
    yield from _layer_count(both, thresholds)
    yield from _layer_kinds(both, thresholds)
    yield from _kind_roles(both.old, both.new, thresholds)
    yield from _moves(both, thresholds)
    yield from _cuts(both, thresholds)
    yield from _stage_count(both.old, both.new, thresholds)
    yield from _placement(both.old, both.new, thresholds)


def _layer_count(both: Alignment, thresholds: Thresholds) -> Iterator[Change]:
    was, now = len(both.old_layers), len(both.new_layers)
    if was == now:
        return
    more = now > was
    message = f"the model has {now} layers, {abs(now - was)} {'more' if more else 'fewer'} than before"
    front, back = both.ends
    details = []
    for label, layers in (("gone", both.old_layers), ("new", both.new_layers)):
        middle = layers[front : len(layers) - back]
        if middle:
            span = figures.span_text("layer", front, front + len(middle) - 1)
            details.append(f"{label}: {span} ({kinds_text(layer.kind for layer in middle)})")
    yield thresholds.change(
        "layers-added" if more else "layers-removed", "$.stages", message, was, now, details=details
    )


def _layer_kinds(both: Alignment, thresholds: Thresholds) -> Iterator[Change]:
    for run, _ in both.runs(lambda a, b: True if a.kind != b.kind else None):
        words = figures.span_text("layer", run[0], run[-1])
        before = kinds_text(both.old_layers[layer].kind for layer in run)
        after = kinds_text(both.new_layers[layer].kind for layer in run)
        number = both.new_layers[run[0]].number
        message = f"{words}: {after}; before: {before}"
        yield thresholds.change("layer-kinds-changed", f"$.stages[{number}].kinds", message, before, after)


def _kind_roles(old: Plan, new: Plan, thresholds: Thresholds) -> Iterator[Change]:
    if old.kinds == new.kinds:
        return
    lines = [
        f"{name}: {new.kinds.get(name, 'gone')} (before: {old.kinds.get(name, 'none')})"
        for name in dict.fromkeys((*old.kinds, *new.kinds))
        if old.kinds.get(name) != new.kinds.get(name)
    ]
    message = f"{len(lines)} kind{'s' if len(lines) > 1 else ''} of layers came, went or changed role"
    yield thresholds.change(
        "kind-roles-changed", "$.kinds", message, dict(old.kinds), dict(new.kinds), details=figures.listed(lines)
    )


def _moves(both: Alignment, thresholds: Thresholds) -> Iterator[Change]:
    def ranks(a: Layer, b: Layer) -> tuple[int, int] | None:
        if a.stage is None or b.stage is None or a.stage.rank == b.stage.rank:
            return None
        return a.stage.rank, b.stage.rank

    for run, key in both.runs(ranks):
        assert isinstance(key, tuple)
        was, now = key
        verb = "moves" if len(run) == 1 else "move"
        number = both.new_layers[run[0]].number
        message = f"{both.words(run)} {verb} from rank {was} to rank {now}"
        yield thresholds.change("layers-moved", f"$.stages[{number}].rank", message, was, now)


def _cuts(both: Alignment, thresholds: Thresholds) -> Iterator[Change]:
    """Yield one change where neighbours of both models are cut apart in one plan alone."""

    def cut_after(layers: Sequence[Layer], layer: int) -> bool:
        return layers[layer].number != layers[layer + 1].number

    gone, added = [], []
    for (a, b), after in pairwise(both.pairs):
        if after != (a + 1, b + 1):
            continue
        was, now = cut_after(both.old_layers, a), cut_after(both.new_layers, b)
        if was and not now:
            gone.append(b)
        elif now and not was:
            added.append(b)
    if not gone and not added:
        return
    parts = []
    for label, cuts in (("no longer after", gone), ("now after", added)):
        if cuts:
            parts.append(f"{label} {'layer' if len(cuts) == 1 else 'layers'} {_numbers(cuts)}")
    yield thresholds.change("cuts-moved", "$.stages", f"the model is cut {', '.join(parts)}", gone, added)


def _numbers(values: Sequence[int]) -> str:
    """Return numbers as a list of at most a dozen."""
    shown = ", ".join(map(str, values[:12]))
    return shown if len(values) <= 12 else f"{shown} and {len(values) - 12} more"


def _stage_count(old: Plan, new: Plan, thresholds: Thresholds) -> Iterator[Change]:
    was, now = len(old.stages), len(new.stages)
    if was != now:
        more = now > was
        stages = "1 stage" if now == 1 else f"{now} stages"
        message = (
            f"there {'is' if now == 1 else 'are'} {stages}, {abs(now - was)} {'more' if more else 'fewer'} than before"
        )
        yield thresholds.change("stage-added" if more else "stage-removed", "$.stages", message, was, now)


def placement_word(ranks: Sequence[int]) -> str:
    """Return what a placement is called: cyclic (stage i on rank i mod P), V (0..P-1, P-1..0, again), or free."""
    count = max(ranks) + 1
    if all(rank == stage % count for stage, rank in enumerate(ranks)):
        return "cyclic"
    zigzag = [*range(count), *reversed(range(count))]
    if len(ranks) >= 2 * count and all(rank == zigzag[stage % (2 * count)] for stage, rank in enumerate(ranks)):
        return "V"
    return "free"


def _placement(old: Plan, new: Plan, thresholds: Thresholds) -> Iterator[Change]:
    """Yield whether stages sit on other ranks; with another number of them, whether the rule is another."""
    was, now = ([stage.rank for stage in plan.stages] for plan in (old, new))
    before, after = placement_word(was), placement_word(now)
    if was == now or (len(was) != len(now) and before == after):
        return
    if before != after:
        message = f"the placement is {after} instead of {before}"
    else:
        count = sum(a != b for a, b in zip(was, now, strict=True))
        message = f"another rank holds {count} of {len(now)} stages ({after} placement)"
    details = [f"before: {_runs(was)}", f"now: {_runs(now)}"]
    yield thresholds.change("placement-changed", "$.stages", message, was, now, details=details)


def _runs(ranks: Sequence[int]) -> str:
    """Return the ranks of the stages in their sequence, cut to what fits a line or two."""
    more = "" if len(ranks) <= MOST_STAGES else f" and {len(ranks) - MOST_STAGES} more"
    return f"ranks {' '.join(map(str, ranks[:MOST_STAGES]))}{more}"
