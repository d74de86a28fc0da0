"""Plans on PyTorch's runtime: `pytest -m engine`, with the extra octopipe[torch]."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest

from octopipe_cli.engines.megatron_orders import one_f_one_b
from octopipe_cli.engines.torch_lowering import swept
from octopipe_cli.export.torch_csv import compute_only
from octopipe_cli.plan import Plan, plan_text
from octopipe_cli.run.launch import execute
from octopipe_cli.run.measured import compare
from octopipe_cli.run.watch import RunError
from tests.documents import MODELS
from tests.engines.plans import plan_of
from tests.instances import Instance, plan_from, random_instance, random_orders
from tests.profiling import tiny_configs
from tests.run.jobs import small_job, timed_job

torch = pytest.importorskip("torch", reason="running plans needs the extra octopipe[torch]")
pytestmark = [pytest.mark.engine, pytest.mark.filterwarnings("default")]


def random_plan(seed: int) -> Plan:
    """Return a random plan of 2 to 4 ranks: stages of uneven number and anywhere, B beside I and W."""
    rng = Random(seed)
    while True:
        instance = random_instance(rng)
        if len(instance.orders) > 1:
            return plan_from(instance, engine="torch")


@pytest.mark.parametrize("seed", range(50))
def test_loss_and_every_gradient_of_random_plans(seed: int) -> None:
    job = small_job(random_plan(seed))
    outcome = execute(job)
    assert outcome is not None
    assert outcome.check is not None
    assert outcome.check.holds(job.tolerance), outcome.check
    assert outcome.check.parameters == 2 * job.plan.stages[-1].layers[1]
    assert compare(job.timeline, outcome).measured.orders == job.timeline.orders


@pytest.mark.parametrize("name", ["nemotron-nano-9b-v2", "jamba-52b", "llama3-8b"])
def test_loss_and_every_gradient_of_shipped_profiles(name: str, tmp_path: Path) -> None:
    """The plans that the command line makes for them, with small layers."""
    profile = json.loads((MODELS / f"{name}.json").read_text())
    hardware = next(iter(next(iter(profile["kinds"].values()))["times"]))
    cluster = {"ranks": [{"count": 4, "hardware": hardware, "memory_gib": None}], "name": "four"}
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps({"schema": "octopipe.cluster", "version": 1, **cluster}))
    made = tmp_path / "plan.json"
    arguments = ["plan", str(MODELS / f"{name}.json"), str(file), "-m", "6", "--effort", "quick", "-o", str(made)]
    octopipe(*arguments)
    from octopipe_cli.plan import load_plan

    job = small_job(load_plan(str(made)).value)
    outcome = execute(job)
    assert outcome is not None
    assert outcome.check is not None
    assert outcome.check.holds(job.tolerance), outcome.check


def octopipe(*arguments: str) -> str:
    """Run the command line and return what it prints."""
    command = [sys.executable, "-m", "octopipe_cli", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | {"COLUMNS": "100"})
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("seed", range(20))
def test_our_order_of_a_compute_only_schedule_is_torchs_own(seed: int) -> None:
    from torch.distributed.pipelining import schedules

    job = small_job(random_plan(seed))
    orders = job.timeline.orders
    rank_of = job.timeline.pipeline.rank_of
    rows = list(csv.reader(io.StringIO(compute_only(orders))))
    actions: dict[int, Any] = {
        rank: schedules._add_reduce_grad(
            schedules._add_unshard_reshard([schedules._Action.from_str(cell) for cell in row]),
            job.timeline.pipeline.num_microbatches,
        )
        for rank, row in enumerate(rows)
    }
    lowered = schedules._add_send_recv(actions, lambda stage: rank_of[stage], len(rank_of))
    for rank, program in enumerate(swept(orders)):
        theirs = [str(action) for action in lowered[rank]]
        ours = [str(step) for group in program for step in group]
        assert ours == [token for token in theirs if "SHARD" not in token and "REDUCE" not in token]


TIMED_MODEL = [["embedding", "transformer"], *[["transformer"] for _ in range(6)], ["transformer", "head"]]


def timed_plans() -> dict[str, tuple[Plan, float]]:
    """Return plans of 4 ranks with what to stretch them by: an F, I or W takes 30 ms or more then."""
    rng = Random(5)
    free = [0, 2, 1, 3, 3, 0, 2, 1]
    return {
        "1f1b": (plan_of(TIMED_MODEL[::2], [0, 1, 2, 3], one_f_one_b(4, 6), 6), 4.0),
        "cyclic": (plan_of(TIMED_MODEL, [0, 1, 2, 3] * 2, random_orders(rng, (0, 1, 2, 3) * 2, 4, [True] * 8), 4), 3.0),
        "free": (plan_of(TIMED_MODEL, free, random_orders(rng, tuple(free), 4, [True] + [False] * 7), 4), 3.0),
    }


def measured(plan: Plan, scale: float) -> tuple[int, int]:
    """Return predicted and measured step time, the fastest of 5."""
    job = timed_job(plan, scale, steps=5)
    outcome = execute(job)
    assert outcome is not None
    found = compare(job.timeline, outcome)
    return found.predicted.step_time_ns, found.measured.step_time_ns


@pytest.mark.timed
@pytest.mark.parametrize("name", ["1f1b", "cyclic", "free"])
def test_the_measured_step_is_within_5_percent_of_the_predicted_one(name: str) -> None:
    predicted, found = measured(*timed_plans()[name])
    assert abs(found - predicted) <= 0.05 * predicted, f"{found / predicted - 1:+.2%}"


@pytest.mark.timed
def test_the_faster_plan_measures_faster() -> None:
    plans = timed_plans()
    times = [measured(plans[name][0], 3.0) for name in ("cyclic", "free")]
    assert abs(times[0][0] - times[1][0]) > 0.05 * times[0][0]
    assert (times[0][0] < times[1][0]) == (times[0][1] < times[1][1])


@pytest.mark.timed
def test_transfers_take_their_time() -> None:
    """A pair of stages with 40 ms of link between them: F, transfer, F, B, transfer, B."""
    profile = {
        "schema": "octopipe.profile",
        "version": 1,
        "name": "pair",
        "kinds": {"a": {"times": {"g": {"forward_ms": 30, "backward_input_ms": 30, "backward_weight_ms": 30}}}},
        "layers": ["a", "a"],
    }
    cluster = {
        "schema": "octopipe.cluster",
        "version": 1,
        "name": "pair",
        "ranks": [{"count": 2, "hardware": "g", "memory_gib": None}],
        "links": {"within_node": {"latency_us": 40_000}},
    }
    from octopipe_cli.pipeline import Assignment

    assignment = Assignment((0, 1, 2), (0, 1), (False, False))
    plan = plan_from(Instance(profile, cluster, assignment, one_f_one_b(2, 1), 1))
    predicted, found = measured(plan, 1.0)
    assert predicted == 260_000_000
    assert 0 <= found - predicted < 0.05 * predicted


def test_a_run_that_hangs_is_stopped_and_says_where() -> None:
    plan = plan_of(TIMED_MODEL[::2], [0, 1, 2, 3], one_f_one_b(4, 2), 2)
    with pytest.raises(RunError, match=r"no action ended for 0\.5 s") as caught:
        execute(timed_job(plan, 1000.0, timeout_s=0.5))
    assert caught.value.found is not None
    assert "rank 0 is in 0F0, action 1 of 4; rank 1 is in 1F0" in caught.value.found


def test_a_rank_that_fails_is_named() -> None:
    job = small_job(random_plan(1))

    def broken(stage: int) -> Any:
        raise ValueError("no such layer")

    job.workload.module = broken  # type: ignore[method-assign]
    with pytest.raises(RunError, match=r"rank [0-3] failed: ValueError: no such layer"):
        execute(job)


def test_a_wrong_gradient_is_found() -> None:
    job = small_job(random_plan(2))
    right = job.workload.gradients

    def wrong(stage: int, module: Any) -> Any:
        return {name: gradient + (1e-6 if stage == 0 else 0) for name, gradient in right(stage, module).items()}

    job.workload.gradients = wrong  # type: ignore[method-assign]
    outcome = execute(job)
    assert outcome is not None
    assert outcome.check is not None
    assert not outcome.check.holds(job.tolerance)


@pytest.mark.parametrize(
    "config", [tiny_configs.LLAMA, tiny_configs.GEMMA, tiny_configs.MIXTRAL], ids=lambda c: c["model_type"]
)
def test_a_configs_own_layers(config: dict[str, Any], tmp_path: Path) -> None:
    """Cut after the first layer of the model; embedding and head on one rank, or weights of their own."""
    pytest.importorskip("transformers")
    file = tmp_path / "config.json"
    file.write_text(json.dumps(config))
    count = config["num_hidden_layers"]
    stages = (
        [["embedding", "t"], ["t"] * (count - 2), ["t", "head"]] if count > 2 else [["embedding", "t"], ["t", "head"]]
    )
    ranks = [0, 1, 0][: len(stages)] if count > 2 else [0, 1]
    orders = random_orders(Random(3), tuple(ranks), 3, [True] + [False] * (len(stages) - 1))
    plan = plan_of(stages, ranks, orders, 3)
    made = tmp_path / "plan.json"
    made.write_text(plan_text(plan))
    text = octopipe(
        "run", str(made), "--model", str(file), "--check", "--sequence-length", "12", "--steps", "1", "--format", "json"
    )
    check = json.loads(text)["check"]
    assert check["holds"], check
    assert check["missing"] == []


def test_under_torchrun(tmp_path: Path) -> None:
    plan = plan_of(TIMED_MODEL[::2][:2], [0, 1], one_f_one_b(2, 2), 2)
    made = tmp_path / "plan.json"
    made.write_text(plan_text(plan))
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone", "-m"]
    command += ["octopipe_cli", "run", str(made), "--timed", "--steps", "1", "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["step_time_ns"] > 0
