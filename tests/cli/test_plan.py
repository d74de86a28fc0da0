"""The command line of ``octopipe plan``, with a stand-in for the search: where output goes, what ends the search."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from octopipe_cli import search
from octopipe_cli.config import load_config, plan_entries
from octopipe_cli.errors import InfeasibleError, LimitError
from octopipe_cli.plan import Plan, Request, load_plan
from tests import documents
from tests.cli.conftest import Octopipe

ARGUMENTS = ("plan", "profile.json", "cluster.json", "-m", "2")


class StandIn:
    """In place of the search: notes what it was asked and returns the example plan."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.fails: Exception | None = None
        self.waits = False

    def make_plan(self, profile: Any, cluster: Any, request: Request, **rest: Any) -> Plan:
        self.asked.append({"profile": profile, "cluster": cluster, "request": request, **rest})
        if self.waits:
            os.kill(os.getpid(), signal.SIGINT)
            assert rest["stop"].wait(10)
        if self.fails is not None:
            raise self.fails
        return load_plan(str(documents.PLAN)).value


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    made = StandIn()
    monkeypatch.setattr(search, "make_plan", made.make_plan, raising=False)
    return made


def test_a_plan_that_the_settings_pass_over_is_told_with_its_line(
    folder: Path, octopipe: Octopipe, stand_in: StandIn
) -> None:
    """As `init` names one plan, and others follow: the line is one that `verify --all` reads."""
    settings = folder / "octopipe.toml"
    settings.write_text("[diff]\n")
    assert octopipe(*ARGUMENTS).err == "octopipe: wrote toy.plan.json\n"  # there is no gate
    settings.write_text('[plans]\n"a.plan.json" = { profile = "profile.json", cluster = "cluster.json" }\n')
    (folder / "sub").mkdir()
    result = octopipe(*ARGUMENTS, "-o", "sub/b.plan.json", "--warm-start", str(documents.PLAN))
    assert result.code == 0
    wrote, told = result.err.splitlines()
    assert wrote == "octopipe: wrote sub/b.plan.json"
    said, line = told.split("; its line in the plans: ")
    assert said == "octopipe: octopipe.toml does not name this plan, for `verify --all`"
    settings.write_text(settings.read_text() + line + "\n")
    entry = plan_entries(load_config("octopipe.toml"))[1]
    assert (entry.plan, entry.profile, entry.cluster) == ("sub/b.plan.json", "profile.json", "cluster.json")
    assert entry.warm_start is not None
    assert os.path.samefile(entry.warm_start, documents.PLAN)
    assert octopipe(*ARGUMENTS, "-o", "sub/b.plan.json").err == "octopipe: wrote sub/b.plan.json\n"
    settings.write_text("[plans]\nwrong\n")
    assert octopipe(*ARGUMENTS).err == "octopipe: wrote toy.plan.json\n"


def test_the_plan_is_written_beside_its_chart_and_report(folder: Path, octopipe: Octopipe, stand_in: StandIn) -> None:
    result = octopipe(*ARGUMENTS)
    assert (result.code, result.err) == (0, "octopipe: wrote toy.plan.json\n")
    assert "rank" in result.out
    assert "▓▓ B backward, whole" in result.out
    assert "26.00 ms, 30.0 % above the bound of 20.00 ms (any plan)" in result.out
    assert max(map(len, result.out.splitlines())) <= 100
    written = load_plan("toy.plan.json").value
    assert msgspec.structs.replace(written, provenance={}) == load_plan(str(documents.PLAN)).value
    assert set(written.provenance) == {"wall_s", "date", "host"}
    assert octopipe("verify", "toy.plan.json", "--profile", "profile.json", "--cluster", "cluster.json").code == 0


