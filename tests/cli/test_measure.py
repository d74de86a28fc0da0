from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from octopipe_cli.profile import profile_from_document
from tests.cli.conftest import Octopipe
from tests.profiling import tiny_configs

ASKED = ("--sequence-length", 16, "--micro-batch-size", 1, "--dtype", "fp32", "--repeats", 4, "--hardware", "box")


@pytest.fixture
def config(folder: Path) -> str:
    (folder / "tiny.json").write_text(json.dumps(tiny_configs.LLAMA))
    return "tiny.json"


@pytest.mark.filterwarnings("default")  # other packages' own
def test_progress_and_a_table_are_printed_and_a_profile_written(config: str, octopipe: Octopipe) -> None:
    pytest.importorskip("torch", reason="measuring needs the extra octopipe[torch]")
    result = octopipe("profile", "measure", config, *ASKED)
    assert result.code == 0, result.err
    profile = profile_from_document(json.loads(result.out), "out")
    assert (profile.name, profile.hardware, profile.training.sequence_length) == ("tiny", ("box",), 16)
    lines = result.err.splitlines()
    assert lines[:3] == [
        "octopipe: measuring embedding (1 of 3)",
        "octopipe: measuring attention_mlp (2 of 3)",
        "octopipe: measuring head (3 of 3)",
    ]
    assert "spread %" in lines[-4]
    assert lines[-2].split()[:2] == ["attention_mlp", "3"]


def test_without_torch_it_is_said_what_to_install(config: str, octopipe: Octopipe) -> None:
    if importlib.util.find_spec("torch") is not None:
        pytest.skip("torch is installed here")
    result = octopipe("profile", "measure", config, *ASKED)
    assert (result.code, result.out) == (2, "")
    assert "torch is not installed" in result.err
    assert "pip install 'octopipe[torch]'" in result.err


def test_a_config_is_checked_before_torch_is_loaded(folder: Path, octopipe: Octopipe) -> None:
    (folder / "c.json").write_text('{"model_type": "llama"}')
    result = octopipe("profile", "measure", "c.json", *ASKED)
    assert result.code == 2
    assert "c.json" in result.err
    assert "torch" not in result.err
