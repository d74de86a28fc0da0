from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from octopipe_cli.plan import Plan
from octopipe_cli.render.frame import Frame, make_frame
from octopipe_cli.render.gantt import gantt_in
from octopipe_cli.render.glyphs import ASCII, BLOCKS
from octopipe_cli.render.memory import Peak, memory_chart, peak_of
from tests.render.plans import GIB, MS, make_plan, one_f_one_b, replay, v_plan, wide_plan

Golden = Callable[[str, str], None]


def frame_of(plan: Plan, width: int = 80) -> Frame:
    return make_frame(replay(plan), width, BLOCKS)


def strips(frame: Frame) -> dict[str, list[str]]:
    """Return the lines of each rank's strip, from the top, without what stands beside them."""
    found: dict[str, list[str]] = {}
    label = ""
    for line in memory_chart(frame).plain.splitlines():
        if line.count("│") == 2:
            label = line.split("│")[0].strip() or label
            found.setdefault(label, []).append(line.split("│")[1])
    return found


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_memory_without_colour(width: int, golden: Golden) -> None:
    golden(f"memory-v-{width}.txt", memory_chart(frame_of(v_plan(), width)).plain)


def test_memory_of_a_long_step_on_many_ranks(golden: Golden) -> None:
    frame = frame_of(wide_plan())
    assert frame.steady is not None
    golden("memory-wide-80.txt", memory_chart(frame).plain)


def test_memory_in_ascii(golden: Golden) -> None:
    golden("memory-v-80-ascii.txt", memory_chart(make_frame(replay(v_plan()), 80, ASCII)).plain)


def test_the_axis_is_the_chart_s() -> None:
    for plan in (v_plan(), wide_plan(4, 64)):
        frame = frame_of(plan)
        chart, memory = (text.plain.splitlines() for text in (gantt_in(plan, frame), memory_chart(frame)))
        for lines in (chart, memory):
            lines[:] = lines[next(at for at, line in enumerate(lines) if "└" in line) :][:2]
        assert chart == memory


def test_heights_are_the_most_held() -> None:
    # One rank, two micro-batches: 0.5 GiB of state, 1/16 GiB from F to the end of B, so 9/16 or 8/16 of 1 GiB.
    plan = make_plan([0], one_f_one_b(1, 2), {"F": MS, "B": MS}, num_microbatches=2, limit_gib=1)
    top, second, third, bottom = strips(frame_of(plan))["0"]
    assert set(top) == {" "}
    assert set(second) == {"▂"}  # 9/16 of 32 levels is 18: 2 above the half
    assert set(third + bottom) == {"▒"}
    assert peak_of(replay(plan), 0) == Peak(9 * GIB // 16, 0, "as 0F0 starts, micro-batch 0")


def test_the_peak_is_named_where_it_is_first_reached() -> None:
    timeline = replay(v_plan())
    # Rank 0 holds two states, four micro-batches of stage 0, and 3 in stage 7 waiting for their W, when 7F3 starts.
    peak = peak_of(timeline, 0)
    assert peak.doing == "as 7F3 starts, micro-batch 3"
    rank = timeline.orders[0].index((7, "F", 3))
    assert peak.at_ns == timeline.start_ns[0][rank]
    assert peak.size_bytes == timeline.peak_memory_bytes[0]


def test_what_is_too_much_is_marked() -> None:
    chart = memory_chart(frame_of(v_plan(limit_gib=1))).plain
    assert "1.4/1.0!" in chart
    line = next(line for line in chart.splitlines() if "limit 1.0 GiB" in line)
    assert "!!!!" in line
    assert "!" not in memory_chart(frame_of(v_plan())).plain


def test_limits_far_above_and_none_are_told_in_figures() -> None:
    chart = memory_chart(frame_of(wide_plan(4, 8))).plain
    assert "top of the strip: 0.8 GiB" in chart
    assert "0.8/80.0" in chart
    assert "1.4/∞" in memory_chart(frame_of(v_plan(limit_gib=None))).plain


def test_without_sizes_there_is_nothing_to_draw() -> None:
    plan = v_plan(limit_gib=None)
    stages = [msgspec.structs.replace(stage, bytes=type(stage.bytes)()) for stage in plan.stages]
    chart = memory_chart(frame_of(msgspec.structs.replace(plan, stages=stages)))
    assert chart.plain == "memory: the plan's profile gives no sizes\n"


def test_what_is_left_out_counts_in_the_cells_of_its_pattern() -> None:
    plan = wide_plan(4, 64)
    frame, full = frame_of(plan), make_frame(replay(plan), 80, BLOCKS, full=True)
    assert frame.steady is not None
    assert full.steady is None
    for rank in range(4):
        highest = [max(row) for row in zip(*strips(frame)[str(rank)], strict=True)]
        assert max(highest) == max(max(row) for row in zip(*strips(full)[str(rank)], strict=True))
