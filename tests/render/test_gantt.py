from __future__ import annotations

import io
from collections.abc import Callable

import msgspec
import pytest
from rich.color import ColorSystem
from rich.console import Console
from rich.style import Style

from octopipe_cli.errors import InputError
from octopipe_cli.plan import InputFile, Plan
from octopipe_cli.render.console import rendered
from octopipe_cli.render.frame import make_frame
from octopipe_cli.render.gantt import gantt
from octopipe_cli.render.glyphs import ASCII, BLOCKS, TONES, texture_style
from octopipe_cli.render.report import report
from octopipe_cli.simulate import Timeline
from tests.render.plans import GIB, MS, make_plan, one_f_one_b, replay, v_plan, wide_plan

Golden = Callable[[str, str], None]


@pytest.fixture(scope="module")
def v() -> tuple[Plan, Timeline]:
    plan = v_plan()
    return plan, replay(plan)


@pytest.fixture(scope="module")
def wide() -> tuple[Plan, Timeline]:
    plan = wide_plan()
    return plan, replay(plan)


def rows(chart: str, side: str = "│") -> dict[str, str]:
    """Return what stands between the sides of each labelled line."""
    lines = [line.split(side) for line in chart.splitlines() if line.count(side) == 2]
    return {label.strip(): cells for label, cells, _ in lines if label.strip()}


WIDTHS = (60, 80, 120, 200)


@pytest.mark.parametrize("width", WIDTHS)
def test_chart_without_colour(width: int, v: tuple[Plan, Timeline], golden: Golden) -> None:
    golden(f"gantt-v-{width}.txt", gantt(*v, width).plain)


@pytest.mark.parametrize("width", WIDTHS)
def test_a_long_step_shows_its_steady_state_once(width: int, golden: Golden) -> None:
    plan = wide_plan(4, 64)
    timeline = replay(plan)
    chart = gantt(plan, timeline, width).plain
    golden(f"gantt-steady-{width}.txt", chart)
    assert "the same pattern 60 times" in " ".join(chart.split())
    # 2 of 101 ms of a step that is 60 periods of 12 ms long are shown, and all ranks are idle as much as ever.
    assert "4.4%" in chart
    assert "│  4.4%" in gantt(plan, timeline, width, full=True).plain
    assert "steady state" not in gantt(plan, timeline, width, full=True).plain
    assert "steady state" not in gantt(plan, timeline, width, from_ns=MS).plain


def test_a_step_that_fits_is_shown_whole() -> None:
    plan = wide_plan(2, 16)  # 32 actions a rank
    assert "steady state" in gantt(plan, replay(plan), 80).plain
    assert "steady state" not in gantt(plan, replay(plan), 120).plain


