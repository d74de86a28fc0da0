from __future__ import annotations

import pytest

from octopipe_cli.pipeline import Pipeline, StageCost
from octopipe_cli.plan import Action, StageBytes
from octopipe_cli.render.axis import Tick, ticks
from octopipe_cli.render.cells import Cell, Run, Window, action_runs, sample, stage_runs
from octopipe_cli.simulate import Timeline
from tests.render.plans import replay, v_plan, wide_plan


def row(*pieces: tuple[str, int, int], step_ns: int = 0) -> Timeline:
    """Return the timeline of one rank from (action, start, end)."""
    orders = tuple(Action(int(token[0]), token[1], int(token[2:])) for token, _, _ in pieces)  # type: ignore[arg-type]
    cost = StageCost({}, 0, 0, StageBytes(), False)
    pipeline = Pipeline(1, (0, 0), (cost, cost), (step_ns,), (None,))
    return Timeline(pipeline, (orders,), (tuple(p[1] for p in pieces),), (tuple(p[2] for p in pieces),))


def test_a_cell_shows_what_takes_most_of_it() -> None:
    timeline = row(("0F0", 0, 10), ("1I0", 15, 30))
    # Of the second cell (10 to 20) half is idle: not more than half, so it shows the action. Idle: 5 ns of 3 cells.
    assert sample(timeline, 0, Window(0, 30), 3) == [Cell("F", 0, 0, 0), Cell("I", 1, 0, 15), Cell("I", 1, 0, 0)]
    # Two cells of 15 ns: 10 busy, then all busy.
    assert sample(timeline, 0, Window(0, 30), 2) == [Cell("F", 0, 0, 10), Cell("I", 1, 0, 0)]
    # A cell of 9 to 16 ns: 1 of F, 5 idle, 1 of I.
    assert sample(timeline, 0, Window(9, 16), 1) == [Cell("", -1, -1, 5)]


def test_kinds_compete_by_their_sums_and_ties_go_to_the_first() -> None:
    timeline = row(("0F0", 0, 4), ("0I0", 4, 7), ("0F1", 7, 8), ("0W0", 8, 13))
    assert sample(timeline, 0, Window(0, 13), 1) == [Cell("F", 0, 0, 0)]  # F 5, I 3, W 5
    assert sample(timeline, 0, Window(1, 13), 1) == [Cell("W", 0, 0, 0)]  # F 4, I 3, W 5
    assert sample(timeline, 0, Window(3, 8), 1) == [Cell("I", 0, 0, 0)]  # F 2, I 3


def test_the_optimizer_step_and_actions_without_time() -> None:
    timeline = row(("0F0", 0, 0), ("0B0", 0, 5), step_ns=5)
    assert [cell.kind for cell in sample(timeline, 0, Window(0, 10), 2)] == ["B", "S"]


def test_cells_narrower_than_a_nanosecond() -> None:
    timeline = row(("0F0", 0, 1), ("0B0", 2, 3))
    kinds = [cell.kind for cell in sample(timeline, 0, Window(0, 3), 9)]
    assert kinds == ["F"] * 3 + [""] * 3 + ["B"] * 3


@pytest.mark.parametrize("cells", [1, 7, 54, 173])
def test_idle_shares_add_up_to_the_bubbles(cells: int) -> None:
    timeline = replay(wide_plan())
    for rank in (0, 17, 31):
        row = sample(timeline, rank, Window(0, timeline.step_time_ns), cells)
        assert sum(cell.idle for cell in row) == cells * sum(timeline.bubbles(rank))


def test_a_window_is_a_cut_of_the_whole() -> None:
    timeline = replay(v_plan())
    step = timeline.step_time_ns
    whole = sample(timeline, 2, Window(0, step), 90)
    assert sample(timeline, 2, Window(step // 3, step), 60) == [
        cell._replace(idle=cell.idle * 60 // 90) for cell in whole[30:]
    ]


def test_runs() -> None:
    one, other, idle = Cell("F", 0, 0, 0), Cell("F", 0, 1, 0), Cell("", -1, -1, 9)
    cells = [one, one, other, idle]
    assert action_runs(cells) == [Run(0, 2, one), Run(2, 1, other), Run(3, 1, idle)]
    assert stage_runs(cells) == [Run(0, 3, one), Run(3, 1, idle)]


def test_ticks_are_round() -> None:
    unit, marks = ticks(Window(0, 866_000_000), 50)
    # Labels take 3 + 4 cells, so ticks are at least 121 ms apart: 200 ms, at 11.5 cells each.
    assert unit.name == "ms"
    assert marks == [Tick(0, "0"), Tick(11, "200"), Tick(23, "400"), Tick(34, "600"), Tick(46, "800")]


def test_ticks_of_a_short_window_far_from_the_start() -> None:
    unit, marks = ticks(Window(865_000_100, 865_000_900), 60)
    assert unit.name == "ms"
    assert [mark.label for mark in marks] == ["865.0002", "865.0004", "865.0006", "865.0008"]
    assert [mark.cell for mark in marks] == [7, 22, 37, 52]


def test_ticks_of_nanoseconds_are_whole() -> None:
    unit, marks = ticks(Window(0, 3), 60)
    assert (unit.name, marks) == ("ns", [Tick(0, "0"), Tick(20, "1"), Tick(40, "2")])


def test_a_window_without_a_round_time_names_its_start() -> None:
    unit, marks = ticks(Window(865_000_101, 865_000_199), 10)
    assert (unit.name, marks) == ("ms", [Tick(0, "865.000101")])
