"""Ctrl-C against the real command: the solver's own signal handler must not end the process."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("seconds", [3.0, 6.0])
def test_ctrl_c_ends_a_search_with_130_and_a_whole_plan_or_none(tmp_path: Path, seconds: float) -> None:
    plan = tmp_path / "x.plan.json"
    command = [sys.executable, "-m", "octopipe_cli", "plan", str(ROOT / "profiles/models/nemotron-nano-9b-v2.json")]
    command += [str(ROOT / "profiles/clusters/a100-4.json"), "-m", "8", "--effort", "thorough", "-o", str(plan)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        time.sleep(seconds)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=120)
    assert process.returncode == 130, errors
    assert "Traceback" not in errors
    if plan.exists():
        search = json.loads(plan.read_text())["search"]
        assert (search["stopped_by"], search["reproducible"]) == ("interrupt", False)
