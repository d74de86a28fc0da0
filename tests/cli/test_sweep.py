"""The command line of ``octopipe sweep``, with a small budget for its searches."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from octopipe_cli import search
from octopipe_cli.errors import LimitError
from octopipe_cli.plan import load_plan
from tests.cli.conftest import Octopipe
from tests.search.test_planner import BUDGET

MAKE_PLAN = search.make_plan


def words(text: str) -> list[str]:
    """Return the arguments of a command on the folder's files: profile and cluster after its name."""
    name, *more = text.split()
    return [name, "profile.json", "cluster.json", *more]


@pytest.fixture(autouse=True)
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Let searches be short; return what they were asked for."""
    requests: list[Any] = []

    def make_plan(profile: Any, cluster: Any, request: Any, **rest: Any) -> Any:
        requests.append((request, rest["warm"]))
        if request.num_microbatches == 13:
            raise LimitError("no plan was found")
        return MAKE_PLAN(profile, cluster, request, **{**rest, "budget": BUDGET})

    monkeypatch.setattr(search, "make_plan", make_plan)
    return requests


@pytest.fixture
def limited(folder: Path) -> Path:
    """Return the folder, with a profile that has bytes."""
    profile = json.loads((folder / "profile.json").read_text())
    for kind in profile["kinds"].values():
        kind.update(state_bytes=2**30, activation_bytes=2**28, weight_activation_bytes=2**27, output_bytes=2**20)
    (folder / "profile.json").write_text(json.dumps(profile))
    return folder


def test_more_memory_is_never_slower_and_too_little_says_so(
    limited: Path, octopipe: Octopipe, asked: list[Any]
) -> None:
    result = octopipe(*words("sweep -m 6 --memory 2:4.5:0.5 -o plans --format json"))
    assert result.code == 0
    points = json.loads(result.out)["points"]
    assert [entry["value"] for entry in points] == [2, 2.5, 3, 3.5, 4, 4.5]
    assert points[0]["status"] == "infeasible"
    assert "would need" in points[0]["message"]
    planned = [entry for entry in points if entry["status"] == "planned"]
    steps = [entry["step_time_ns"] for entry in planned]
    assert steps == sorted(steps, reverse=True)
    assert len(set(steps)) > 1
    assert "octopipe: 1/6 memory 2: infeasible" in result.err
    files = [f"memory-{entry['value']:g}.plan.json" for entry in planned]
    assert {path.name for path in Path("plans").glob("*.plan.json")} == set(files)
    for name, entry in zip(files, planned, strict=True):
        cluster = f"plans/{name.replace('plan', 'cluster')}"
        verified = octopipe("verify", f"plans/{name}", "--profile", "profile.json", "--cluster", cluster)
        assert verified.code == 0, verified
        assert load_plan(f"plans/{name}").value.predicted.step_time_ns == entry["step_time_ns"]
    before = load_plan(f"plans/{files[0]}")
    assert load_plan(f"plans/{files[1]}").value.request.warm_start == before.digest
    first = len(points) - len(planned)
    assert [warm is None for _, warm in asked] == [at <= first for at in range(len(points))]


def test_a_plan_that_needs_less_serves_the_points_before_it(
    folder: Path, octopipe: Octopipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first search does badly, the second does not, and its plan needs no more memory."""
    calls: list[Any] = []

    def make_plan(profile: Any, cluster: Any, request: Any, **rest: Any) -> Any:
        calls.append(rest["warm"])
        if len(calls) == 1:
            request = msgspec.structs.replace(request, backward="fused", placement="cyclic", max_stages_per_rank=1)
        return MAKE_PLAN(profile, cluster, request, **{**rest, "budget": BUDGET})

    monkeypatch.setattr(search, "make_plan", make_plan)
    result = octopipe(*words("sweep -m 4 --memory 1,2 -o plans --format json"))
    first, second = json.loads(result.out)["points"]
    assert first["step_time_ns"] == second["step_time_ns"]
    assert (first["pareto"], second["pareto"]) == (True, False)
    assert "octopipe: again memory 1: " in result.err
    before, start, kept = (load_plan(f"plans/memory-{name}.plan.json") for name in ("1.start-1", "2", "1"))
    assert before.value.predicted.step_time_ns > first["step_time_ns"]
    assert [plan and plan.digest for plan in calls] == [None, before.digest, start.digest]
    assert kept.value.request.warm_start == start.digest


def test_the_same_points_with_any_number_of_jobs(limited: Path, octopipe: Octopipe) -> None:
    arguments = words("sweep -m 4 --memory 3:4 --format json --jobs")
    assert octopipe(*arguments, 1).out == octopipe(*arguments, 2).out


def test_the_table_the_chart_and_the_picture(folder: Path, octopipe: Octopipe) -> None:
    result = octopipe(*words("sweep --microbatches 2,4,13 --svg rate.svg"))
    assert result.code == 0
    lines = result.out.splitlines()
    assert lines[0].startswith("microbatches")
    assert lines[3].split() == ["13", "no", "plan"]
    assert "13: no plan was found" in lines
    assert "throughput, micro-batches/s" in lines
    assert "◆ plan, no smaller value is as good" in result.out
    assert max(map(len, lines)) <= 100
    assert Path("rate.svg").read_text().startswith("<svg ")
    assert "throughput" not in octopipe(*words("sweep --microbatches 2 --no-plot")).out


