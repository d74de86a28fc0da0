from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from octopipe_cli.profile import KindWork, profile_from_document
from octopipe_cli.render.glyphs import ASCII
from octopipe_cli.render.tables import compare_table, profile_table, work_table

Golden = Callable[[str, str], None]


def compare_row(**more: Any) -> dict[str, Any]:
    row = {"schedule": "1f1b", "partition": "equal", "stages_per_rank": 1, "recompute": False, "fits": True}
    row |= {"step_time_ns": 1_293_320_806, "span_ns": 1_260_000_000, "bubble_ratio": 0.34174, "speedup": 1.4934}
    return row | {"peak_memory_bytes": [2**34, 2**35]} | more


ROWS = [
    compare_row(),
    compare_row(schedule="[red]zb-v", partition="balanced", stages_per_rank=2, fits=False, step_time_ns=10**8),
    compare_row(schedule="plan", partition="searched", recompute="full", step_time_ns=866 * 10**6, speedup=None),
]


def test_compare(golden: Golden) -> None:
    golden("compare.txt", compare_table(ROWS).plain)


@pytest.mark.parametrize("width", [60, 80])
def test_narrow_tables(width: int, golden: Golden) -> None:
    text = compare_table(ROWS, width=width).plain + "\n" + profile_table(profile(), width=width).plain
    assert max(map(len, text.splitlines())) <= width
    golden(f"tables-{width}.txt", text)


def test_what_a_narrow_table_leaves_out_is_said() -> None:
    def said(rows: list[dict[str, Any]], width: int) -> str:
        return " ".join(compare_table(rows, width=width).plain.split()).partition("not shown: ")[2]

    every = "recompute no in every row, span ms 1260.0 in every row, peak GiB 32.0 in every row"
    assert said(ROWS[:2], 60) == every
    varied = [ROWS[0], compare_row(recompute="full", span_ns=10**9, fits=False)]
    assert "recompute in wider terminals, span ms in wider terminals" in said(varied, 50)
    assert said(ROWS, 120) == ""


def test_the_fastest_that_fits_is_bold() -> None:
    table = compare_table(ROWS)
    styled = {table.plain[span.start : span.end].split()[0]: str(span.style) for span in table.spans}
    assert styled["plan"] == "bold"
    assert styled["[red]zb-v"] == "dim"
    assert "1f1b" not in styled


def test_compare_without_a_plan_has_no_speedup() -> None:
    rows = [compare_row(speedup=None, fits=False, peak_memory_bytes=2**30)]
    text = compare_table(rows).plain
    assert "faster" not in text
    assert " 1.0  NO" in text


def profile() -> Any:
    times = {"forward_ms": 1.5, "backward_input_ms": 2, "backward_weight_ms": 0.25}
    document = {
        "schema": "octopipe.profile",
        "version": 1,
        "name": "toy",
        "kinds": {
            "emb\x1b": {"times": {"a100": times, "h100": times}, "parameters": 10**9, "state_bytes": 2**31},
            "mlp": {
                "times": {"a100": {**times, "backward_ms": 3.0, "step_ms": 0.5}, "h100": times},
                "activation_bytes": 3 * 2**20,
                "output_bytes": 2**10,
                "splittable": False,
            },
            "unused": {"times": {"a100": times, "h100": times}},
        },
        "layers": ["emb\x1b", {"repeat": 3, "of": ["mlp"]}],
    }
    return profile_from_document(document, "profile")


def test_profile(golden: Golden) -> None:
    golden("profile.txt", profile_table(profile()).plain)


def test_profile_sums_and_shares() -> None:
    lines = profile_table(profile(), ASCII).plain.splitlines()
    assert lines[0] == "times on a100, a layer and micro-batch"
    # emb: 1.5 + 2.25 = 3.75 ms; mlp: 3 x (1.5 + 3) = 13.5 ms; 17.25 together.
    assert lines[2].split() == ["emb\\x1b", "1", "1.500", "2.000", "0.250", "2.250", "21.7", "0.000"]
    assert lines[3].split() == ["mlp", "3", "1.500", "2.000", "0.250", "3.000", "78.3", "0.500"]
    assert lines[4].split() == ["all", "4", "6.000", "8.000", "1.000", "11.250", "100.0", "1.500"]
    assert "unused" not in "".join(lines)


def test_work(golden: Golden) -> None:
    work = {
        "emb\x1b": KindWork(active_parameters=10**9, flops={"forward": 0, "input": 0, "weight": 10**12}),
        "mlp": KindWork(
            active_parameters=5 * 10**8,
            flops={"forward": 2 * 10**12, "input": 3 * 10**12, "weight": 4 * 10**12},
            bound={"forward": "compute", "input": "compute", "weight": "bandwidth"},
        ),
    }
    golden("work.txt", work_table(profile(), work).plain)
    lines = work_table(profile(), work, ASCII).plain.splitlines()
    # 1 T of 1 T + 3 x 9 T
    assert lines[2].split() == ["emb\\x1b", "1", "1.000", "B", "0", "0", "1.000", "T", "3.6"]
    assert lines[4].split()[:8] == ["all", "4", "2.500", "B", "6.000", "T", "9.000", "T"]
    assert lines[3].endswith("compute, compute, bandwidth")
