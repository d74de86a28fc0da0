from __future__ import annotations

import json
from pathlib import Path

import pytest

from octopipe_cli.profile import load_profile
from tests import documents
from tests.cli.conftest import Octopipe

SIMPIPE = {
    "pattern": "M-",
    "forward_ms": {"E": 0.5, "M": 2, "-": 1, "L": 3},
    "backward_ms": {"E": 0.25, "M": 3, "-": 1, "L": 4},
}


def test_totals_are_counted_with_mtp_depths_apart(folder: Path, octopipe: Octopipe) -> None:
    (folder / "full.json").write_text(json.dumps(documents.full_profile()))
    shown = json.loads(octopipe("profile", "show", "full.json", "--format", "json").out)
    assert (shown["parameters"], shown["mtp_parameters"], shown["layers"]) == (7 + 13, 11, 11)
    assert shown["hardware"] == ["a", "b"]
    ff = shown["kinds"]["ff"]
    assert (ff["layers"], ff["role"], ff["splittable"], shown["kinds"]["mixer"]["splittable"]) == (
        6,
        "decoder",
        True,
        False,
    )
    assert ff["times"]["c"] == {
        "forward_ms": 9.0,
        "backward_input_ms": 12.0,
        "backward_weight_ms": 1.5,
        "backward_ms": 13.2,
        "step_ms": 0.6,
    }
    assert shown["kinds"]["mixer"]["workspace_bytes"] == 18
    assert shown["totals"]["times"]["a"]["forward_ms"] == 16.5
    assert shown["totals"]["state_bytes"] == 6


def test_the_text_has_a_line_a_kind_and_says_where_it_is_from(folder: Path, octopipe: Octopipe) -> None:
    result = octopipe("profile", "show", "profile.json")
    assert (result.code, result.err) == (0, "")
    lines = result.out.splitlines()
    assert lines[:2] == ["toy: 4 layers", "method: written by hand"]
    assert any(line.split() == ["mamba", "2", "2.000", "2.000", "2.000", "4.000", "70.6"] for line in lines)
    (folder / "full.json").write_text(json.dumps(documents.full_profile()))
    first = octopipe("profile", "show", "full.json").out.splitlines()[0]
    assert first == "hybrid: 11 layers, 20 parameters, 11 more in MTP depths"


def test_an_import_is_the_payload_unless_a_file_is_named(folder: Path, octopipe: Octopipe) -> None:
    (folder / "m.simpipe.json").write_text(json.dumps(SIMPIPE))
    command = ("profile", "import", "simpipe", "m.simpipe.json", "--hardware", "a100")
    payload = octopipe(*command)
    assert (payload.code, payload.err) == (0, "")
    assert octopipe(*command, "-o", "out.json") == (0, "", "")
    assert (folder / "out.json").read_text() == payload.out
    profile = load_profile("out.json").value
    assert (profile.name, profile.layer_kinds) == ("m", ("embedding", "mamba", "mlp", "head"))
    assert octopipe("profile", "show", "out.json").code == 0


def test_an_import_takes_name_note_and_standard_input(folder: Path, octopipe: Octopipe) -> None:
    command = ("profile", "import", "simpipe", "-", "--hardware", "x")
    text = json.dumps(SIMPIPE).encode()
    result = octopipe(*command, "--name", "n", "--note", "by hand", stdin=text)
    document = json.loads(result.out)
    assert (document["name"], document["provenance"]["note"]) == ("n", "by hand")
    assert document["provenance"]["source"] == "standard input"
    refused = octopipe(*command, stdin=text)
    assert (refused.code, refused.out) == (2, "")
    assert "--name" in refused.err


def test_whole_numbers_draw_a_warning(folder: Path, octopipe: Octopipe) -> None:
    whole = {**SIMPIPE, **{key: dict.fromkeys("EM-L", 7) for key in ("forward_ms", "backward_ms")}}
    (folder / "w.json").write_text(json.dumps(whole))
    result = octopipe("profile", "import", "simpipe", "w.json", "--hardware", "x", "-o", "out.json")
    assert (result.code, result.out) == (0, "")
    assert result.err.startswith("octopipe: warning: w.json: every time is a whole number")


@pytest.mark.parametrize("output", ["m.json", "none/out.json"])
def test_an_import_does_not_write_where_it_should_not(folder: Path, octopipe: Octopipe, output: str) -> None:
    (folder / "m.json").write_text(json.dumps(SIMPIPE))
    result = octopipe("profile", "import", "simpipe", "m.json", "--hardware", "x", "-o", output)
    assert result.code == 2
    assert json.loads((folder / "m.json").read_text()) == SIMPIPE