def test_csv_and_ranks(folder: Path, octopipe: Octopipe, asked: list[Any]) -> None:
    result = octopipe(*words("sweep -m 2 --ranks 1,2 --format csv"))
    rows = list(csv.DictReader(io.StringIO(result.out)))
    assert [row["value"] for row in rows if row["schedule"] == "plan"] == ["1", "2"]
    assert [warm for _, warm in asked] == [None, None]
    assert octopipe(*words("sweep -m 2 --ranks 3")).code == 2


def test_stages_as_what_is_swept_and_as_a_limit(folder: Path, octopipe: Octopipe, asked: list[Any]) -> None:
    assert octopipe(*words("sweep -m 2 --max-stages-per-rank 1:2 --format json")).code == 0
    assert [request.max_stages_per_rank for request, _ in asked] == [1, 2]
    assert octopipe(*words("sweep -m 2 --max-stages-per-rank 1 --bandwidth 1,2 --format json")).code == 0
    assert [request.max_stages_per_rank for request, _ in asked[2:]] == [1, 1]


@pytest.mark.parametrize(("memory", "microbatches", "code"), [("0.5", "2", 3), ("1:1.5:0.5", "2", 3), (None, "13", 4)])
def test_exit_codes_where_no_point_has_a_plan(
    limited: Path, octopipe: Octopipe, memory: str | None, microbatches: str, code: int
) -> None:
    swept = ["--microbatches", microbatches] if memory is None else ["-m", microbatches, "--memory", memory]
    result = octopipe("sweep", "profile.json", "cluster.json", *swept)
    assert result.code == code
    assert result.out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("-m 2", "one quantity is swept at a time"),
        ("-m 2 --memory 1 --ranks 2", "one quantity is swept at a time"),
        ("-m 2 --memory 1 --noise 8%", "one quantity is swept at a time"),
        ("--memory 1", "missing option -m"),
        ("-m 2 --microbatches 4", "-m has no meaning"),
        ("-m 2 --noise 8% -o plans", "-o has no meaning"),
        ("-m 2 --memory 1 --plan plan.json", "--plan has no meaning"),
        ("-m 2 --noise eight", "--noise is no percentage"),
        ("-m 3 --noise 8% --plan plan.json", "another number of micro-batches"),
        ("-m 2 --memory 8:4", "--memory has no values"),
        ("-m 2 --memory 8 --svg -", "standard output has the points"),
        ("-m 2 --memory 8 --svg profile.json", "would replace the profile"),
        ("-m 2 --memory 8 --svg none/a.svg", "none/a.svg"),
        ("-m 2 --memory 8 -o profile.json", "cannot make the folder"),
    ],
)
def test_what_cannot_be_swept(folder: Path, octopipe: Octopipe, arguments: str, said: str) -> None:
    result = octopipe("sweep", "profile.json", "cluster.json", *arguments.split())
    assert (result.code, result.out) == (2, "")
    assert said in result.err


def test_a_plan_under_noise(folder: Path, octopipe: Octopipe) -> None:
    arguments = words("sweep -m 2 --noise 8% --plan plan.json")
    document = json.loads(octopipe(*arguments, "--format", "json").out)
    assert (document["noise_percent"], document["draws"], document["seed"]) == (8, 200, 0)
    plan, *others = document["rows"]
    assert (plan["schedule"], plan["step_time_ns"]) == ("plan", 26_000_000)
    assert {"1f1b", "gpipe"} <= {row["schedule"] for row in others}
    for row in document["rows"]:
        assert row["median_ns"] <= row["p95_ns"] <= row["worst_ns"]
        assert abs(row["median_ns"] / row["step_time_ns"] - 1) < 0.03
    # The example plan is 1F1B with the cuts of the classic one: alike in every draw.
    assert next(row for row in others if row["schedule"] == "1f1b")["plan_wins"] == 1
    still = json.loads(octopipe(*arguments, "--noise", "0", "--format", "json").out)
    assert all(row["worst_ns"] == row["step_time_ns"] for row in still["rows"])
    text = octopipe(*arguments)
    assert text.out.splitlines()[1].split()[:2] == ["plan", "26.00"]
    assert "log-normal" in text.out
    table = list(csv.DictReader(io.StringIO(octopipe(*arguments, "--format", "csv").out)))
    assert [row["schedule"] for row in table] == [row["schedule"] for row in document["rows"]]


def test_parts_of_a_plan_are_kept(folder: Path, octopipe: Octopipe, asked: list[Any]) -> None:
    arguments = words("plan -m 2 -o new.json --from plan.json --keep")
    assert octopipe(*arguments, "order,partition").code == 0
    (request, warm) = asked[0]
    assert (request.keep, request.warm_start) == (("partition", "order"), warm.digest)
    assert load_plan("new.json").value.predicted.step_time_ns == 26_000_000
    for flags, said in (
        (["--keep", "order"], "--from PLAN"),
        (["--from", "plan.json"], "--keep partition"),
        (["--keep", "cuts", "--from", "plan.json"], "--keep names something else"),
        (["--keep", "order,order", "--from", "plan.json"], "--keep names something else"),
        (["--keep", "order", "--from", "plan.json", "--warm-start", "plan.json"], "leave out --warm-start"),
        (["--keep", "order", "--from", "plan.json", "--stability", "1%"], "--stability"),
    ):
        result = octopipe("plan", "profile.json", "cluster.json", "-m", 2, *flags)
        assert result.code == 2
        assert said in result.err
