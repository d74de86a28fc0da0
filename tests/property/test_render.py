"""Random plans drawn at random widths and windows: nothing breaks, nothing is wider than it may be, no time is lost."""

from __future__ import annotations

from random import Random

import pytest

from octopipe_cli.render.cells import Window, pieces, sample
from octopipe_cli.render.frame import make_frame
from octopipe_cli.render.gantt import gantt
from octopipe_cli.render.glyphs import ASCII, BLOCKS
from octopipe_cli.render.memory import memory_chart
from octopipe_cli.render.report import report, report_document
from octopipe_cli.render.versus import Case, versus
from octopipe_cli.replay import replay
from tests.instances import plan_from, random_instance


@pytest.mark.parametrize("seed", range(40))
def test_any_plan_can_be_drawn(seed: int) -> None:
    rng = Random(seed)
    instance = random_instance(rng, empty_stages=seed % 5 == 0)
    plan = plan_from(instance)
    timeline = replay(plan, "plan")
    assert timeline.step_time_ns == plan.predicted.step_time_ns
    step = max(timeline.step_time_ns, 1)
    begin = rng.randrange(step)
    window = Window(begin, rng.randint(begin + 1, step))
    width, cells = rng.randint(60, 240), rng.randint(1, 300)
    for glyphs in (BLOCKS, ASCII):
        chart = gantt(plan, timeline, width, glyphs, window.from_ns, window.to_ns)
        assert max(map(len, chart.plain.splitlines())) <= width
        assert report(plan, timeline, width, glyphs).plain
        frame = make_frame(timeline, width, glyphs)
        for text in (memory_chart(frame), versus([Case("a", timeline), Case("b", timeline)], width, glyphs)):
            assert max(map(len, text.plain.splitlines())) <= width
            assert glyphs is BLOCKS or text.plain.isascii()
    assert report_document(plan, timeline)["num_ranks"] == len(plan.ranks)
    for rank in range(len(plan.ranks)):
        row = sample(timeline, rank, window, cells)
        busy = sum(
            max(0, min(piece.end_ns, window.to_ns) - max(piece.start_ns, window.from_ns))
            for piece in pieces(timeline, rank, window)
        )
        assert sum(cell.idle for cell in row) == cells * (window.length_ns - busy)
        assert all((cell.kind == "") == (2 * cell.idle > window.length_ns) for cell in row)
