from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Octopipe


def test_the_payload_is_alone_on_stdout_and_the_table_beside_it(folder: Path, octopipe: Octopipe) -> None:
    result = octopipe("export", "plan.json", "--to", "deepspeed")
    assert result.code == 0
    compile(result.out, "snippet", "exec")
    assert result.err.splitlines()[0].split() == ["rank", "stage", "layers", "holds"]
    octopipe("export", "plan.json", "--to", "deepspeed", "-o", "stages.py")
    assert (folder / "stages.py").read_text() == result.out


def test_a_target_that_is_none(folder: Path, octopipe: Octopipe) -> None:
    result = octopipe("export", "plan.json", "--to", "deepspeeed")
    assert result.code == 2
    assert 'did you mean "deepspeed"?' in result.err


def test_an_option_of_another_target(folder: Path, octopipe: Octopipe) -> None:
    result = octopipe("export", "plan.json", "--to", "deepspeed", "--symbol", "mamba=M")
    assert (result.code, result.out) == (2, "")
    assert "--to deepspeed does not take --symbol" in result.err


def test_the_plan_is_not_written_over(folder: Path, octopipe: Octopipe) -> None:
    assert octopipe("export", "plan.json", "--to", "deepspeed", "-o", "plan.json").code == 2
