"""Plans whose micro-batches differ, on the command line: shown, exported and compared with their inputs."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest

from octopipe_cli.plan import plan_text
from tests.cli.conftest import Octopipe
from tests.instances import Instance, plan_from, random_instance


def an_instance() -> Instance:
    """Return one of several ranks, the first whose micro-batches take other times than they would alike."""
    for seed in range(100):
        instance = random_instance(Random(seed), lengths=True)
        plan = plan_from(instance)
        alike = plan_from(instance._replace(lengths=None, microbatch_order=None))
        if len(plan.ranks) > 1 and plan.predicted.step_time_ns > alike.predicted.step_time_ns > 0:
            return instance
    raise AssertionError("no such instance")


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    instance = an_instance()
    (tmp_path / "p.json").write_text(json.dumps(instance.profile))
    (tmp_path / "c.json").write_text(json.dumps(instance.cluster))
    (tmp_path / "a.plan.json").write_text(plan_text(plan_from(instance)))
    monkeypatch.chdir(tmp_path)
    return tmp_path


INPUTS = ("--profile", "p.json", "--cluster", "c.json")


def test_show_takes_profile_and_cluster(files: Path, octopipe: Octopipe) -> None:
    step = json.loads((files / "a.plan.json").read_text())["predicted"]["step_time_ns"]
    found = octopipe("show", "a.plan.json", "--format", "json", *INPUTS)
    assert found.code == 0, found.err
    assert json.loads(found.out)["step_time_ns"] == step
    assert octopipe("show", "a.plan.json", "--why", *INPUTS).code == 0


def test_show_without_them_says_what_to_give(files: Path, octopipe: Octopipe) -> None:
    found = octopipe("show", "a.plan.json")
    assert found.code == 2
    assert "--profile FILE --cluster FILE" in found.err
    found = octopipe("show", "a.plan.json", "--profile", "p.json")
    assert found.code == 2
    assert "--cluster" in found.err


def test_the_settings_name_them_too(files: Path, octopipe: Octopipe) -> None:
    text = '[plans]\n"a.plan.json" = { profile = "p.json", cluster = "c.json" }\n'
    (files / "octopipe.toml").write_text(text)
    assert octopipe("show", "a.plan.json", "--no-gantt").code == 0


def test_viewers_show_it_as_it_is_and_engines_get_it_padded(files: Path, octopipe: Octopipe) -> None:
    step = json.loads((files / "a.plan.json").read_text())["predicted"]["step_time_ns"]
    found = octopipe("export", "a.plan.json", "--to", "json", *INPUTS)
    assert json.loads(found.out)["step_time_ns"] == step
    found = octopipe("export", "a.plan.json", "--to", "torch-csv", *INPUTS)
    assert "padded to the longest: a step takes" in found.err or "padded to the longest they do not fit" in found.err
    assert octopipe("export", "a.plan.json", "--to", "svg").code == 2


def test_diff_takes_its_figures_as_given_without_them(files: Path, octopipe: Octopipe) -> None:
    document = json.loads((files / "a.plan.json").read_text())
    document["predicted"]["step_time_ns"] += 1000
    (files / "b.plan.json").write_text(json.dumps(document))
    found = octopipe("diff", "a.plan.json", "b.plan.json", "--fail-on", "never")
    assert "differ in length" in found.err
    assert "predicts a step time" not in found.out
    inputs = [f"--{side}-{what}" for side in ("old", "new") for what in ("profile", "cluster")]
    named = [part for flag in inputs for part in (flag, "p.json" if flag.endswith("profile") else "c.json")]
    found = octopipe("diff", "a.plan.json", "b.plan.json", "--fail-on", "never", *named)
    assert "predicts a step time" in found.out
    assert found.err == ""


def test_what_cannot_know_lengths_refuses(files: Path, octopipe: Octopipe) -> None:
    found = octopipe("run", "a.plan.json", "--timed")
    assert found.code == 2
    assert "tensors of one shape" in found.err


SHIPPED = Path(__file__).parents[2] / "profiles"


def unasked(text: str) -> str:
    """Return a plan's text without what it says of its request, its content's digest and how it was made."""
    document = json.loads(text)
    for key in ("request", "content_digest", "provenance"):
        document.pop(key, None)
    return json.dumps(document)


@pytest.mark.parametrize(
    ("model", "effort", "memory_gib"),
    [
        ("toy", "quick", None),
        pytest.param("llama3-8b", "standard", None, marks=pytest.mark.slow),
        pytest.param("nemotron-nano-9b-v2", "standard", None, marks=pytest.mark.slow),
        pytest.param("gemma-3-27b", "standard", 80, marks=pytest.mark.slow),
    ],
)
def test_lengths_of_one_change_nothing_but_the_request(
    folder: Path, octopipe: Octopipe, model: str, effort: str, memory_gib: int | None
) -> None:
    profile = str(folder / "profile.json") if model == "toy" else model
    hardware = json.loads((SHIPPED / "models" / f"{model}.json").read_text())["kinds"] if model != "toy" else {}
    cluster = "cluster.json"
    if hardware:
        name = next(iter(next(iter(hardware.values()))["times"]))
        group = {"count": 4, "hardware": name, "memory_gib": memory_gib}
        document = {"schema": "octopipe.cluster", "version": 1, "name": "four", "ranks": [group]}
        (folder / "cluster.json").write_text(json.dumps(document))
    modalities = {"text", "vision"} if model == "gemma-3-27b" else {"text"}
    (folder / "ones.json").write_text(json.dumps(dict.fromkeys(sorted(modalities), [1.0] * 8)))
    common = ("plan", profile, cluster, "-m", 8, "--effort", effort, "--no-gantt", "-o")
    assert octopipe(*common, "without.plan.json").code == 0
    assert octopipe(*common, "with.plan.json", "--lengths", "ones.json").code == 0
    plain, ones = ((folder / f"{name}.plan.json").read_text() for name in ("without", "with"))
    assert json.loads(ones)["request"]["lengths"]["text"] == [1.0] * 8
    assert unasked(plain) == unasked(ones)