def test_the_search_is_asked_for_what_the_flags_say(folder: Path, octopipe: Octopipe, stand_in: StandIn) -> None:
    flags = ["--effort", "quick", "--seed", "7", "--time-limit", "1.5", "--jobs", "3", "--recompute", "full"]
    flags += ["--backward", "fused", "--max-stages-per-rank", "2", "--placement", "v", "--objective", "span"]
    flags += ["--reorder-ranks", "--robust-noise", "8%"]
    assert octopipe(*ARGUMENTS, *flags).code == 0
    (asked,) = stand_in.asked
    assert asked["request"] == Request(
        num_microbatches=2,
        engine="any",
        recompute="full",
        effort="quick",
        seed=7,
        backward="fused",
        placement="v",
        objective="span",
        max_stages_per_rank=2,
        reorder_ranks=True,
        robust_noise_percent=8.0,
    )
    assert (asked["jobs"], asked["time_limit_s"], asked["observer"]) == (3, 1.5, None)
    assert (asked["profile"].value.name, asked["cluster"].value.name) == ("toy", "pair")


def test_a_search_may_begin_from_a_plan(folder: Path, octopipe: Octopipe, stand_in: StandIn) -> None:
    assert octopipe(*ARGUMENTS, "--warm-start", "plan.json", "-o", "plan.json", "--stability", "0.5%").code == 0
    (asked,) = stand_in.asked
    assert asked["warm"].value == load_plan(str(documents.PLAN)).value
    assert asked["request"] == Request(
        num_microbatches=2, warm_start=load_plan(str(documents.PLAN)).digest, stability_percent=0.5
    )
    octopipe(*ARGUMENTS)
    assert (stand_in.asked[1]["warm"], stand_in.asked[1]["request"].warm_start) == (None, None)


@pytest.mark.parametrize(
    ("flags", "word"),
    [
        (("--warm-start", "none.json"), "none.json"),
        (("--stability", "1%"), "--warm-start PLAN"),
        (("--warm-start", "plan.json", "--stability", "-1"), "no percentage"),
        (("--warm-start", "plan.json", "--stability", "101%"), "no percentage"),
        (("--warm-start", "plan.json", "--stability", "much"), "no percentage"),
    ],
)
def test_what_a_search_cannot_begin_from(
    folder: Path, octopipe: Octopipe, stand_in: StandIn, flags: tuple[str, ...], word: str
) -> None:
    result = octopipe(*ARGUMENTS, *flags)
    assert (result.code, result.out) == (2, "")
    assert word in result.err
    assert stand_in.asked == []


def test_by_default_all_cores_search_without_a_time_limit(folder: Path, octopipe: Octopipe, stand_in: StandIn) -> None:
    octopipe(*ARGUMENTS)
    (asked,) = stand_in.asked
    assert asked["request"] == Request(num_microbatches=2)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    assert (asked["jobs"], asked["time_limit_s"]) == (cores, None)


def test_the_plan_may_be_the_payload(folder: Path, octopipe: Octopipe, stand_in: StandIn) -> None:
    before = sorted(folder.iterdir())
    result = octopipe(*ARGUMENTS, "-o", "-")
    assert result.code == 0
    assert json.loads(result.out)["schema"] == "octopipe.plan"
    assert "B backward, whole" in result.err
    assert sorted(folder.iterdir()) == before


def test_the_chart_may_be_left_out(folder: Path, octopipe: Octopipe, stand_in: StandIn) -> None:
    result = octopipe(*ARGUMENTS, "--no-gantt", "-o", "x.json")
    assert "B backward, whole" not in result.out
    assert result.out.startswith("step time")
    assert load_plan("x.json").value.predicted.step_time_ns == 26_000_000


def test_the_report_may_be_json(folder: Path, octopipe: Octopipe, stand_in: StandIn) -> None:
    report = json.loads(octopipe(*ARGUMENTS, "--format", "json").out)
    assert (report["step_time_ns"], report["num_stages"]) == (26_000_000, 2)


def test_inputs_may_come_from_standard_input(folder: Path, octopipe: Octopipe, stand_in: StandIn) -> None:
    for arguments, file in ((("plan", "-", "cluster.json"), "profile"), (("plan", "profile.json", "-"), "cluster")):
        assert octopipe(*arguments, "-m", 2, stdin=(folder / f"{file}.json").read_bytes()).code == 0
    assert len(stand_in.asked) == 2


