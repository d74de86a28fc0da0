from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from octopipe_cli.plan import Bound, Plan, PlanStage, RobustFigures
from octopipe_cli.render.report import report, report_document
from tests.render.plans import GIB, MS, make_plan, one_f_one_b, replay, v_plan

Golden = Callable[[str, str], None]


@pytest.mark.parametrize("width", [60, 80])
def test_report(width: int, golden: Golden) -> None:
    plan = v_plan(step_ns=3 * MS)
    golden(f"report-v-{width}.txt", report(plan, replay(plan), width).plain)


def bounded(step_ns: int, scope: str = "any plan") -> Plan:
    plan = make_plan([0], one_f_one_b(1, 1), {"F": 400 * MS, "B": 600 * MS}, num_microbatches=1)
    return msgspec.structs.replace(plan, bound=Bound(step_time_ns=step_ns, gap=0.0, scope=scope))


@pytest.mark.parametrize(
    ("bound_ns", "text"),
    [
        (1000 * MS, "step time   1000.0 ms, optimal: equals the bound (any plan)"),
        (800 * MS, "step time   1000.0 ms, 25.0 % above the bound of 800.0 ms (any plan)"),
        (999_900_000, "step time   1000.0 ms, 0.01 % above the bound of 999.9 ms (any plan)"),
        (999_999_999, "step time   1000.0 ms, 0.0000 % above the bound of 1000.0 ms (any plan)"),
        (0, "step time   1000.0 ms, no bound"),
    ],
)
def test_the_gap_in_words(bound_ns: int, text: str) -> None:
    plan = bounded(bound_ns)
    assert report(plan, replay(plan), 120).plain.splitlines()[0] == text


def test_with_objective_span_the_gap_is_the_spans() -> None:
    plan = bounded(500 * MS)
    plan = msgspec.structs.replace(
        plan,
        request=msgspec.structs.replace(plan.request, objective="span"),
        bound=msgspec.structs.replace(plan.bound, span_ns=800 * MS),
    )
    lines = report(plan, replay(plan), 120).plain.splitlines()
    assert lines[:2] == [
        "step time   1000.0 ms",
        "span        1000.0 ms, 25.0 % above the bound of 800.0 ms (any plan)",
    ]


def test_phases_are_counted_from_the_last_start_to_the_first_end() -> None:
    # 1F1B, 2 ranks, 2 micro-batches, F 1 and B 2 ms: 0F0 0F1 . 0B0 . 0B1 / . 1F0 1B0 1F1 1B1 .
    plan = make_plan([0, 1], one_f_one_b(2, 2), {"F": MS, "B": 2 * MS}, num_microbatches=2)
    timeline = replay(plan)
    assert timeline.step_time_ns == 9 * MS
    text = report(plan, timeline, 120).plain
    assert "1.000 ms warm-up, 6.000 ms with all ranks at work, 2.000 ms cool-down" in text
    # Rank 0: idle 2 to 4 and 6 to 7; rank 1: 1 before, 2 after. 6 of 18 ms.
    assert "33.3 % of the ranks' time: 5.6 % before the first action, 16.7 % between, 11.1 % after the last" in text


def test_very_many_stages_take_a_line_a_rank() -> None:
    plan = v_plan()
    empty = msgspec.structs.replace(plan.stages[0], layers=(0, 0), kinds=[], rank=3)
    stages: list[PlanStage] = [msgspec.structs.replace(empty, rank=number % 4) for number in range(64)]
    timeline = replay(plan)
    many = msgspec.structs.replace(plan, stages=[*stages, *plan.stages])
    pipeline = msgspec.structs.replace(many, orders=[[], [], [], []])
    text = report(many, replay(pipeline), 400).plain
    assert "   0  0:noner  4:noner" in text
    assert "stage:layers (r: recomputed)" in text
    assert "stage:layers" not in report(plan, timeline).plain


def test_the_document_says_all() -> None:
    plan = v_plan(step_ns=3 * MS)
    timeline = replay(plan)
    document = report_document(plan, timeline)
    assert msgspec.json.decode(msgspec.json.encode(document)) == document
    assert (document["profile"], document["num_ranks"], document["num_stages"]) == ("toy", 4, 8)
    assert document["step_time_ns"] == timeline.step_time_ns
    assert document["bound"]["plan_ns"] == plan.bound.plan_ns
    assert document["baseline"]["speedup"] == 1.25
    for rank in document["ranks"]:
        parts = [*rank["bubbles_ns"].values(), rank["busy_ns"], rank["step_ns"]]
        assert sum(parts) == timeline.step_time_ns
        assert rank["busy_ns"] == 4 * 2 * 30 * MS
        assert rank["state_bytes"] == GIB
        assert rank["headroom_bytes"] == 2 * GIB - rank["peak_memory_bytes"]
    assert document["ranks"][0]["stages"] == [0, 7]
    assert document["stages"][7] == {
        "stage": 7,
        "rank": 0,
        "layers": [14, 16],
        "kinds": ["mamba", "mlp"],
        "recompute": False,
        "load_ns": 4 * 30 * MS,
        "state_bytes": GIB // 2,
    }
    assert document["fits"] is True


def test_the_document_without_limit_and_baseline() -> None:
    plan = msgspec.structs.replace(v_plan(limit_gib=None), baseline=None)
    document = report_document(plan, replay(plan))
    assert document["baseline"] is None
    assert document["ranks"][0]["headroom_bytes"] is None


def test_lengths_and_what_many_sets_of_them_cost() -> None:
    plan = v_plan(step_ns=3 * MS)
    timeline = replay(plan)
    request = msgspec.structs.replace(plan.request, lengths={"te\nxt": [0.25, 1, 2.5, 1]})
    differs = msgspec.structs.replace(plan, request=request, microbatch_order=[2, 0, 1, 3])
    text = report(differs, timeline, 100).plain
    assert "0.25 to 2.5 of the profile's; micro-batches in the order 2, 0, 1, 3" in text
    assert "te\nxt" not in text
    figures = RobustFigures(digest="sha256:" + "0" * 64, count=32, mean_ns=400 * MS, p95_ns=500 * MS, worst_ns=600 * MS)
    robust = msgspec.structs.replace(plan, robust=figures)
    text = " ".join(report(robust, timeline, 100).plain.split())
    assert "mean 400.0 ms, 95th percentile 500.0 ms, worst 600.0 ms over 32 steps' lengths" in text
    assert report_document(robust, timeline)["robust"]["p95_ns"] == 500 * MS
