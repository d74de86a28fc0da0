"""Plans to export, small enough to check by hand, and one whose every name is hostile."""

from __future__ import annotations

import msgspec

from octopipe_cli.formats import Loaded
from octopipe_cli.plan import Bound, InputFile, Inputs, Plan, StageBytes, TransferTimes
from tests.render.plans import DIGEST, GIB, MS, make_plan, one_f_one_b, v_plan, with_figures

#: 1 ms and 1 ns: what a float of milliseconds would lose.
LAG = MS + 1
HOSTILE = "</script></title><img src=x onerror=alert(1)>\"'`&amp;]]>{{}}\x1b[31m\u202e\u2028"


def loaded(plan: Plan) -> Loaded[Plan]:
    return Loaded(plan, "plan.json", DIGEST)


def two_ranks() -> Loaded[Plan]:
    """Return 1F1B on 2 ranks, 2 micro-batches: F 10 ms, B 20 ms, transfers of 1.000001 ms, step 2 ms.

    Rank 0: 0F0 0-10, 0F1 10-20, 0B0 42.000002-62.000002, 0B1 72.000002-92.000002; rank 1: 1F0 11.000001, 1B0 21.000001,
    1F1 41.000001, 1B1 51.000001-71.000001.
    """
    plan = make_plan([0, 1], one_f_one_b(2, 2), {"F": 10 * MS, "B": 20 * MS}, num_microbatches=2, step_ns=2 * MS)
    sizes = StageBytes(state=GIB // 2, held=GIB // 16, input=4096, output=8192)
    lags = (TransferTimes(forward=LAG, backward=0), TransferTimes(forward=0, backward=LAG))
    stages = [
        msgspec.structs.replace(stage, transfer_ns=lag, bytes=sizes)
        for stage, lag in zip(plan.stages, lags, strict=True)
    ]
    return loaded(with_figures(msgspec.structs.replace(plan, stages=stages)))


def hostile() -> Loaded[Plan]:
    """Return a plan in which every text that a file can hold tries to break out of where it is shown."""
    plan = v_plan()
    assert plan.baseline is not None
    replace = msgspec.structs.replace
    name = InputFile(name=HOSTILE, digest=DIGEST)
    return loaded(
        replace(
            plan,
            created_by=HOSTILE,
            inputs=Inputs(profile=name, cluster=name),
            bound=Bound(step_time_ns=plan.bound.step_time_ns, gap=0.02, scope=HOSTILE),
            baseline=replace(plan.baseline, schedule=HOSTILE, partition=HOSTILE),
            kinds={HOSTILE: "decoder"},
            ranks=[replace(rank, hardware=HOSTILE) for rank in plan.ranks],
            stages=[replace(stage, kinds=[HOSTILE, HOSTILE]) for stage in plan.stages],
        )
    )
