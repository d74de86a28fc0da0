"""The simulator: values worked out by hand, and the replayed cases of the reference."""

from __future__ import annotations

import json
from typing import Any

import pytest

from octopipe_cli.cluster import cluster_from_document
from octopipe_cli.errors import DeadlockError, InvalidPlanError
from octopipe_cli.pipeline import Assignment, Pipeline, StageCost, build_pipeline
from octopipe_cli.plan import Action, ActionKind, Orders, StageBytes, parse_orders
from octopipe_cli.profile import profile_from_document
from octopipe_cli.simulate import Bubbles, Timeline, simulate

from .instances import SHARED


def stage(
    times: dict[ActionKind, int], ahead: int = 0, back: int = 0, *, recompute: bool = False, **sizes: int
) -> StageCost:
    return StageCost(times, ahead, back, StageBytes(**sizes), recompute)


def orders_of(*ranks: str) -> Orders:
    return parse_orders([[actions] for actions in ranks])


def windows(timeline: Timeline) -> list[dict[str, tuple[int, int]]]:
    """Return for each rank when each action starts and ends."""
    return [
        {str(action): (start, end) for action, start, end in zip(actions, starts, ends, strict=True)}
        for actions, starts, ends in zip(timeline.orders, timeline.start_ns, timeline.end_ns, strict=True)
    ]


def two_ranks(**more: Any) -> Pipeline:
    """Two stages on two ranks: 1 ns to send ahead, 2 ns back."""
    stages = (
        stage({"F": 2, "I": 3, "W": 1, "B": 4}, ahead=1, output=7),
        stage({"F": 4, "I": 5, "W": 2, "B": 6}, back=2, input=7),
    )
    return Pipeline(2, (0, 1), stages, (1, 6), (None, None), **more)


ORDERS = ("0F0 0F1 0I0 0W0 0B1", "1F0 1I0 1F1 1B1 1W0")


def test_overlapped_transfers() -> None:
    timeline = simulate(two_ranks(), orders_of(*ORDERS))
    assert windows(timeline) == [
        {"0F0": (0, 2), "0F1": (2, 4), "0I0": (14, 17), "0W0": (17, 18), "0B1": (24, 28)},
        {"1F0": (3, 7), "1I0": (7, 12), "1F1": (12, 16), "1B1": (16, 22), "1W0": (22, 24)},
    ]
    assert timeline.step_time_ns == 30  # rank 1: 24 + 6; rank 0: 28 + 1
    assert timeline.span_ns == 29  # rank 0: 28 + 1; rank 1: 24 - 3 + 6
    assert timeline.busy_ns == (12, 21)
    assert timeline.bubble_ratio == pytest.approx(1 - 33 / 60, abs=1e-15)
    assert timeline.bubbles(0) == Bubbles(before_first_ns=0, between_ns=16, after_last_ns=1)
    assert timeline.bubbles(1) == Bubbles(before_first_ns=3, between_ns=0, after_last_ns=0)


def test_blocking_transfers_hold_up_the_sender_alone() -> None:
    timeline = simulate(two_ranks(p2p="blocking"), orders_of(*ORDERS))
    assert windows(timeline) == [
        {"0F0": (0, 2), "0F1": (3, 5), "0I0": (14, 17), "0W0": (17, 18), "0B1": (26, 30)},
        {"1F0": (3, 7), "1I0": (7, 12), "1F1": (14, 18), "1B1": (18, 24), "1W0": (26, 28)},
    ]
    assert (timeline.step_time_ns, timeline.span_ns, timeline.busy_ns) == (34, 31, (12, 21))


def test_the_wait_after_the_last_action_counts_nowhere() -> None:
    timeline = simulate(two_ranks(p2p="blocking"), orders_of(ORDERS[0], "1F0 1I0 1F1 1W0 1B1"))
    assert windows(timeline)[1]["1B1"] == (20, 26)  # sent until 28
    assert windows(timeline)[0]["0B1"] == (28, 32)
    assert timeline.last_end_ns(1) == 26
    assert (timeline.step_time_ns, timeline.span_ns) == (33, 33)  # rank 0: 32 + 1; rank 1: 26 + 6


