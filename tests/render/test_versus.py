from __future__ import annotations

from collections.abc import Callable

from octopipe_cli.render.glyphs import ASCII
from octopipe_cli.render.versus import Case, versus
from tests.render.plans import MS, make_plan, one_f_one_b, replay, v_plan

Golden = Callable[[str, str], None]


def cases() -> list[Case]:
    plan = make_plan(list(range(4)), one_f_one_b(4, 4), {"F": 40 * MS, "B": 90 * MS}, num_microbatches=4)
    return [Case("1f1b, equal partition, 1 stage a rank", replay(plan)), Case("v.plan.json", replay(v_plan()))]


def test_two_on_one_axis(golden: Golden) -> None:
    for width in (60, 80, 120, 200):
        chart = versus(cases(), width).plain
        assert max(map(len, chart.splitlines())) <= width
        golden(f"versus-{width}.txt", chart)
    chart = versus(cases(), 80, ASCII).plain
    assert chart.isascii()


def test_rows_end_with_their_step() -> None:
    # 910 ms (3 * 40 to fill, 4 * 130, 3 * 90 to drain) and 555 ms.
    first, second = cases()
    assert (first.timeline.step_time_ns, second.timeline.step_time_ns) == (910 * MS, 555 * MS)
    chart = versus([first, second], 80).plain.splitlines()
    rows = [line.split("│")[1] for line in chart if line.count("│") == 2]
    cells = 80 - 4 - 2 - 6
    assert [len(row) for row in rows] == [cells] * 4 + [-(-cells * 555 // 910)] * 4
    assert "v.plan.json: 555.0 ms, 355.0 ms (39.0 %) less" in chart
    assert "1f1b, equal partition, 1 stage a rank: 910.0 ms" in chart
    assert "1f1b, equal partition, 1 stage a rank: 910.0 ms, 355.0 ms (64.0 %) MORE" in versus([second, first]).plain


def test_names_cannot_disturb_the_terminal() -> None:
    first, second = cases()
    chart = versus([first, Case("\x1b[31m" + "x" * 300, second.timeline)], 80).plain
    assert "\x1b" not in chart
    assert "x: 555.0 ms, 355.0 ms (39.0 %) less" in chart
    assert max(map(len, chart.splitlines())) == 80
