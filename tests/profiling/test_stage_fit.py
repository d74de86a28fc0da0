from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from octopipe_cli.errors import InputError
from octopipe_cli.plan import ActionKind
from octopipe_cli.profile import Times
from octopipe_cli.profiling.stage_fit import Stage, fit, non_negative
from octopipe_cli.profiling.trace import Observed

KINDS: dict[str, dict[ActionKind, float]] = {
    "embedding": {"F": 1.0, "B": 2.0},
    "mamba": {"F": 2.0, "I": 3.0, "W": 1.0},
    "mlp": {"F": 1.5, "I": 1.25, "W": 1.75},
    "head": {"F": 4.0, "I": 5.0, "W": 6.0},
}
STAGES = [
    Stage(("embedding", "mamba")),
    Stage(("mlp", "mamba", "mlp")),
    Stage(("mamba", "mlp")),
    Stage(("mlp", "mlp", "head")),
]


def seen(times: dict[tuple[int, ActionKind], float]) -> dict[tuple[int, ActionKind], Observed]:
    return {key: Observed(value, 1) for key, value in times.items()}


def stage_time(stage: Stage, action: ActionKind) -> float:
    def one(kind: str) -> float:
        times = KINDS[kind]
        if action == "B" and "B" not in times:
            return times["I"] + times["W"]
        return times[action]

    again = sum(KINDS[kind]["F"] for kind in stage.kinds) if stage.recompute and action in "IB" else 0.0
    return sum(map(one, stage.kinds)) + again


def split(stages: list[Stage]) -> dict[tuple[int, ActionKind], Observed]:
    """Return exact times: B of stage 0, F, I and W of the others."""
    times: dict[tuple[int, ActionKind], float] = {
        (0, "F"): stage_time(stages[0], "F"),
        (0, "B"): stage_time(stages[0], "B"),
    }
    for number, stage in enumerate(stages[1:], 1):
        times |= {(number, action): stage_time(stage, action) for action in ("F", "I", "W")}
    return seen(times)


def near(found: dict[str, dict[ActionKind, float]], wanted: dict[str, dict[ActionKind, float]]) -> bool:
    return found.keys() == wanted.keys() and all(
        found[kind] == pytest.approx(wanted[kind], abs=1e-6) for kind in wanted
    )


def test_exact_times_of_stages_give_the_kinds_exactly() -> None:
    found = fit(STAGES, split(STAGES))
    assert near(found.times, KINDS)
    assert found.residual < 1e-9
    assert len(found.rows) == 11


def test_recomputed_stages_run_their_forward_again() -> None:
    stages = [*STAGES[:2], STAGES[2]._replace(recompute=True), STAGES[3]]
    assert near(fit(stages, split(stages)).times, KINDS)


def test_stage_0_runs_its_whole_backward_in_w() -> None:
    observed = split(STAGES)
    observed[0, "W"] = observed.pop((0, "B"))
    observed[0, "I"] = Observed(0.004, 1)  # what the runtime spends on doing nothing
    assert near(fit(STAGES, observed).times, KINDS)


def test_a_stage_without_layers_says_nothing() -> None:
    observed = split(STAGES)
    observed[4, "F"] = observed[4, "B"] = Observed(0.5, 1)
    found = fit([*STAGES, Stage(())], observed)
    assert near(found.times, KINDS)
    assert found.residual < 1e-9


def test_where_only_b_is_known_it_stays_whole() -> None:
    times = {
        (number, action): stage_time(stage, action) for number, stage in enumerate(STAGES) for action in ("F", "B")
    }
    found = fit(STAGES, seen(times))
    whole = {kind: {"F": t["F"], "B": t.get("B", t.get("I", 0.0) + t.get("W", 0.0))} for kind, t in KINDS.items()}
    assert near(found.times, whole)


def test_no_time_goes_below_zero_and_the_residual_says_what_remains() -> None:
    # b alone 2 ms, a and b together 1 ms: a would be -1
    found = fit([Stage(("b",)), Stage(("a", "b"))], seen({(0, "F"): 2.0, (1, "F"): 1.0}))
    assert found.times["a"]["F"] == 0
    # relative least squares over b: (b / 2 - 1)^2 + (b - 1)^2 is least at b = 1.2
    assert found.times["b"]["F"] == pytest.approx(1.2)
    assert found.residual == pytest.approx(((0.6 - 1) ** 2 / 2 + 0.2**2 / 2) ** 0.5)
    assert [(row.stage, row.measured_ms, round(row.fitted_ms, 6)) for row in found.rows] == [(0, 2, 1.2), (1, 1, 1.2)]


def test_kinds_that_stand_together_cannot_be_told_apart() -> None:
    stages = [Stage(("a", "b", "c")), Stage(("a", "b")), Stage(("a", "a", "b", "b", "c"))]
    observed = seen({(0, "F"): 6.0, (1, "F"): 3.0, (2, "F"): 9.0})
    with pytest.raises(InputError) as caught:
        fit(stages, observed, remedy="give more")
    assert caught.value.message == 'the stages do not tell these times apart: F of "a", F of "b"'
    assert caught.value.remedy == "give more"


def test_times_one_starts_from_decide_what_is_open() -> None:
    stages = [Stage(("a", "b", "c")), Stage(("a", "b"))]
    before = {
        kind: Times(forward_ms=ms, backward_input_ms=0, backward_weight_ms=0)
        for kind, ms in (("a", 2), ("b", 4), ("c", 9))
    }
    times = fit(stages, seen({(0, "F"): 7.0, (1, "F"): 3.0}), before).times
    assert times["c"]["F"] == pytest.approx(4, rel=1e-4)
    assert times["a"]["F"] + times["b"]["F"] == pytest.approx(3, rel=1e-4)
    # both as near to 2 and 4 as they can be, relative: 2 (1 - x) + 4 (1 - y) = 3 with x / y = 2 / 4
    assert times["a"]["F"] == pytest.approx(2 * (1 - 0.3), rel=1e-3)


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 6), st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_non_negative_least_squares_meets_its_conditions(rows: int, columns: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    matrix, target = random.normal(size=(rows, columns)), random.normal(size=rows)
    x = non_negative(matrix, target)
    gain = matrix.T @ (target - matrix @ x)
    assert (x >= 0).all()
    assert gain.max() < 1e-7  # nothing helps by growing
    assert np.abs(gain[x > 0]).max(initial=0.0) < 1e-7  # nor by shrinking
