"""Completion: the scripts that ship are what the code gives, and complete in the shells themselves, where they are."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from octopipe_cli.cli.completion import Shell, completion_script
from octopipe_cli.cli.shells.tree import FILES, nodes, short
from tests.cli.conftest import Octopipe
from tests.cli.test_start import HEAVY, loaded

SCRIPTS = Path(__file__).parents[2] / "completions"
FILE = {"bash": SCRIPTS / "octopipe.bash", "zsh": SCRIPTS / "_octopipe", "fish": SCRIPTS / "octopipe.fish"}
ENGINES = ["any", "deepspeed", "megatron", "megatron-hybrid", "torch", "torchtitan"]
CLUSTERS = ["a100-4", "a100-8", "a100-80gb-2x8", "a100-80gb-8"]
MODELS = ["gemma-3-27b", "jamba-20b", "jamba-52b", "llama3-32b", "llama3-8b", "nemotron-h-47b", "nemotron-h-4b"]
MODELS += ["nemotron-nano-9b-v2"]
HARDWARE = ["a100-40gb", "a100-80gb", "b200", "h100-sxm", "h200-sxm", "l40s", "mi300x"]

#: Metavars of free text; a new one is either here or names a kind of file.
FREE = {"STRING", "TEXT", "LIST", "REVISION", "KIND=SYMBOL", "PERCENT", "GIB", "MS", "SECONDS", "COLUMNS", "GB/S"}


@pytest.mark.parametrize("shell", FILE)
def test_the_scripts_that_ship_are_what_the_code_gives(octopipe: Octopipe, shell: str) -> None:
    result = octopipe("completion", shell)
    assert (result.code, result.err) == (0, "")
    if os.environ.get("OCTOPIPE_GOLDEN") == "1":
        FILE[shell].write_text(result.out)
    assert result.out == FILE[shell].read_text()


def test_the_zsh_script_begins_with_its_tag() -> None:
    assert completion_script("zsh").startswith("#compdef octopipe\n")


def test_the_scripts_are_written_without_anything_heavy() -> None:
    assert not loaded("completion", "fish") & HEAVY


def test_every_value_is_words_files_a_number_or_known_free_text() -> None:
    unknown = set()
    for node in nodes():
        flags = [flag.value for flag in node.flags if flag.value is not None]
        for value in (*flags, *node.arguments, *([node.rest] if node.rest else [])):
            if not (value.words or value.files or value.metavar in FREE or len(value.metavar) == 1):
                unknown.add((*node.path, value.metavar))
    assert {metavar for *_, metavar in unknown} <= {"NAME", "PARTS"}, unknown
    assert set(FILES.values()) == {"plan", "json", "cluster", "any", "folder"}


def test_a_line_about_an_option_is_its_first_sentence() -> None:
    assert short("Of every choice. Not of more.") == "Of every choice"
    assert short("Up to 0.5 of it; else none") == "Up to 0.5 of it"
    assert short("words " * 30) == " ".join(["words"] * 12) + "..."


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with a file of each kind and a folder in it; it is the current one."""
    for name in ("a.json", "c.yaml", "d.toml", "m.plan.json", "my notes.txt", "plans/old.plan.json", "bare/n.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def shell(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def ran(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stderr == ""
    return done.stdout


def bash(lines: list[str]) -> list[list[str]]:
    """Return what bash completes each line to, words split as readline splits them."""
    code = ['source "$0"']
    for line in lines:
        words = re.findall(r"=|[^ =]+", line) + ([""] if line.endswith(" ") else [])
        code.append(f"COMP_WORDS=({shlex.join(words)}) COMP_CWORD={len(words) - 1}; _octopipe")
        code.append("printf '%s\\n' \"${COMPREPLY[@]}\" ---")
    return split(ran(shell("bash"), "--norc", "-c", "\n".join(code), str(FILE["bash"])))


def fish(lines: list[str]) -> list[list[str]]:
    code = [f"source {shlex.quote(str(FILE['fish']))}", *(f"complete -C '{line}'; echo ---" for line in lines)]
    found = split(ran(shell("fish"), "--no-config", "-c", "\n".join(code)))
    return [[word.partition("\t")[0] for word in words] for words in found]


def split(text: str) -> list[list[str]]:
    return [[word for word in part.split("\n") if word] for part in text.split("---\n")[:-1]]


def zsh(lines: list[str]) -> list[list[str]]:
    out = ran(shell("zsh"), "-f", str(Path(__file__).with_name("capture.zsh")), str(SCRIPTS), *lines)
    return [re.findall(r"\x01([^\r\n]+)", part) for part in out.split("\x02")[:-1]]


COMPLETED = {
    "octopipe pl": ["plan"],
    "octopipe profile import ": ["megatron", "simpipe", "trace"],
    "octopipe plan --max": ["--max-stages-per-rank"],
    "octopipe plan --engine ": ENGINES,
    "octopipe plan a.json c.yaml -m 8 --engine megatron-": ["megatron-hybrid"],
    "octopipe plan --engine=torcht": ["torchtitan"],
    "octopipe plan --effort q": ["quick"],
    "octopipe show m.plan.json --format ": ["json", "text"],
    "octopipe export m.plan.json --to megatron-": ["megatron-hybrid"],
    "octopipe profile estimate --hardware ": [*HARDWARE, "a.json", "bare", "plans"],
    "octopipe profile estimate qwen3-8": ["qwen3-8b"],
    "octopipe profile estimate a.json --zero ": ["0", "1", "2", "3"],
    "octopipe completion ": ["bash", "fish", "zsh"],
    "octopipe show ": ["bare", "m.plan.json", "plans"],
    "octopipe plan ": [*MODELS, "a.json", "bare", "plans"],
    "octopipe plan a.json ": [*CLUSTERS, "a.json", "bare", "c.yaml", "d.toml", "plans"],
    "octopipe plan --seed 3 a.json --no-gantt c": ["c.yaml"],
    "octopipe diff plans/old.plan.json ": ["bare", "m.plan.json", "plans"],
    "octopipe sweep a.json c.yaml -o ": ["bare", "plans"],
}
#: Here zsh offers parts of paths, or other things in place of nothing.
COMPLETED_BUT_BY_ZSH = {
    "octopipe show plans/": ["plans/old.plan.json"],
    "octopipe show bare/": ["bare/n.json"],
    "octopipe profile show my": [],
    "octopipe plan --seed ": [],
    "octopipe schema plan ": [],
    "octopipe nope ": [],
}


@pytest.mark.parametrize("complete", [bash, zsh, fish])
def test_a_shell_completes(files: Path, complete: Callable[[list[str]], list[list[str]]]) -> None:
    expected = COMPLETED if complete is zsh else COMPLETED | COMPLETED_BUT_BY_ZSH
    found = {
        line: sorted({re.sub(r"^--engine=|/$", "", word) for word in words})
        for line, words in zip(expected, complete(list(expected)), strict=True)
    }
    assert found == {line: sorted(words) for line, words in expected.items()}


@pytest.mark.parametrize("name", [each.value for each in Shell])
def test_every_command_and_option_is_in_every_script(name: str) -> None:
    text = FILE[name].read_text()
    for node in nodes():
        for word in (*node.commands, *(name for flag in node.flags for name in flag.names)):
            bare = word.lstrip("-") if name == "fish" else word
            assert re.search(rf"(?<![\w-]){re.escape(bare)}(?![\w-])", text), (node.path, word)
