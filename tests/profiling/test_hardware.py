from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from octopipe_cli.errors import InputError
from octopipe_cli.profiling.hardware import load_hardware
from octopipe_cli.profiling.shipped import shipped_files
from tests.profiling.hardware_examples import round_document

NAMES = ["a100-40gb", "a100-80gb", "b200", "h100-sxm", "h200-sxm", "l40s", "mi300x"]


def figures(value: Any) -> list[dict[str, Any]]:
    if isinstance(value, dict) and "value" in value:
        return [value]
    return [figure for child in value.values() for figure in figures(child)] if isinstance(value, dict) else []


def test_these_files_ship() -> None:
    assert list(shipped_files("hardware")) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_shipped_file_is_read_and_each_figure_has_a_source(name: str) -> None:
    hardware = load_hardware(name)
    assert hardware.name == name
    found = figures(json.loads(shipped_files("hardware")[name].read_text()))
    assert len(found) == 31 + len(hardware.peak_tflops)
    assert all(len(figure["source"]) > 10 for figure in found)


def test_peaks_are_those_of_the_data_sheets() -> None:
    peaks = {name: load_hardware(name).peak_tflops["bf16"].value for name in NAMES}
    assert peaks == {
        "a100-40gb": 312,
        "a100-80gb": 312,
        "b200": 2250,
        "h100-sxm": 989.4,
        "h200-sxm": 989.4,
        "l40s": 362.05,
        "mi300x": 1307.4,
    }
    assert "fp8" not in load_hardware("a100-80gb").peak_tflops


def test_a_name_that_does_not_ship() -> None:
    with pytest.raises(InputError) as caught:
        load_hardware("h100-smx")
    assert (caught.value.message, caught.value.remedy) == ('no hardware "h100-smx"', 'did you mean "h100-sxm"?')


@pytest.mark.parametrize(
    ("path", "value", "where"),
    [
        (("efficiency", "gemm_forward", "value"), 1.5, "$.efficiency.gemm_forward.value"),
        (("efficiency", "scan", "source"), "", "$.efficiency.scan.source"),
        (("memory_gib", "value"), 0, "$.memory_gib.value"),
        (("within_node", "speed"), 1, "$.within_node.speed"),
        (("peak_tflops",), {"fp8": {"value": 1, "source": "s"}}, "$.peak_tflops"),
        (("version",), 2, "$.version"),
    ],
)
def test_a_wrong_file_is_an_error_that_says_where(
    tmp_path: Path, path: tuple[str, ...], value: Any, where: str
) -> None:
    document = round_document()
    inner = document
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    file = tmp_path / "mine.json"
    file.write_text(json.dumps(document))
    with pytest.raises(InputError) as caught:
        load_hardware(str(file))
    assert (caught.value.file, caught.value.path) == (str(file), where)


def test_a_file_of_ones_own_is_read(tmp_path: Path) -> None:
    file = tmp_path / "mine.json"
    file.write_text(json.dumps(round_document()))
    assert load_hardware(str(file)).name == "round"
