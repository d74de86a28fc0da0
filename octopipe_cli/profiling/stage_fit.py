"""Times of stages to times of layer kinds: least squares, no time below zero.

A stage's F, I, W are the sums over its layers; what was measured of several stages is a linear system in the kinds'
times, solved so that the sum of squared relative errors is least.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from octopipe_cli.errors import InputError
from octopipe_cli.formats import show as quoted
from octopipe_cli.plan import ActionKind
from octopipe_cli.profile import Times
from octopipe_cli.profiling.trace import Observed

if TYPE_CHECKING:
    import numpy

#: How much nearness to the times one starts from counts, against a relative error of the same size.
NEARNESS: Final = 1e-3

Unknown = tuple[str, ActionKind]


class Stage(NamedTuple):
    """The layers of a stage, and whether its backward runs their forward again."""

    kinds: tuple[str, ...]
    recompute: bool = False


class Row(NamedTuple):
    """One action of a stage: measured, and what the kinds' times give."""

    stage: int
    action: ActionKind
    measured_ms: float
    fitted_ms: float


class Fit(NamedTuple):
    """Times by kind (F, I, W, or F and B where I and W cannot be told apart), rows, the relative root mean square."""

    times: dict[str, dict[ActionKind, float]]
    rows: list[Row]
    residual: float


def fit(
    stages: Sequence[Stage],
    observed: Mapping[tuple[int, ActionKind], Observed],
    before: Mapping[str, Times] | None = None,
    remedy: str = "",
) -> Fit:
    """Return the kinds' times that come nearest to what was measured of the stages.

    Parameters
    ----------
    stages
        In model order.
    observed
        Medians by stage and action. Stage 0's I does nothing and its W is the whole backward: PyTorch's runtime has it
        so.
    before
        Times to stay near to where the measurements leave several answers; without them that is an error.
    remedy
        What a user can do then.

    Raises
    ------
    InputError
        Where kinds cannot be told apart.
    """
    import numpy

    split = {kind for index, stage in enumerate(stages) if _is_split(index, observed) for kind in stage.kinds}
    equations = [
        (stage, action, seen.milliseconds, _coefficients(stages[stage], action, split, first=stage == 0))
        for (stage, action), seen in observed.items()
        if seen.milliseconds > 0 and stages[stage].kinds and not (stage == 0 and action == "I")
    ]
    unknowns: list[Unknown] = sorted({name for *_, row in equations for name in row})
    matrix = numpy.array([[row.get(name, 0) / time for name in unknowns] for _, _, time, row in equations])
    target = numpy.ones(len(equations))
    loose = _undetermined(matrix, unknowns)
    rows, wanted = matrix, target
    if loose:
        if before is None:
            raise _cannot_tell(loose, remedy)
        nearness, near = _near(unknowns, before)
        rows, wanted = numpy.vstack([matrix, nearness]), numpy.concatenate([target, near])
    solution = non_negative(rows, wanted)
    times: dict[str, dict[ActionKind, float]] = {}
    for (kind, action), value in zip(unknowns, solution, strict=True):
        times.setdefault(kind, {})[action] = float(value)
    fitted = [
        Row(stage, action, time, float(sum(count * times[kind][of] for (kind, of), count in row.items())))
        for stage, action, time, row in equations
    ]
    errors = [(row.fitted_ms / row.measured_ms - 1) ** 2 for row in fitted]
    return Fit(times, fitted, (sum(errors) / len(errors)) ** 0.5 if errors else 0.0)


def _is_split(stage: int, observed: Mapping[tuple[int, ActionKind], Observed]) -> bool:
    return stage > 0 and ((stage, "I") in observed or (stage, "W") in observed)


def _coefficients(stage: Stage, action: ActionKind, split: set[str], first: bool) -> dict[Unknown, int]:
    """Return how often each unknown is in an action of a stage."""
    if first and action == "W":
        action = "B"
    row: Counter[Unknown] = Counter()
    for kind, count in Counter(stage.kinds).items():
        parts: tuple[ActionKind, ...] = ("I", "W") if action == "B" and kind in split else (action,)
        for part in parts:
            row[kind, part] += count
        if stage.recompute and action in ("I", "B"):
            row[kind, "F"] += count
    return dict(row)


def _undetermined(matrix: numpy.ndarray, unknowns: list[Unknown]) -> list[Unknown]:
    """Return the unknowns that the equations leave open: those with a part in what the matrix maps to nothing."""
    import numpy

    scale = numpy.linalg.norm(matrix, axis=0)
    _, sizes, vectors = numpy.linalg.svd(matrix / scale, full_matrices=True)
    rank = int((sizes > 1e-9 * sizes[0]).sum()) if sizes.size else 0
    parts = numpy.abs(vectors[rank:])
    return [name for column, name in enumerate(unknowns) if parts.size and parts[:, column].max() > 1e-6]


def _cannot_tell(loose: list[Unknown], remedy: str) -> InputError:
    names = ", ".join(f"{action} of {quoted(kind)}" for kind, action in loose)
    return InputError(
        "the stages do not tell these times apart: " + names,
        found="stages in which the kinds stand together in the same proportions, or too few of them",
        remedy=remedy or None,
    )


def _near(unknowns: list[Unknown], before: Mapping[str, Times]) -> tuple[numpy.ndarray, numpy.ndarray]:
    """Return equations that pull every unknown towards what it was."""
    import numpy

    values = [time_of(before[kind], action) for kind, action in unknowns]
    largest = max(values) or 1.0
    scales = numpy.array([value if value > 0 else largest for value in values])
    return NEARNESS * numpy.diag(1 / scales), NEARNESS * numpy.array([float(value > 0) for value in values])


def time_of(times: Times, action: ActionKind) -> float:
    """Return a kind's time of an action, in ms."""
    if action == "F":
        return times.forward_ms
    if action == "I":
        return times.backward_input_ms
    if action == "W":
        return times.backward_weight_ms
    whole = times.backward_ms
    return times.backward_input_ms + times.backward_weight_ms if whole is None else whole


def non_negative(matrix: Any, target: Any) -> Any:
    """Return the x >= 0 for which matrix x is nearest to the target.

    The active-set method of Lawson and Hanson (Solving Least Squares Problems, 1974, chapter 23): let in the variable
    whose growth helps most, solve without bounds for those that are in, step back to the first that would go below
    zero, and put that one out.
    """
    import numpy

    count = matrix.shape[1]
    inside = numpy.zeros(count, dtype=bool)
    x = numpy.zeros(count)
    small = 1e-10 * max(1.0, float(numpy.abs(matrix.T @ target).max(initial=0.0)))
    for _ in range(10 * count):
        gain = matrix.T @ (target - matrix @ x)
        gain[inside] = -numpy.inf
        if inside.all() or gain.max() <= small:
            break
        inside[int(gain.argmax())] = True
        while True:
            trial = numpy.zeros(count)
            trial[inside] = numpy.linalg.lstsq(matrix[:, inside], target, rcond=None)[0]
            if trial[inside].min() > 0:
                x = trial
                break
            below = inside & (trial <= 0)
            step = float((x[below] / numpy.maximum(x[below] - trial[below], 1e-300)).min(initial=1.0))
            x = x + step * (trial - x)
            inside &= x > small
            x[~inside] = 0.0
            if not inside.any():
                break
    return x