def test_boundary_tensors_wait_at_their_consumer() -> None:
    timeline = simulate(two_ranks(), orders_of(*ORDERS))
    # Gradients, until the end of 0I0 and 0B1; activations, until the start of 1F1 (that of 1F0 is used as it arrives).
    assert timeline.memory_curve(0) == [(0, 0), (14, 7), (17, 0), (24, 7), (28, 0)]
    assert timeline.memory_curve(1) == [(0, 0), (5, 7), (12, 0)]
    assert timeline.peak_memory_bytes == (7, 7)


def test_boundary_tensors_of_one_rank_are_held_from_the_producers_end() -> None:
    stages = (stage({"F": 1, "B": 1}, output=7), stage({"F": 1, "B": 1}, input=7))
    pipeline = Pipeline(2, (0, 0), stages, (0,), (None,))
    timeline = simulate(pipeline, orders_of("0F0 0F1 1F0 1B0 0B0 1F1 1B1 0B1"))
    assert timeline.memory_curve(0) == [(0, 0), (1, 7), (2, 7), (4, 14), (5, 0), (7, 7), (8, 0)]


ONE_STAGE = "0F0 0I0 0F1 0W0 0I1 0W1"


def test_memory_curve_releases_before_it_allocates() -> None:
    sizes = {"state": 100, "held": 10, "weight": 4, "workspace": 3}
    pipeline = Pipeline(2, (0,), (stage({"F": 2, "I": 3, "W": 1}, **sizes),), (0,), (117,))
    timeline = simulate(pipeline, orders_of(ONE_STAGE))
    # At 5 the 13 bytes of 0I0 go before the 17 of 0W0's wait and 0F1 come: 117, not 130.
    assert timeline.memory_curve(0) == [(0, 113), (2, 113), (5, 117), (7, 114), (8, 113), (11, 104), (12, 100)]
    assert timeline.peak_memory_bytes == (117,)
    assert timeline.fits


def test_memory_curve_of_a_stage_that_recomputes() -> None:
    sizes = {"state": 100, "held": 2, "transient": 10, "weight": 4, "workspace": 3}
    pipeline = Pipeline(2, (0,), (stage({"F": 2, "I": 3, "W": 1}, recompute=True, **sizes),), (0,), (118,))
    timeline = simulate(pipeline, orders_of(ONE_STAGE))
    # What W needs is there from the start of I on, beside the largest activations and the workspace.
    assert timeline.memory_curve(0) == [(0, 105), (2, 119), (5, 109), (7, 106), (8, 119), (11, 104), (12, 100)]
    assert not timeline.fits


def test_what_is_held_for_no_time_does_not_count() -> None:
    pipeline = Pipeline(1, (0,), (stage({"F": 0, "B": 0}, state=1, held=5, workspace=9),), (0,), (None,))
    timeline = simulate(pipeline, orders_of("0F0 0B0"))
    assert timeline.peak_memory_bytes == (1,)
    assert timeline.bubble_ratio == 0.0


def test_a_rank_that_never_acts_is_all_bubble() -> None:
    pipeline = Pipeline(1, (1,), (stage({"F": 3, "B": 4}),), (2, 0), (None, None))
    timeline = simulate(pipeline, orders_of("", "0F0 0B0"))
    assert (timeline.first_start_ns(0), timeline.last_end_ns(0)) == (0, 0)
    assert timeline.step_time_ns == 7
    assert timeline.bubbles(0) == Bubbles(5, 0, 0)
    assert timeline.bubble_ratio == 0.5