@pytest.mark.parametrize("output", ["none/x.json", ".", "profile.json", "locked.json"])
def test_an_output_that_cannot_be_written_is_found_before_the_search(
    folder: Path, octopipe: Octopipe, stand_in: StandIn, output: str
) -> None:
    (folder / "locked.json").write_text("old")
    (folder / "locked.json").chmod(0o444)
    result = octopipe(*ARGUMENTS, "-o", output)
    assert result.code == 2
    assert output in result.err
    assert stand_in.asked == []


@pytest.mark.parametrize(
    ("error", "code"),
    [(InfeasibleError("rank 1 needs 3 GiB", remedy="more ranks"), 3), (LimitError("no plan within 1 s"), 4)],
)
def test_without_a_plan_nothing_is_written(
    folder: Path, octopipe: Octopipe, stand_in: StandIn, error: Exception, code: int
) -> None:
    stand_in.fails = error
    before = sorted(folder.iterdir())
    result = octopipe(*ARGUMENTS)
    assert (result.code, result.out) == (code, "")
    assert str(error).splitlines()[0] in result.err
    assert sorted(folder.iterdir()) == before


def test_ctrl_c_keeps_the_best_plan(folder: Path, octopipe: Octopipe, stand_in: StandIn) -> None:
    stand_in.waits = True
    before = signal.getsignal(signal.SIGINT)
    result = octopipe(*ARGUMENTS)
    assert result.code == 130
    assert "interrupted: this is the best plan so far" in result.err
    assert "step time" in result.out
    assert load_plan("toy.plan.json").value.predicted.step_time_ns == 26_000_000
    assert signal.getsignal(signal.SIGINT) is before


def test_ctrl_c_before_there_is_a_plan(folder: Path, octopipe: Octopipe, stand_in: StandIn) -> None:
    stand_in.waits, stand_in.fails = True, LimitError("stopped before there was a plan")
    result = octopipe(*ARGUMENTS)
    assert (result.code, result.out, result.err) == (130, "", "octopipe: error: interrupted before there was a plan\n")
    assert not Path("toy.plan.json").exists()


STUBBORN = """
import sys, time
from octopipe_cli import search
def make_plan(*arguments, **options):
    print("searching", flush=True)
    time.sleep(60)
search.make_plan = make_plan
from octopipe_cli.cli import main
main(sys.argv[1:])
"""


def test_a_second_ctrl_c_ends_at_once(folder: Path) -> None:
    arguments = [sys.executable, "-c", STUBBORN, *ARGUMENTS]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "searching\n"
        process.send_signal(signal.SIGINT)
        time.sleep(0.3)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 130
    assert not Path("toy.plan.json").exists()


TALKING = """
import sys
from octopipe_cli import search
from octopipe_cli.plan import load_plan
def make_plan(*arguments, observer, **options):
    observer(search.Progress("tuning", 26_000_000, 20_000_000, 1000, 2.0))
    return load_plan("plan.json").value
search.make_plan = make_plan
from octopipe_cli.cli import main
main(sys.argv[1:])
"""


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="no pseudo-terminals here")
def test_progress_is_shown_on_a_terminal(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    ours, theirs = os.openpty()
    arguments = [sys.executable, "-c", TALKING, *ARGUMENTS]
    done = subprocess.run(arguments, stdout=subprocess.PIPE, stderr=theirs, text=True, check=True)
    os.close(theirs)
    shown = os.read(ours, 100_000).decode()
    os.close(ours)
    assert "tuning" in shown
    assert "best 26.00 ms" in shown
    assert "500 candidates/s" in shown
    assert "octopipe: wrote toy.plan.json" in shown
    assert "candidates/s" not in done.stdout


def test_a_search_off_the_main_thread_needs_no_signals(folder: Path, stand_in: StandIn) -> None:
    from octopipe_cli.cli.searching import search as run_search
    from octopipe_cli.cluster import load_cluster
    from octopipe_cli.profile import load_profile

    found: list[Any] = []

    def work() -> None:
        request = Request(num_microbatches=2)
        found.append(run_search(load_profile("profile.json"), load_cluster("cluster.json"), request, 1, None))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found[0][1] is False
