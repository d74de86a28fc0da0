"""What ships: lists, and names in place of files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from octopipe_cli.profiling.shipped import shipped_files
from tests.cli.conftest import Octopipe

FOLDERS = ["clusters", "models", "hardware", "configs"]


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_list_has_all_that_ships(octopipe: Octopipe, monkeypatch: pytest.MonkeyPatch, folder: str) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text = octopipe(folder)
    assert (text.code, text.err) == (0, "")
    assert max(map(len, text.out.splitlines())) <= 80
    rows = json.loads(octopipe(folder, "--format", "json").out)
    assert [row["name"] for row in rows] == list(shipped_files(folder))
    for row in rows:
        assert any(line.startswith(row["name"] + " ") for line in text.out.splitlines())


def test_figures_are_those_of_the_files(octopipe: Octopipe) -> None:
    rows = {row["name"]: row for folder in FOLDERS for row in json.loads(octopipe(folder, "--format", "json").out)}
    assert rows["a100-80gb-2x8"]["memory_gib"] == 76
    assert (rows["a100-80gb-2x8"]["ranks"], rows["a100-80gb-2x8"]["nodes"]) == (16, 2)
    assert (rows["h100-sxm"]["bf16_tflops"], rows["h100-sxm"]["devices_per_node"]) == (989.4, 8)
    assert (rows["llama3-8b"]["layers"], rows["llama3-8b"]["hardware"]) == (34, "a100")
    assert rows["llama-3.1-8b"]["parameters"] == 8_030_261_248


def test_names_stand_for_files_that_are_not_there(octopipe: Octopipe, folder: Path) -> None:
    assert octopipe("profile", "show", "llama3-8b").out.startswith("llama3-8b: 34 layers")
    rows = json.loads(octopipe("compare", "llama3-8b", "a100-4", "-m", 4, "--format", "json").out)["rows"]
    line = "4xa100-80gb:times=a100:memory=unlimited"
    same = json.loads(octopipe("compare", "llama3-8b", line, "-m", 4, "--format", "json").out)["rows"]
    assert len(rows) == len(same) > 3


def test_a_file_of_that_name_wins(octopipe: Octopipe, folder: Path) -> None:
    (folder / "llama3-8b").write_bytes((folder / "profile.json").read_bytes())
    assert not octopipe("profile", "show", "llama3-8b").out.startswith("llama3-8b")
    (folder / "8xh100-sxm").write_bytes((folder / "cluster.json").read_bytes())
    files = ("--profile", "profile.json", "--cluster")
    assert octopipe("verify", "plan.json", *files, "8xh100-sxm").code == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("profile", "show", "lama3-8b"), 'did you mean "llama3-8b"?'),
        (("compare", "llama3-8b", "a100-80gb-4", "-m", "2"), 'did you mean "a100-80gb-8"?'),
        (("compare", "llama-3.1-8b", "a100-4", "-m", "2"), "is a model's config, no profile"),
        (("compare", "llama3-8b", "nothing", "-m", "2"), "a cluster in a line (8xh100-sxm"),
        (("compare", "llama3-8b", "folder/a100-4", "-m", "2"), "no such file"),
        (("compare", "llama3-8b", "4xa100-40g", "-m", "2"), 'did you mean "a100-40gb"?'),
        (("compare", "llama3-8b", "4xa100-40gb", "-m", "2"), 'has no times for "a100-40gb"'),
    ],
)
def test_what_names_nothing_is_told(octopipe: Octopipe, folder: Path, arguments: tuple[str, ...], said: str) -> None:
    result = octopipe(*arguments)
    assert (result.code, result.out) == (2, "")
    assert said in result.err


def test_settings_may_name_what_ships(octopipe: Octopipe, folder: Path) -> None:
    from octopipe_cli.config import load_config, plan_entries

    (folder / "sub").mkdir()
    (folder / "sub" / "mine.json").write_text("{}")
    (folder / "sub" / "octopipe.toml").write_text(
        '[plans]\n"a.json" = { profile = "llama3-8b", cluster = "8xh100-sxm/4" }\n'
        '"b.json" = { profile = "mine.json", cluster = "c.json" }\n'
    )
    first, second = plan_entries(load_config("sub/octopipe.toml"))
    assert (first.profile, first.cluster) == ("llama3-8b", "8xh100-sxm/4")
    assert (second.profile, second.cluster) == ("sub/mine.json", "sub/c.json")