def test_overhead_recomputation_and_step_time_of_the_files() -> None:
    times = {"forward_ms": 1, "backward_input_ms": 2, "backward_weight_ms": 3, "backward_ms": 4.5, "step_ms": 5}
    profile = profile_from_document(
        {
            "schema": "octopipe.profile",
            "version": 1,
            "name": "one",
            "kinds": {"layer": {"times": {"gpu": times}}},
            "layers": [{"repeat": 4, "of": ["layer"]}],
        },
        "profile",
    )
    cluster = cluster_from_document(
        {
            "schema": "octopipe.cluster",
            "version": 1,
            "name": "two",
            "ranks": [{"hardware": "gpu", "memory_gib": None}, {"hardware": "gpu", "memory_gib": None, "speed": 2}],
            "action_overhead_us": 0.5,
        },
        "cluster",
    )
    pipeline = build_pipeline(profile, cluster, Assignment((0, 2, 4), (0, 1), (True, False)), 1)
    assert windows(simulate(pipeline, orders_of("0F0 0I0 0W0", "1F0 1B0"))) == [
        {"0F0": (0, 2_000_500), "0I0": (7_501_500, 13_502_000), "0W0": (13_502_000, 19_502_500)},
        {"1F0": (2_000_500, 3_001_000), "1B0": (3_001_000, 7_501_500)},
    ]
    split = simulate(pipeline, orders_of("0F0 0B0", "1F0 1I0 1W0"))
    assert windows(split) == [  # recomputed: 9 ms of B and 2 of F again
        {"0F0": (0, 2_000_500), "0B0": (5_001_500, 16_002_000)},
        {"1F0": (2_000_500, 3_001_000), "1I0": (3_001_000, 5_001_500), "1W0": (5_001_500, 8_002_000)},
    ]
    assert split.step_time_ns == 26_002_000  # two layers' 5 ms after rank 0; half of that, and earlier, on rank 1


@pytest.mark.parametrize(
    ("orders", "circle"),
    [
        (("0F0 0F1 0W0 0I0 0B1", ORDERS[1]), ("0W0", "0I0")),
        (("0F0 0I0 0F1 0W0 0B1", "1F1 1F0 1I0 1B1 1W0"), ("0I0", "1I0", "1F1", "0F1")),
        (("0B1 0F0 0F1 0I0 0W0", ORDERS[1]), ("0B1", "0F1")),
    ],
)
def test_a_deadlock_names_its_circle(orders: tuple[str, str], circle: tuple[str, ...]) -> None:
    with pytest.raises(DeadlockError) as caught:
        simulate(two_ranks(), orders_of(*orders))
    assert caught.value.circle == circle
    assert str(caught.value) == f"deadlock: {' waits for '.join((*circle, circle[0]))}"


def test_the_circle_leaves_out_ranks_that_only_wait_for_it() -> None:
    # Rank 0 waits for rank 1, which is stuck in a circle with rank 2 that rank 0 has no part in.
    stages = tuple(stage({"F": 1, "B": 1}) for _ in range(3))
    pipeline = Pipeline(2, (0, 1, 2), stages, (0, 0, 0), (None,) * 3)
    with pytest.raises(DeadlockError) as caught:
        simulate(pipeline, orders_of("0F0 0F1 0B0 0B1", "1F0 1B0 1F1 1B1", "2F1 2F0 2B0 2B1"))
    assert caught.value.circle == ("1B0", "2B0", "2F1", "1F1")


def test_an_action_without_what_it_needs() -> None:
    with pytest.raises(InvalidPlanError, match="0I0 needs 1I0, which is in no order"):
        simulate(two_ranks(), orders_of("0F0 0I0", "1F0"))


def test_a_split_where_there_is_none() -> None:
    pipeline = Pipeline(1, (0,), (stage({"F": 1, "B": 1}),), (0,), (None,))
    with pytest.raises(InvalidPlanError, match="0I0: stage 0 may not split its backward"):
        simulate(pipeline, orders_of("0F0 0I0 0W0"))


# --- the reference's replayed cases ---------------------------------------------------------------------------------


def golden(case: str) -> dict[str, Any]:
    file = SHARED / "reference" / "golden.json"
    if not file.is_file():
        pytest.skip("the reference values are not beside this checkout")
    cases = {entry["id"]: entry for entry in json.loads(file.read_text(encoding="utf-8"))["cases"]}
    found: dict[str, Any] = cases[case]
    return found


def gpipe(p: int, m: int) -> Orders:
    return tuple(tuple(Action(r, kind, i) for kind in ("F", "B") for i in range(m)) for r in range(p))  # type: ignore[arg-type]


def one_f_one_b(p: int, m: int) -> Orders:
    orders = []
    for rank in range(p):
        warm = min(p - 1 - rank, m)
        order = [Action(rank, "F", i) for i in range(warm)]
        for i in range(m - warm):
            order += [Action(rank, "F", warm + i), Action(rank, "B", i)]
        orders.append((*order, *(Action(rank, "B", i) for i in range(m - warm, m))))
    return tuple(orders)


