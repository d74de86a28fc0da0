"""Two plans layer by layer: which layer of the one is which of the other, and likewise for stages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

from octopipe_cli.diff.figures import span_text
from octopipe_cli.plan import Plan, PlanStage
from octopipe_cli.profile import MAX_LAYERS, expand
from octopipe_cli.words import kinds_text


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer as a plan holds it: its kind, and its stage (None where a broken plan leaves it out)."""

    kind: str
    number: int | None
    stage: PlanStage | None


def layers_of(plan: Plan) -> list[Layer]:
    """Return the layers of a plan; a broken plan gives as many as it can (and a profile may have), and never raises."""
    found = [Layer("?", None, None)] * min(max(stage.layers[1] for stage in plan.stages), MAX_LAYERS)
    for number, stage in enumerate(plan.stages):
        first, stop = stage.layers[0], min(stage.layers[1], MAX_LAYERS)
        for layer, kind in zip(range(first, stop), islice(expand(stage.kinds), max(stop - first, 0)), strict=False):
            found[layer] = Layer(kind, number, stage)
    return found


@dataclass(frozen=True)
class Alignment:
    """Which layers and stages of two plans are the same.

    Layers are matched by their number where there are as many, else from both ends as far as the kinds agree; the same
    the other way round. Stages are matched that hold the same layers; between them, as many unmatched ones on both
    sides are matched in their sequence (a moved cut), otherwise as many on one rank (layers given to another rank), and
    others not at all (a stage that was split).
    """

    old: Plan
    new: Plan

    @cached_property
    def old_layers(self) -> list[Layer]:
        """The layers of the old plan."""
        return layers_of(self.old)

    @cached_property
    def new_layers(self) -> list[Layer]:
        """The layers of the new plan."""
        return layers_of(self.new)

    @cached_property
    def ends(self) -> tuple[int, int]:
        """How many layers agree from the front, and how many of the others from the back."""
        a, b = self.old_layers, self.new_layers
        least = min(len(a), len(b))
        if len(a) == len(b):
            return least, 0
        front = next((i for i in range(least) if a[i].kind != b[i].kind), least)
        rest = least - front
        return front, next((i for i in range(rest) if a[-1 - i].kind != b[-1 - i].kind), rest)

    @cached_property
    def pairs(self) -> list[tuple[int, int]]:
        """The matched layers as (old number, new number), ascending."""
        front, back = self.ends
        a, b = len(self.old_layers), len(self.new_layers)
        return [(i, i) for i in range(front)] + [(a - i, b - i) for i in range(back, 0, -1)]

    def runs(self, key: Callable[[Layer, Layer], object]) -> Iterator[tuple[list[int], object]]:
        """Yield runs of consecutive matched layers (as new numbers) for which `key` gives the same, not None."""
        run: list[int] = []
        run_key: object = None
        before = (-2, -2)
        for pair in self.pairs:
            found = key(self.old_layers[pair[0]], self.new_layers[pair[1]])
            together = pair == (before[0] + 1, before[1] + 1)
            if run and (found != run_key or not together):
                yield run, run_key
                run = []
            if found is not None:
                run.append(pair[1])
            run_key, before = found, pair
        if run:
            yield run, run_key

    def words(self, run: list[int]) -> str:
        """Return ``layers 14-15 (mamba, mlp)``, in the new plan's numbers."""
        kinds = kinds_text(self.new_layers[layer].kind for layer in run)
        return f"{span_text('layer', run[0], run[-1])} ({kinds})"

    @cached_property
    def same_stages(self) -> list[tuple[int, int]]:
        """The stages that hold the same layers, as (old number, new number)."""
        renamed = dict(self.pairs)
        at = {stage.layers: number for number, stage in enumerate(self.new.stages) if stage.layers[0] < stage.layers[1]}
        found = []
        for number, stage in enumerate(self.old.stages):
            first, last = renamed.get(stage.layers[0]), renamed.get(stage.layers[1] - 1)
            if first is not None and last is not None and (first, last + 1) in at:
                found.append((number, at[first, last + 1]))
        return found

    @cached_property
    def stages(self) -> dict[int, int]:
        """Old stage -> the new one it is matched with."""
        matched: dict[int, int] = {}
        a = b = 0
        for i, j in [*self.same_stages, (len(self.old.stages), len(self.new.stages))]:
            if i < a or j < b:  # stages of a broken plan that stand in no order
                continue
            matched.update(self._between(range(a, i), range(b, j)))
            if i < len(self.old.stages):
                matched[i] = j
            a, b = i + 1, j + 1
        return matched

    def _between(self, old: range, new: range) -> Iterator[tuple[int, int]]:
        """Yield the stages to match of two runs of stages that hold other layers."""
        if len(old) == len(new):
            yield from zip(old, new, strict=True)
            return
        for rank in dict.fromkeys(self.old.stages[stage].rank for stage in old):
            a = [stage for stage in old if self.old.stages[stage].rank == rank]
            b = [stage for stage in new if self.new.stages[stage].rank == rank]
            if len(a) == len(b):
                yield from zip(a, b, strict=True)
