from __future__ import annotations

from octopipe_cli.export.lanes import Scale, Slab, boxes_of, has_narrow, outline, slabs_of
from octopipe_cli.plan import Action
from octopipe_cli.render.cells import Window
from octopipe_cli.simulate import Timeline
from tests.render.plans import make_plan, replay

#: 100 ns on 100 px: a pixel a nanosecond, ten units a pixel.
SCALE = Scale(Window(0, 100), 1000)


def one_rank(forward_ns: int, back_ns: int, count: int = 4) -> Timeline:
    orders = (tuple(action for m in range(count) for action in (Action(0, "F", m), Action(0, "B", m))),)
    return replay(make_plan([0], orders, {"F": forward_ns, "B": back_ns}, num_microbatches=count))


def test_wide_actions_are_boxes() -> None:
    timeline = one_rank(2, 3)
    assert [(box.left, box.right) for box in boxes_of(timeline, 0, SCALE)][:3] == [(0, 20), (20, 50), (50, 70)]
    assert slabs_of(timeline, 0, SCALE, 100) == []
    assert not has_narrow(timeline, SCALE)


def test_narrow_ones_are_shares_of_columns() -> None:
    timeline = one_rank(1, 1)  # 8 px: four columns, each half F and half B, joined
    assert boxes_of(timeline, 0, SCALE) == []
    assert slabs_of(timeline, 0, SCALE, 100) == [Slab(0, 80, 0, 50, "F"), Slab(0, 80, 50, 100, "B")]
    assert has_narrow(timeline, SCALE)


def test_a_narrow_one_between_wide_ones_keeps_its_place_and_the_whole_height() -> None:
    timeline = one_rank(1, 5, count=2)
    assert [(box.left, box.right) for box in boxes_of(timeline, 0, SCALE)] == [(10, 60), (70, 120)]
    assert slabs_of(timeline, 0, SCALE, 100) == [Slab(0, 10, 0, 100, "F"), Slab(60, 70, 0, 100, "F")]


def test_idle_time_stays_idle() -> None:
    orders = ((Action(0, "F", 0), Action(0, "B", 0)), (Action(1, "F", 0), Action(1, "B", 0)))
    timeline = replay(make_plan([0, 1], orders, {"F": 1, "B": 50}, num_microbatches=1))
    # rank 0: F 0-1, idle until rank 1 has run F 1-2 and B 2-52, B 52-102
    assert slabs_of(timeline, 0, SCALE, 100) == [Slab(0, 10, 0, 100, "F")]
    assert [(box.left, box.right) for box in boxes_of(timeline, 0, SCALE)] == [(520, 1000)]  # where the scale ends


def test_what_is_left_out_is_not_drawn() -> None:
    orders = (tuple(Action(0, kind, m) for m in range(4) for kind in ("F", "B")),)
    timeline = replay(make_plan([0], orders, {"F": 10, "B": 10}, num_microbatches=4))
    scale = Scale(Window(0, 80, 25, 65), 400)  # within 0B0 + 5 ns of F1 ... within F3
    boxes = [(str(box.action), box.left, box.right) for box in boxes_of(timeline, 0, scale)]
    assert boxes == [("0F0", 0, 100), ("0B0", 100, 200), ("0F1", 200, 250), ("0F3", 250, 300), ("0B3", 300, 400)]


def test_actions_of_no_length_take_no_room() -> None:
    timeline = one_rank(0, 4, count=2)
    assert slabs_of(timeline, 0, SCALE, 100) == []


def test_a_memory_curve_keeps_its_peaks_however_short() -> None:
    curve = [(0, 5), (200, 9), (201, 6), (350, 3)]
    # 1000 ns on 100 px, 10 ns a pixel: the peak of 1 ns fills its pixel
    assert outline(curve, Scale(Window(0, 1000), 1000), 1000) == [(0, 5), (200, 9), (210, 6), (350, 6), (360, 3)]