def zb_h1(p: int, m: int) -> Orders:
    """1F1B with I for B; rank r runs a W as soon as r are left over, so that every rank holds p micro-batches."""
    orders = []
    for rank in range(p):
        order = [Action(rank, "F", i) for i in range(p - rank)]
        for i in range(m):
            order.append(Action(rank, "I", i))
            if i >= rank:
                order.append(Action(rank, "W", i - rank))
            if i + p - rank < m:
                order.append(Action(rank, "F", i + p - rank))
        orders.append((*order, *(Action(rank, "W", i) for i in range(m - rank, m))))
    return tuple(orders)


def uniform(inputs: dict[str, Any], *, split: bool = False) -> Pipeline:
    """Return the pipeline of a reference case: alike stages, one a rank, which hold 1 byte a micro-batch."""
    p, lag = inputs["p"], inputs.get("C", 0)
    times: dict[ActionKind, int] = {"F": inputs["F"], "B": inputs["B"]}
    if split:  # the zero-bubble papers' B is I here
        times = {"F": inputs["F"], "I": inputs["B"], "W": inputs["W"]}
    stages = tuple(stage(times, lag if r < p - 1 else 0, lag if r else 0, held=1, weight=1) for r in range(p))
    return Pipeline(inputs["m"], tuple(range(p)), stages, (0,) * p, (inputs.get("K"),) * p if split else (None,) * p)


@pytest.mark.parametrize(
    ("case", "order", "split"),
    [
        ("G01-gpipe", gpipe, False),
        ("G02-1f1b", one_f_one_b, False),
        ("G03-1f1b-8", one_f_one_b, False),
        ("G04-1f1b-comm", one_f_one_b, False),
        ("G05-gpipe-comm", gpipe, False),
        ("G10-zb1p", zb_h1, True),
    ],
)
def test_replayed_reference_cases(case: str, order: Any, split: bool) -> None:
    entry = golden(case)
    inputs, expected = entry["inputs"], entry["expected"]
    timeline = simulate(uniform(inputs, split=split), order(inputs["p"], inputs["m"]))
    assert timeline.step_time_ns == expected["makespan"]
    assert timeline.span_ns == expected.get("own", timeline.span_ns)
    assert timeline.bubble_ratio == pytest.approx(expected.get("bubble", timeline.bubble_ratio), abs=1e-12)
    assert list(timeline.peak_memory_bytes) == expected.get("peak", list(timeline.peak_memory_bytes))
    assert timeline.fits


def test_published_1f1b_of_an_uneven_model() -> None:
    entry = golden("G32-simpipe-1f1b")
    inputs, expected = entry["inputs"], entry["expected"]
    columns = {"forward_ms": "forward_ms", "backward_ms": "backward_input_ms", "weight_ms": "backward_weight_ms"}
    kinds = {
        symbol: {
            "times": {"gpu": {ours: round(inputs[theirs][symbol] * 100) * 1e-6 for theirs, ours in columns.items()}}
        }
        for symbol in inputs["forward_ms"]
    }
    layers = ["E", *inputs["pattern"], "L"]
    profile = {"schema": "octopipe.profile", "version": 1, "name": "uneven", "kinds": kinds, "layers": layers}
    ranks = [{"count": inputs["p"], "hardware": "gpu", "memory_gib": None}]
    cluster = {"schema": "octopipe.cluster", "version": 1, "name": "alike", "ranks": ranks}
    cuts = [sum(inputs["partition"][:s]) + (s > 0) + (s == inputs["p"]) for s in range(inputs["p"] + 1)]
    assert len(layers) == cuts[-1]  # the partition counts neither embedding nor head
    assignment = Assignment(tuple(cuts), tuple(range(inputs["p"])), (False,) * inputs["p"])
    pipeline = build_pipeline(
        profile_from_document(profile, "profile"), cluster_from_document(cluster, "cluster"), assignment, inputs["m"]
    )
    timeline = simulate(pipeline, one_f_one_b(inputs["p"], inputs["m"]))
    assert timeline.step_time_ns == expected["makespan"]
    assert list(timeline.busy_ns) == expected["device_busy"]
