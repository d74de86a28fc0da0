"""From a config and a line to a plan, and all that can be wrong on the way."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from octopipe_cli.cli.init_text import continued
from octopipe_cli.config import load_config, plan_entries
from octopipe_cli.named import read_cluster, read_profile
from tests.cli.conftest import Octopipe

SMALL = {
    "model_type": "llama",
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 6,
    "num_attention_heads": 8,
    "num_key_value_heads": 8,
    "vocab_size": 1000,
}


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    folder = tmp_path / "small"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(SMALL))
    monkeypatch.chdir(tmp_path)
    return "small/config.json"


def test_the_whole_way_to_a_valid_plan(octopipe: Octopipe, config: str) -> None:
    made = octopipe(
        "init", config, "--cluster", "2x(1xh100-sxm)@50GB/s", "--global-batch-size", 2, "-o", "out", "--format", "json"
    )
    assert (made.code, made.err) == (0, "")
    facts = json.loads(made.out)
    assert facts["files"] == ["out/small.profile.json", "out/small.cluster.json", "out/octopipe.toml"]
    assert (facts["devices"], facts["ranks"], facts["num_microbatches"], facts["tokens_per_step"]) == (2, 2, 2, 8192)
    first = facts["next"][0]["run"].split()
    assert (
        octopipe(*first[1:], "--effort", "quick", "--jobs", "1", "--max-stages-per-rank", "1", "--time-limit", "1").code
        == 0
    )
    shown = json.loads(octopipe("show", "out/small.plan.json", "--format", "json").out)
    assert shown["throughput"]["devices"] == 2
    assert 0 < shown["throughput"]["mfu"] < 1
    assert "\nMFU " in octopipe("show", "out/small.plan.json", "--no-gantt").out
    files = ["--profile", "out/small.profile.json", "--cluster"]
    # The cluster's file is what the line stands for: one digest.
    for cluster in ("out/small.cluster.json", "2x(1xh100-sxm)@50GB/s"):
        assert octopipe("verify", "out/small.plan.json", *files, cluster).code == 0
    (entry,) = plan_entries(load_config("out/octopipe.toml"))
    assert (entry.plan, entry.profile) == ("out/small.plan.json", "out/small.profile.json")


def test_devices_become_ranks(octopipe: Octopipe, config: str) -> None:
    options = ("--tensor-parallel", 2, "--pipeline-parallel", 4, "--global-batch-size", 64)
    made = octopipe("init", config, "--cluster", "2x(8xh100-sxm)", *options, "--format", "json")
    facts = json.loads(made.out)
    assert (facts["devices_per_rank"], facts["data_parallel"], facts["num_microbatches"]) == (4, 2, 32)
    cluster = read_cluster("small.cluster.json").value
    assert [(group.count, group.node) for group in cluster.ranks] == [(2, 0), (2, 1)]
    assert cluster.name == "2x(8xh100-sxm)/4"
    training = read_profile("small.profile.json").value.training
    assert (training.tensor_parallel, training.data_parallel) == (2, 2)


def test_mixed_devices_have_a_column_each(octopipe: Octopipe, config: str) -> None:
    assert octopipe("init", config, "--cluster", "2xa100-40gb+2xh100-sxm").code == 0
    assert read_profile("small.profile.json").value.hardware == ("a100-40gb", "h100-sxm")


def test_nothing_is_overwritten_silently(octopipe: Octopipe, config: str) -> None:
    start = ("init", config, "--cluster", "4xh100-sxm")
    assert octopipe(*start).code == octopipe(*start).code == 0  # the same once more: nothing to lose
    before = {path.name: path.read_bytes() for path in Path().glob("*.*")}
    other = octopipe(*start, "--sequence-length", "8192")
    assert (other.code, other.out) == (2, "")
    assert "the file is there already" in other.err
    assert "--force" in other.err
    assert {path.name: path.read_bytes() for path in Path().glob("*.*")} == before
    assert octopipe(*start, "--sequence-length", "8192", "--force").code == 0


def test_settings_that_are_there_stay(octopipe: Octopipe, config: str) -> None:
    Path("octopipe.toml").write_text('# ours\n[plans]\n"a.json" = { profile = "p", cluster = "c" }\n\n[diff]\n')
    assert octopipe("init", config, "--cluster", "4xh100-sxm").code == 0
    text = Path("octopipe.toml").read_text()
    assert text.startswith("# ours\n[plans]\n")
    assert text.endswith("\n[diff]\n")
    assert [entry.plan for entry in plan_entries(load_config("octopipe.toml"))] == ["small.plan.json", "a.json"]


def test_the_project_s_settings_are_not_hidden(octopipe: Octopipe, config: str) -> None:
    Path("pyproject.toml").write_text("[tool.octopipe.plans]\n")
    result = octopipe("init", config, "--cluster", "4xh100-sxm")
    assert result.code == 0
    assert not Path("octopipe.toml").exists()
    assert 'add to [tool.octopipe.plans] of pyproject.toml: "small.plan.json" = {' in result.out


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--cluster", "8xh100"), 'did you mean "h100-sxm"?'),
        (("--cluster", "cluster.json"), "octopipe profile estimate is all that is missing"),
        (("--cluster", "8xH100-SXM"), 'did you mean "h100-sxm"?'),
        (("--cluster", "2x4xh100-sxm"), "2x(4xh100-sxm)"),
        (("--cluster", "8xh100-sxm", "--tensor-parallel", 3), "tensor parallel 3 does not fit into the nodes"),
        (("--cluster", "2x(4xh100-sxm)", "--tensor-parallel", 8), "a node of 4 devices"),
        (("--cluster", "8xh100-sxm", "--pipeline-parallel", 3), "degrees whose product divides 8"),
        (("--cluster", "16xh100-sxm"), "give --pipeline-parallel 8 (then 2 replicas)"),
        (("--cluster", "8xh100-sxm", "--expert-parallel", 2), "has no experts to spread"),
        (("--cluster", "4xh100-sxm", "--pipeline-parallel", 2, "--global-batch-size", 3), "that 2 divides"),
        (("--cluster", "4xh100-sxm:times=mine"), "has no times"),
    ],
)
def test_errors_help(octopipe: Octopipe, config: str, options: tuple[object, ...], said: str) -> None:
    result = octopipe("init", config, *options)
    assert (result.code, result.out) == (2, "")
    assert said in " ".join(result.err.split())
    assert sorted(path.name for path in Path().iterdir()) == ["small"]


def test_a_line_of_other_ranks_than_the_profile_s_is_told(octopipe: Octopipe, config: str) -> None:
    octopipe("init", config, "--cluster", "4xh100-sxm", "--tensor-parallel", 2)
    compare = ("compare", "small.profile.json", "-m", 2)
    said = octopipe(*compare, "2xh100-sxm")
    assert said.code == 0
    assert "the profile is cut for 2 (tensor x context parallel): 2xh100-sxm/2 has" in said.err
    assert octopipe(*compare, "4xh100-sxm/2").err == ""


def test_a_config_is_no_profile(octopipe: Octopipe, config: str) -> None:
    result = octopipe("compare", config, "4xh100-sxm", "-m", 2)
    assert result.code == 2
    assert f"octopipe init {config} --cluster 8xh100-sxm" in result.err


def test_a_model_that_cannot_fit_is_told(octopipe: Octopipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = octopipe("init", "llama-3.1-405b", "--cluster", "8xh100-sxm")
    assert result.code == 0
    assert "no plan will fit" in result.err


def test_long_commands_go_on_in_the_next_line() -> None:
    command = "octopipe plan a.profile.json b.cluster.json -m 32 --engine torchtitan -o a.torchtitan.plan.json"
    lines = continued(command, 60)
    assert max(map(len, lines)) <= 60
    assert len(lines) > 1
    assert shlex.split("\n".join(lines).replace("\\\n", "")) == shlex.split(command)
    assert continued(command, 200) == [f"  {command}"]
    assert continued("octopipe plan 'a -b.json'  -m 3", 10) == ["  octopipe plan 'a -b.json'  -m 3"]