def test_the_steady_state_lies_below_its_bracket() -> None:
    plan = wide_plan(4, 64)
    frame = make_frame(replay(plan), 120, BLOCKS)
    assert frame.steady is not None
    begin, end = frame.bracket().index("["), frame.bracket().index("]") + 1
    # 40 to 52 of the 101 ms shown.
    assert (begin, end) == (40 * frame.cells // 101, 52 * frame.cells // 101)
    assert frame.window.shows(52 * MS - 1)
    assert not frame.window.shows(52 * MS)
    assert not frame.window.shows(760 * MS - 1)
    assert frame.window.place_ns(760 * MS) == 52 * MS


@pytest.mark.parametrize("colours", ["truecolor", "256", "standard"])
def test_chart_in_colour(colours: str, v: tuple[Plan, Timeline], golden: Golden) -> None:
    console = Console(
        file=io.StringIO(),
        force_terminal=True,
        color_system=colours,  # type: ignore[arg-type]
        width=80,
        _environ={},
    )
    golden(f"gantt-v-80-{'colour' if colours == 'truecolor' else colours}.txt", rendered(console, gantt(*v, 80)))


def test_chart_and_report_of_many(wide: tuple[Plan, Timeline], golden: Golden) -> None:
    golden("gantt-wide-80.txt", gantt(*wide, 80).plain)


def test_chart_in_ascii(v: tuple[Plan, Timeline], golden: Golden) -> None:
    chart = gantt(*v, 80, ASCII).plain
    golden("gantt-v-80-ascii.txt", chart)
    assert chart.isascii()


@pytest.mark.parametrize("width", [60, 79, 80, 100, 200])
def test_lines_keep_to_the_width(width: int, v: tuple[Plan, Timeline], wide: tuple[Plan, Timeline]) -> None:
    for plan, timeline in (v, wide):
        for text in (gantt(plan, timeline, width), report(plan, timeline, width)):
            assert max(map(len, text.plain.splitlines())) <= width
        bars = [line for line in gantt(plan, timeline, width).plain.splitlines() if "│" in line and line.endswith(".0")]
        assert {len(line) for line in bars} == {width}


def test_narrower_than_60_is_60(v: tuple[Plan, Timeline]) -> None:
    assert gantt(*v, 10).plain == gantt(*v, 60).plain


def test_actions_are_to_scale() -> None:
    plan = make_plan([0], one_f_one_b(1, 2), {"F": 1, "B": 3}, num_microbatches=2, limit_gib=None)
    chart = gantt(plan, replay(plan), 80).plain
    cells = rows(chart)["0"]
    assert len(cells) == 80 - 4 - 2 - 6 - 8 - 6
    # 54 cells for 8 ns: borders at 6.75, 27 and 33.75 cells, and the larger part of a cell wins.
    assert cells == "0" + "█" * 6 + "0" + "▓" * 19 + "1" + "█" * 6 + "1" + "▓" * 19


def test_zoom_shows_the_window_alone(v: tuple[Plan, Timeline]) -> None:
    plan, timeline = v
    chart = gantt(plan, timeline, 80, from_ns=0, to_ns=20_000_000).plain
    cells = rows(chart)
    # Rank 0 runs F of micro-batches 0 and 1 in these 20 ms, rank 1 starts after the first, ranks 2 and 3 later.
    half = len(cells["0"]) // 2
    assert cells["0"] == "0" + "█" * (half - 1) + "1" + "█" * (len(cells["0"]) - half - 1)
    assert cells["1"] == "·" * half + "0" + "█" * (len(cells["1"]) - half - 1)
    assert set(cells["2"] + cells["3"]) == {"·"}
    assert "shown: 0 ns to 20.00 ms" in chart


@pytest.mark.parametrize(("begin", "end"), [(5, 5), (6, 5), (-1, 5), (10**12, None)])
def test_an_empty_window_is_an_error(begin: int, end: int | None, v: tuple[Plan, Timeline]) -> None:
    with pytest.raises(InputError, match="no time to show"):
        gantt(*v, from_ns=begin, to_ns=end)


def test_ranks_are_chosen_in_order(v: tuple[Plan, Timeline]) -> None:
    whole, some = rows(gantt(*v).plain), rows(gantt(*v, ranks=[3, 1]).plain)
    assert list(some) == ["3", "1", "idle"]
    assert (some["3"], some["1"]) == (whole["3"], whole["1"])
    with pytest.raises(InputError, match="no rank 4"):
        gantt(*v, ranks=[4])


def test_the_idle_line_counts_ranks() -> None:
    # Two ranks, one micro-batch, all actions 1 ns: 0F0 1F0 1B0 0B0, always one of two idle.
    plan = make_plan([0, 1], one_f_one_b(2, 1), {"F": 1, "B": 1}, num_microbatches=1)
    chart = gantt(plan, replay(plan)).plain
    assert set(rows(chart)["idle"]) == {"▄"}
    assert "│ 50.0%" in chart


def test_the_busiest_rank_is_marked_unless_all_are_alike(v: tuple[Plan, Timeline]) -> None:
    assert "*" not in gantt(*v).plain
    plan = v_plan()
    stages = [*plan.stages]
    stages[5] = msgspec.structs.replace(stages[5], action_ns={"F": 10**7, "I": 12 * 10**6, "W": 10**7, "B": 10**7})
    heavier = msgspec.structs.replace(plan, stages=stages)
    chart = gantt(heavier, replay(heavier)).plain
    assert [line[:5] for line in chart.splitlines() if "*" in line[:5]] == ["  2*│"]
    assert "* most work" in chart


def test_memory_over_the_limit_is_marked() -> None:
    plan = v_plan(limit_gib=1)  # two stages of 0.5 GiB state alone take it all
    timeline = replay(plan)
    assert not timeline.fits
    # Both states, 4 micro-batches held in stage 0, 3 waiting for their W in stage 7 and the fourth held there.
    assert timeline.peak_memory_bytes[0] == GIB + 4 * GIB // 16 + 3 * GIB // 32 + GIB // 16
    assert "1.4/1.0!" in gantt(plan, timeline).plain
    assert "TOO MUCH" in report(plan, timeline).plain


def test_unlimited_and_unmodelled_memory() -> None:
    plan = v_plan(limit_gib=None)
    assert "/∞" in gantt(plan, replay(plan)).plain
    assert "/inf" in gantt(plan, replay(plan), glyphs=ASCII).plain
    without = [msgspec.structs.replace(stage, bytes=type(stage.bytes)()) for stage in plan.stages]
    plan = msgspec.structs.replace(plan, stages=without)
    assert "GiB" not in gantt(plan, replay(plan)).plain
    assert "GiB" not in report(plan, replay(plan)).plain


def test_names_are_no_markup_and_no_control_codes(v: tuple[Plan, Timeline]) -> None:
    plan, timeline = v
    name = "[bold red]x[/bold red] :smile: \x1b[31m\x07é"
    inputs = msgspec.structs.replace(plan.inputs, profile=InputFile(name=name, digest="sha256:" + "0" * 64))
    stages = [msgspec.structs.replace(plan.stages[0], kinds=["[/]", "\x1b]0;x\x07"]), *plan.stages[1:]]
    hostile = msgspec.structs.replace(plan, inputs=inputs, stages=stages)
    console = Console(file=io.StringIO(), color_system=None, width=80, _environ={})
    text = rendered(console, gantt(hostile, timeline), report(hostile, timeline))
    assert "[bold red]x[/bold red] :smile: \\x1b[31m\\x07é\n4 ranks" in text
    assert "[/], \\x1b]0;x\\x07 (recomputed)" in text
    assert "\x1b" not in text
    assert gantt(hostile, timeline, glyphs=ASCII).plain.isascii()
    assert report(hostile, timeline, glyphs=ASCII).plain.isascii()


def test_a_long_name_is_cut_and_apart_from_the_figures(v: tuple[Plan, Timeline]) -> None:
    plan, timeline = v
    inputs = msgspec.structs.replace(plan.inputs, profile=InputFile(name="型" * 200, digest="sha256:" + "0" * 64))
    lines = gantt(msgspec.structs.replace(plan, inputs=inputs), timeline, 61).plain.splitlines()
    assert lines[:2] == ["型" * 30, "4 ranks, 8 stages, 4 micro-batches, 555.0 ms a step"]


def test_a_step_that_takes_no_time() -> None:
    plan = make_plan([0], one_f_one_b(1, 1), {"F": 0, "B": 0}, num_microbatches=1)
    timeline = replay(plan)
    assert timeline.step_time_ns == 0
    assert set(rows(gantt(plan, timeline).plain)["0"]) == {"·"}
    assert "0 ns" in report(plan, timeline).plain


def test_textures_survive_sixteen_colours() -> None:
    for kind, tones in TONES.items():
        for tone in tones:
            style = Style.parse(texture_style(kind, tone))
            if style.bgcolor is not None:
                assert style.color is not None
                standard = ColorSystem.STANDARD
                assert style.color.downgrade(standard) != style.bgcolor.downgrade(standard)
