"""What a sweep found: a point a value, the classic schedules beside the plan, which points are worth their cost."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Final, Literal

from octopipe_cli.classic import ClassicRow
from octopipe_cli.plan import Plan
from octopipe_cli.profile import Training
from octopipe_cli.sweep.quantities import Quantity

Status = Literal["planned", "infeasible", "no plan"]


@dataclass(frozen=True)
class Point:
    """What was found at a value.

    Attributes
    ----------
    value
        Of the swept quantity.
    num_microbatches
        Micro-batches of a step here.
    status, message
        Whether there is a plan; where there is none, why not.
    plan
        The plan.
    classic
        By name, the step time in ns of each classic schedule's best partition that fits.
    pareto
        Whether no smaller value has as much throughput.
    """

    value: Decimal
    num_microbatches: int
    status: Status
    message: str = ""
    plan: Plan | None = None
    classic: dict[str, int] | None = None
    pareto: bool = False

    @property
    def step_time_ns(self) -> int | None:
        """The plan's step time."""
        return None if self.plan is None else self.plan.predicted.step_time_ns


def best_classic(rows: Sequence[ClassicRow]) -> dict[str, int]:
    """Return by name the least step time in ns of each classic schedule that fits the ranks' memory."""
    best: dict[str, int] = {}
    for row in rows:
        if row.fits:
            best[row.schedule] = min(row.step_time_ns, best.get(row.schedule, row.step_time_ns))
    return best


def with_pareto(points: Sequence[Point]) -> list[Point]:
    """Return points, ascending by value, marked where none before has as much throughput."""
    marked, most = [], (0, 1)  # micro-batches and ns of the best so far
    for point in points:
        step = point.step_time_ns
        better = step is not None and point.num_microbatches * most[1] > most[0] * step
        if better and step is not None:
            most = (point.num_microbatches, step)
        marked.append(replace(point, pareto=better))
    return marked


def throughput(num_microbatches: int, step_time_ns: int) -> float:
    """Return micro-batches per second."""
    return num_microbatches * 1e9 / step_time_ns if step_time_ns else 0.0


def tokens_of(training: Training) -> int | None:
    """Return the tokens of a micro-batch over all data-parallel copies; None where the profile does not say."""
    if training.sequence_length is None or training.micro_batch_size is None:
        return None
    return training.sequence_length * training.micro_batch_size * training.data_parallel


def sweep_document(quantity: Quantity, points: Sequence[Point], tokens: int | None) -> dict[str, Any]:
    """Return a sweep as a document; `tokens` are those of a micro-batch, None where they are not known."""
    return {
        "quantity": quantity.name,
        "unit": quantity.unit,
        "points": [_entry(point, tokens) for point in points],
    }


def _entry(point: Point, tokens: int | None) -> dict[str, Any]:
    whole = point.value % 1 == 0
    entry: dict[str, Any] = {
        "value": int(point.value) if whole else float(point.value),
        "status": point.status,
        "num_microbatches": point.num_microbatches,
    }
    if point.message:
        entry["message"] = point.message
    if point.plan is not None:
        plan = point.plan
        step, rate = plan.predicted.step_time_ns, throughput(point.num_microbatches, plan.predicted.step_time_ns)
        entry |= {
            "step_time_ns": step,
            "microbatches_per_s": round(rate, 6),
            "tokens_per_s": None if tokens is None else round(rate * tokens, 3),
            "bound_ns": plan.bound.step_time_ns,
            "gap": plan.bound.gap,
            "bubble_ratio": plan.predicted.bubble_ratio,
            "peak_memory_bytes": max(rank.peak_memory_bytes for rank in plan.predicted.ranks),
            "stages": len(plan.stages),
            "pareto": point.pareto,
            "reproducible": plan.search.reproducible,
        }
    entry["classic"] = {name: {"step_time_ns": step} for name, step in (point.classic or {}).items()}
    return entry


#: The columns of `sweep_csv`.
COLUMNS: Final = (
    *("value", "schedule", "status", "step_time_ns", "microbatches_per_s", "tokens_per_s", "bound_ns", "gap"),
    *("peak_memory_bytes", "pareto"),
)


def sweep_csv(document: dict[str, Any], tokens: int | None) -> str:
    """Return a sweep as CSV: a line for the plan and one for each classic schedule of every point."""
    stream = io.StringIO()
    table = csv.DictWriter(stream, COLUMNS, lineterminator="\n", extrasaction="ignore")
    table.writeheader()
    for entry in document["points"]:
        table.writerow({"schedule": "plan", **entry})
        for name, found in entry["classic"].items():
            rate = throughput(entry["num_microbatches"], found["step_time_ns"])
            table.writerow(
                {
                    "value": entry["value"],
                    "schedule": name,
                    "status": "planned",
                    "step_time_ns": found["step_time_ns"],
                    "microbatches_per_s": round(rate, 6),
                    "tokens_per_s": None if tokens is None else round(rate * tokens, 3),
                }
            )
    return stream.getvalue()
