"""What the points of a sweep show together."""

from __future__ import annotations

import csv
import io
from decimal import Decimal
from xml.etree import ElementTree

import msgspec
import pytest

from octopipe_cli.export.svg_plot import svg_plot
from octopipe_cli.plan import Plan, load_plan
from octopipe_cli.profile import Training
from octopipe_cli.render.chart import Chart, Curve, x_axis, y_axis
from octopipe_cli.render.glyphs import ASCII, BLOCKS
from octopipe_cli.render.plot import plot
from octopipe_cli.render.sweep import sweep_table
from octopipe_cli.sweep.chart import sweep_chart
from octopipe_cli.sweep.points import Point, sweep_csv, sweep_document, tokens_of, with_pareto
from octopipe_cli.sweep.quantities import MEMORY, MICROBATCHES

from .. import documents

PLAN = load_plan(str(documents.PLAN)).value


def plan(step_ms: int) -> Plan:
    return msgspec.structs.replace(
        PLAN, predicted=msgspec.structs.replace(PLAN.predicted, step_time_ns=step_ms * 10**6)
    )


def point(value: int, step_ms: int | None, number: int = 4, **classic: int) -> Point:
    if step_ms is None:
        return Point(Decimal(value), number, "infeasible", "no plan fits")
    return Point(
        Decimal(value), number, "planned", plan=plan(step_ms), classic={k: v * 10**6 for k, v in classic.items()}
    )


POINTS = with_pareto([point(40, None), point(48, 90, zb=100), point(56, 90, zb=95), point(64, 80, zb=95, slow=400)])


def test_points_are_marked_where_no_smaller_value_is_as_good() -> None:
    assert [p.pareto for p in POINTS] == [False, True, False, True]
    by_rate = with_pareto([point(4, 40, 4), point(8, 79, 8), point(16, 158, 16), point(32, 330, 32)])
    assert [p.pareto for p in by_rate] == [True, True, False, False]


def test_documents_and_tables() -> None:
    document = sweep_document(MEMORY, POINTS, 4096)
    assert (document["quantity"], document["unit"]) == ("memory", "GiB")
    first, second = document["points"][:2]
    assert first == {
        "value": 40,
        "status": "infeasible",
        "num_microbatches": 4,
        "message": "no plan fits",
        "classic": {},
    }
    assert second["microbatches_per_s"] == pytest.approx(4 / 0.09, abs=1e-6)
    assert second["tokens_per_s"] == pytest.approx(4 / 0.09 * 4096, abs=1e-3)
    rows = list(csv.DictReader(io.StringIO(sweep_csv(document, 4096))))
    assert [(row["value"], row["schedule"]) for row in rows] == [
        *(("40", "plan"), ("48", "plan"), ("48", "zb"), ("56", "plan"), ("56", "zb")),
        *(("64", "plan"), ("64", "zb"), ("64", "slow")),
    ]
    assert (rows[0]["status"], rows[0]["step_time_ns"]) == ("infeasible", "")


def test_tokens_of_all_copies() -> None:
    assert tokens_of(Training(sequence_length=4096, micro_batch_size=2, data_parallel=3)) == 24576
    assert tokens_of(Training(sequence_length=4096)) is None


def test_charts_leave_out_what_is_far_off() -> None:
    chart = sweep_chart(MEMORY, POINTS)
    assert chart.main.points == ((48.0, 90.0), (56.0, 90.0), (64.0, 80.0))
    assert (chart.y_axis, chart.x_values, chart.marked) == ("step time, ms", (40, 48, 56, 64), frozenset({48, 64}))
    assert [curve.name for curve in chart.drawn() if curve.points] == ["zb", "plan"]
    rate = sweep_chart(MICROBATCHES, with_pareto([point(4, 40, 4), point(8, 75, 8)]))
    assert rate.main.points[0] == (4.0, 100.0)


@pytest.mark.parametrize("glyphs", [ASCII, BLOCKS])
@pytest.mark.parametrize("width", [60, 100, 200])
def test_plots_keep_to_the_width_and_show_every_point(glyphs: object, width: int) -> None:
    assert glyphs in (ASCII, BLOCKS)
    chosen = ASCII if glyphs is ASCII else BLOCKS
    text = plot(sweep_chart(MEMORY, POINTS), width, chosen).plain
    assert max(map(len, text.splitlines())) <= width
    marked, plain = ("#", "o") if chosen is ASCII else ("◆", "●")
    drawn = "\n".join(line for line in text.splitlines() if "│" in line or "|" in line or "┤" in line or "+" in line)
    assert (drawn.count(marked), drawn.count(plain)) == (2, 1)
    assert "slow (above the chart)" in text
    assert chosen is BLOCKS or text.isascii()


def test_plots_of_one_point_and_of_none() -> None:
    assert plot(sweep_chart(MEMORY, [point(40, None)]), 80, BLOCKS).plain == ""
    assert "◆" in plot(sweep_chart(MEMORY, with_pareto([point(40, 20)])), 80, BLOCKS).plain


def test_axes_have_round_ticks_around_all_values() -> None:
    chart = Chart("x", "y", Curve("m", ((1, 868.4), (9, 1051.6))), (), frozenset(), (1, 3, 5, 9))
    up = y_axis(chart, 6)
    assert [label for _, label in up.ticks] == ["850", "900", "950", "1000", "1050", "1100"]
    assert (up.low, up.high) == (850, 1100)
    level = y_axis(chart._replace(main=Curve("m", ((1, 100.0), (9, 100.0)))), 6)
    assert level.low < 100 < level.high
    assert [label for _, label in x_axis(chart, 2).ticks] == ["1", "9"]
    assert [label for _, label in x_axis(chart, 9).ticks] == ["1", "3", "5", "9"]


def test_pictures_are_well_formed_and_escape_names() -> None:
    root = ElementTree.fromstring(svg_plot(sweep_chart(MEMORY, POINTS), "<b>&amp;"))
    space = "{http://www.w3.org/2000/svg}"
    assert next(root.iter(f"{space}text")).text == "<b>&amp;"
    circles = list(root.iter(f"{space}circle"))
    assert len(circles) == 3 + 3 + 1  # plan, zb, the legend's
    assert ElementTree.fromstring(svg_plot(sweep_chart(MEMORY, [point(40, None)]), "t")) is not None


@pytest.mark.parametrize("width", [60, 80, 100])
def test_tables_keep_to_the_width(width: int) -> None:
    text = sweep_table(sweep_document(MEMORY, POINTS, 4096), ASCII, width).plain
    lines = text.splitlines()
    assert max(map(len, lines)) <= width
    first = next(at for at, line in enumerate(lines) if line.split()[:1] == ["40"])
    heads = " ".join(lines[:first])
    assert ("micro-b./s" in heads, "tokens/s" in heads) == (width > 60, True)
    assert [line.split()[:2] for line in lines[first : first + 4]] == [
        ["40", "infeasible"],
        ["48", "*"],
        ["56", "90.00"],
        ["64", "*"],
    ]
    assert lines[first + 4] == "40: no plan fits"
    assert lines[first + 1].split()[-2:] == ["zb", "1.111"]
