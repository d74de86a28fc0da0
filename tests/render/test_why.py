from __future__ import annotations

import json
from collections.abc import Callable

import msgspec
import pytest

from octopipe_cli.explain import explain
from octopipe_cli.plan import Bound, Plan, TransferTimes
from octopipe_cli.render.glyphs import ASCII
from octopipe_cli.render.why import why
from octopipe_cli.render.why_document import why_document
from tests.render.plans import GIB, MS, make_plan, one_f_one_b, replay, v_plan, wide_plan, with_figures

Golden = Callable[[str, str], None]


def text(plan: Plan, width: int = 400) -> str:
    return why(plan, explain(plan, replay(plan)), width).plain


def full_plan() -> Plan:
    """Return 1F1B with blocking transfers on 4 ranks, the first of which is as full as can be."""
    plan = make_plan(list(range(4)), one_f_one_b(4, 6), {"F": 10 * MS, "B": 20 * MS}, num_microbatches=6)
    transfers = [TransferTimes(forward=MS if s < 3 else 0, backward=MS if s else 0) for s in range(4)]
    plan = msgspec.structs.replace(
        plan,
        p2p="blocking",
        stages=[msgspec.structs.replace(s, transfer_ns=t) for s, t in zip(plan.stages, transfers, strict=True)],
        ranks=[
            msgspec.structs.replace(rank, memory_limit_bytes=limit)
            for rank, limit in zip(plan.ranks, (GIB // 2 + 4 * GIB // 16, GIB, None, GIB), strict=True)
        ],
    )
    return with_figures(plan)


@pytest.mark.parametrize(
    ("name", "plan", "width"),
    [
        ("v-80", v_plan(step_ns=3 * MS), 80),
        ("wide-60", wide_plan(8, 20), 60),
        ("blocking-100", full_plan(), 100),
        ("one-rank-80", make_plan([0], one_f_one_b(1, 3), {"F": 100 * MS, "B": 200 * MS}, num_microbatches=3), 80),
        ("nothing-80", make_plan([0], one_f_one_b(1, 1), {"F": 0, "B": 0}, num_microbatches=1), 80),
    ],
)
def test_why(name: str, plan: Plan, width: int, golden: Golden) -> None:
    shown = text(plan, width)
    assert max(map(len, shown.splitlines())) <= width
    golden(f"why-{name}.txt", shown)


@pytest.mark.parametrize(
    ("bound_ns", "scope", "said"),
    [
        (9 * MS, "any plan", "Optimal: the step time equals the bound (any plan)."),
        (0, "any plan", "The plan records no bound."),
        (10 * MS, "any plan", "The recorded bound of 10.00 ms is above the step time: `octopipe verify` tells more."),
        (
            8 * MS,
            "V placement",
            "The bound (V placement) is 8.000 ms: the step is 1.000 ms (12.5 %) above it. No other",
        ),
    ],
)
def test_the_bound_in_words(bound_ns: int, scope: str, said: str) -> None:
    plan = make_plan([0, 1], one_f_one_b(2, 2), {"F": MS, "B": 2 * MS}, num_microbatches=2)
    plan = msgspec.structs.replace(plan, bound=Bound(step_time_ns=bound_ns, gap=0.0, scope=scope))
    assert said in text(plan)


def asked(**request: object) -> Plan:
    plan = make_plan([0, 1], one_f_one_b(2, 2), {"F": MS, "B": 2 * MS}, num_microbatches=2)
    return with_figures(
        msgspec.structs.replace(plan, request=msgspec.structs.replace(plan.request, **request))  # type: ignore[arg-type]
    )


def test_what_the_request_changes() -> None:
    assert "The engine fixes the orders: only another partition" in text(asked(engine="megatron"))
    assert "The engine fixes the orders" not in text(asked(engine="torch"))
    assert "9.000 ms; the plan was made for a short span, which is not explained here. Rank" in text(
        asked(objective="span")
    )


def test_a_rank_without_work() -> None:
    plan = make_plan([0], one_f_one_b(1, 2), {"F": MS, "B": 2 * MS}, num_microbatches=2)
    idle = msgspec.structs.replace(plan, ranks=plan.ranks * 2, orders=[*plan.orders, []])
    assert "    6.000  100.0     1  all the time: it has no work\n" in text(idle)
    stepping = msgspec.structs.replace(plan.ranks[0], step_ns=100 * MS)
    shown = text(msgspec.structs.replace(idle, ranks=[plan.ranks[0], stepping]))
    assert "0  after its last action, until the step ends on rank 1\n" in shown
    assert "0 ns of work, 100.0 ms of optimizer step." in shown


def test_the_gap_is_split_between_order_and_partition() -> None:
    plan = v_plan()  # 555 ms; its partition needs 270 ms and the way there
    bound = Bound(step_time_ns=250 * MS, gap=0.0, scope="any plan")
    explanation = explain(msgspec.structs.replace(plan, bound=bound), replay(plan))
    least = explanation.bounds.plan.total_ns
    assert (explanation.bounds.order_ns, explanation.bounds.partition_ns) == (555 * MS - least, least - 250 * MS)
    assert f"can gain at most {(555 * MS - least) / MS:.1f} ms, another partition" in why(plan, explanation, 400).plain


def test_names_cannot_disturb_the_terminal() -> None:
    hostile = "\x1b[31mred[/bold]\u202e\n# head"
    plan = v_plan()
    stages = [msgspec.structs.replace(stage, kinds=[hostile, hostile]) for stage in plan.stages]
    plan = msgspec.structs.replace(
        plan, stages=stages, bound=Bound(step_time_ns=1, gap=0.0, scope=hostile), kinds={hostile: "decoder"}
    )
    explanation = explain(plan, replay(plan))
    shown = why(plan, explanation, 400)
    assert "\x1b" not in shown.plain
    assert "\u202e" not in shown.plain
    assert "\n# head" not in shown.plain
    assert "\\x1b[31mred[/bold]" in shown.plain
    assert {str(span.style) for span in shown.spans} == {"dim"}
    assert why(plan, explanation, 400, ASCII).plain.isascii()


def test_the_document_says_all() -> None:
    plan = v_plan(step_ns=3 * MS)
    timeline = replay(plan)
    document = why_document(explain(plan, timeline))
    assert json.loads(json.dumps(document)) == document
    path = document["critical_path"]
    assert path["work_ns"] + path["transfer_ns"] + path["step_ns"] == timeline.step_time_ns
    assert path["actions"][:2] == ["0F0", "1F0"]
    assert sum(run["num_actions"] for run in path["runs"]) == len(path["actions"])
    assert document["bubbles"][0] == {
        "rank": 3,
        "place": "between",
        "count": 4,
        "total_ns": 252 * MS,
        "longest_ns": 63 * MS,
        "from_ns": 80 * MS,
        "action": "4I0",
        "waits_for": "5I0",
        "waits_for_rank": 2,
        "ready": {"action": "4F1", "duration_ns": 10 * MS, "lacking_bytes": 0},
    }
    gains = [change["gain_ns"] for change in document["would_help"]]
    assert gains == sorted(gains, reverse=True)
