"""What is not the user's fault: bugs, closed pipes, Ctrl-C."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from octopipe_cli.cli import failures, output, schema
from octopipe_cli.errors import InfeasibleError, LimitError
from tests.cli.conftest import Octopipe


def raising(error: BaseException) -> object:
    def call(*_: object) -> None:
        raise error

    return call


def test_a_bug_is_called_one(octopipe: Octopipe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "schema_document", raising(ZeroDivisionError("by\x1bnothing")))
    result = octopipe("schema", "plan")
    assert (result.code, result.out) == (70, "")
    assert "this is a bug of octopipe's (ZeroDivisionError: by\\x1bnothing)" in result.err
    assert "Traceback" not in result.err
    assert "OCTOPIPE_DEBUG=1" in result.err


def test_the_traceback_is_shown_on_demand(octopipe: Octopipe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "schema_document", raising(ZeroDivisionError()))
    monkeypatch.setenv("OCTOPIPE_DEBUG", "1")
    result = octopipe("schema", "plan")
    assert result.code == 70
    assert result.err.startswith("Traceback")
    assert "in call\n    raise error" in result.err


@pytest.mark.parametrize(
    ("error", "code"), [(InfeasibleError("no"), 3), (LimitError("late"), 4), (KeyboardInterrupt(), 130)]
)
def test_errors_leave_with_their_exit_code(
    octopipe: Octopipe, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int
) -> None:
    monkeypatch.setattr(schema, "schema_document", raising(error))
    result = octopipe("schema", "plan")
    assert result.code == code
    assert "Traceback" not in result.err


def test_an_error_says_where_found_expected_and_remedy_a_line_each() -> None:
    error = InfeasibleError("m", file="f", path="$.p", found="x\ny", expected="z", remedy="r" * 1000)
    assert failures.error_text(error).splitlines()[:4] == [
        "octopipe: error: m",
        "  where:    f, $.p",
        "  found:    x\\ny",
        "  expected: z",
    ]
    assert len(failures.error_text(error).splitlines()[4]) == 12 + failures.MAX_TEXT


def test_a_closed_pipe_ends_in_silence() -> None:
    command = f"{sys.executable} -m octopipe_cli schema plan | head -c 1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("{0\n", "")


def test_a_command_goes_on_where_its_reader_has_gone(folder: Path) -> None:
    """The exit code is still the answer: 1, an invalid plan."""
    text = (folder / "plan.json").read_text().replace("26000000", "26000001", 1)
    (folder / "plan.json").write_text(text)
    command = f"({sys.executable} -m octopipe_cli verify plan.json --profile profile.json --cluster cluster.json"
    command += '; echo "code $?" >&2) | true'
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert done.stderr == "code 1\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_is_an_error() -> None:
    command = f"{sys.executable} -m octopipe_cli schema plan > /dev/full"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    said, remedy = done.stderr.splitlines()
    assert said == "octopipe: error: cannot write to standard output: No space left on device"
    assert remedy == "  remedy:   check where it goes: its disk may be full"


@pytest.mark.parametrize("closed", ["0<&-", ">&-", "2>&-", ">&- 2>&-"])
def test_closed_streams_are_no_bug(closed: str) -> None:
    command = f"{sys.executable} -m octopipe_cli schema plan {closed}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_terminal_without_the_characters_gets_others(tmp_path: Path) -> None:
    (tmp_path / "ä.json").write_text("[]")
    done = subprocess.run(
        [sys.executable, "-m", "octopipe_cli", "profile", "show", "ä.json"],
        cwd=tmp_path,
        env={"PYTHONIOENCODING": "ascii", "PYTHONPATH": str(Path(__file__).parents[2]), "LC_ALL": "C.UTF-8"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "where:    ?.json, $" in done.stderr


def test_names_are_made_safe_for_files() -> None:
    assert output.safe_name("nemotron-nano_9b.v2+x") == "nemotron-nano_9b.v2+x"
    assert output.safe_name("../../etc/passwd") == "etc-passwd"
    assert output.safe_name("a b\\c:\0d\n") == "a-b-c--d"
    assert output.safe_name("模型") == "模型"
    assert output.safe_name("...") == "model"
    assert len(output.safe_name("ü" * 200).encode()) == 100


@pytest.mark.parametrize(
    ("arguments", "meant", "help_of"),
    [
        (("pln",), "plan", "octopipe"),
        (("profile", "shw"), "show", "octopipe profile"),
        (("profile", "import", "tarce", "x"), "trace", "octopipe profile import"),
        (("--verson",), "--version", "octopipe"),
        (("plan", "--enginex", "any"), "--engine", "octopipe plan"),
        (("plan", "--no-gannt"), "--no-gantt", "octopipe plan"),
        (("plan", "--engine", "torh"), "torch", "octopipe plan"),
        (("plan", "--effort=standrd"), "standard", "octopipe plan"),
        (("show", "a.json", "--format", "jsn"), "json", "octopipe show"),
        (("diff", "a.json", "b.json", "--fail-on", "regresion"), "regression", "octopipe diff"),
        (("schema", "pln"), "plan", "octopipe schema"),
    ],
)
def test_a_misspelt_word_is_answered_with_the_nearest(
    octopipe: Octopipe, arguments: tuple[str, ...], meant: str, help_of: str
) -> None:
    result = octopipe(*arguments)
    assert (result.code, result.out) == (2, "")
    assert f'  remedy:   did you mean "{meant}"? `{help_of} --help` lists what can stand here\n' in result.err
    assert "Did you mean" not in result.err
    assert "Possible options" not in result.err


@pytest.mark.parametrize("arguments", [("zzzz",), ("plan", "--zzzz"), ("plan", "--engine", "zzz"), ("plan", "-m", "x")])
def test_words_that_resemble_nothing_get_no_guess(octopipe: Octopipe, arguments: tuple[str, ...]) -> None:
    result = octopipe(*arguments)
    assert result.code == 2
    assert "remedy:   `octopipe" in result.err


def test_an_option_without_its_value_names_the_command(octopipe: Octopipe) -> None:
    assert "remedy:   `octopipe plan --help` lists what can stand here" in octopipe("plan", "--engine").err
