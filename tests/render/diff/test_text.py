from __future__ import annotations

import io
from collections.abc import Callable

import msgspec
import pytest

from octopipe_cli import replay
from octopipe_cli.diff.change import PlanDiff
from octopipe_cli.pipeline import Pipeline
from octopipe_cli.plan import Orders, Plan, write_orders
from octopipe_cli.render.console import make_console
from octopipe_cli.render.diff.text import TextFormat
from octopipe_cli.simulate import Timeline, simulate
from tests.render.diff.reports import added, before, every, hostile, regression, removed, solo, unchanged

Golden = Callable[[str, str], None]


def written(reports: list[PlanDiff], width: int = 100, encoding: str = "utf-8", **environment: str) -> str:
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    return TextFormat(make_console(file=stream, width=width, environment=environment)).format(reports)


def bars(text: str, side: str = "│") -> dict[str, str]:
    """Return the cells of each row, by its label."""
    found, rank = {}, ""
    for line in text.splitlines():
        if line.count(side) == 2:
            label, cells, _ = line.split(side)
            rank = label.split()[1] if "rank" in label else rank
            found[f"{rank} {label.split()[-1]}"] = cells
    return found


@pytest.mark.parametrize("width", [60, 80, 200])
def test_text(width: int, golden: Golden) -> None:
    golden(f"text-{width}.txt", written(every(), width))


def test_ascii_and_colour(golden: Golden) -> None:
    text = written(every(), 80, "ascii")
    assert text.isascii()
    golden("text-80-ascii.txt", text)
    coloured = {"FORCE_COLOR": "1", "TERM": "xterm-256color", "COLORTERM": "truecolor"}
    golden("text-80-colour.txt", written([regression()], 80, **coloured))
    assert "\x1b" not in written(every(), 80, NO_COLOR="1", **coloured)


@pytest.mark.parametrize("width", [60, 61, 79, 100, 200])
def test_lines_keep_to_the_width(width: int) -> None:
    for reports in (every(), [hostile()]):
        assert max(map(len, written(reports, width).splitlines())) <= width
    assert {len(line) for line in written([regression()], width).splitlines() if line.count("│") == 2} == {width}


def test_the_summary_comes_first_and_what_fails_next() -> None:
    first, second, _, head, failing, *rest = written([regression()], 200).splitlines()
    assert first.endswith("1 of them fails")
    assert second == (
        "step time 555.0 ms -> 675.0 ms (+21.6 %), bubbles 56.8 % -> 60.0 %, above the bound 2.0 %, "
        "least headroom 0.59 GiB (rank 0)"
    )
    assert (head, failing) == ("fails", "! step-time-slower: the step time grows from 555.0 ms to 675.0 ms (+21.6 %)")
    assert not [line for line in rest if line.startswith("!")]


def test_bars_have_one_time_scale() -> None:
    # 2 x (2 + 1) = 6 ms before, 2 x (5 + 1) = 12 ms after: the old row takes half of the cells.
    old, new = solo(2, 2), solo(2, 5)
    found = bars(written([regression(old, new)], 87))
    assert set(found) == {"0 before", "0 after"}
    assert len(found["0 before"]) == 87 - len("rank 0 before") - 2 - len(" busy%") == 66
    # before: F 11 cells, B 5.5 twice; after: F 27.5, B 5.5 twice. The first of two equal shares is F.
    assert found["0 before"].rstrip("·") == "0" + "█" * 10 + "0" + "▓" * 4 + "1" + "█" * 11 + "1" + "▓" * 4
    assert len(found["0 before"].rstrip("·")) == 33
    assert len(found["0 after"].rstrip("·")) == 66


def test_only_ranks_that_changed_are_drawn() -> None:
    old = before()
    orders = [*old.orders]
    swapped = " ".join(orders[3]).split()
    swapped[-1], swapped[-2] = swapped[-2], swapped[-1]
    orders[3] = [" ".join(swapped)]
    new = msgspec.structs.replace(old, orders=orders)
    text = written([regression(old, new)])
    assert set(bars(text)) == {"3 before", "3 after"}
    assert "the rank that changed, before above after" in text


def test_at_most_four_ranks_are_drawn_those_whose_work_changed_most() -> None:
    from tests.render.plans import wide_plan

    old = wide_plan(8, 4)
    stages = list(old.stages)
    for rank, factor in ((7, 3), (2, 4), (5, 2)):
        slow = {kind: factor * time for kind, time in stages[rank].action_ns.items()}
        stages[rank] = msgspec.structs.replace(stages[rank], action_ns=slow)
    text = written([regression(old, msgspec.structs.replace(old, stages=stages))])
    assert [label for label in bars(text) if "before" in label] == ["0 before", "2 before", "5 before", "7 before"]
    assert "the 4 most changed of 8 ranks, before above after" in text


def test_ranks_that_came_or_went_stand_alone() -> None:
    from tests.render.plans import MS, make_plan, one_f_one_b

    two, three = (make_plan(list(range(n)), one_f_one_b(n, 2), {"F": MS, "B": MS}, num_microbatches=2) for n in (2, 3))
    assert "2 before" not in bars(written([regression(two, three)]))
    assert "2 after" in bars(written([regression(two, three)]))
    assert "2 before" in bars(written([regression(three, two)]))
    assert "2 after" not in bars(written([regression(three, two)]))


def test_no_chart_where_there_is_none_to_draw() -> None:
    broken: Plan = msgspec.structs.replace(before(), orders=write_orders([[]] * 4))
    for report in (added(), removed(), unchanged(), regression(before(), broken), regression(broken, before())):
        assert bars(written([report])) == {}


def test_names_do_no_harm() -> None:
    text = written([hostile()])
    assert not {"\x1b", "\r", "\x00", "\u202e"} & set(text)
    assert not [line for line in text.splitlines() if line.startswith("::")]


def test_nothing_to_compare() -> None:
    assert written([]) == "no plan differs\n"


def test_a_comparison_and_its_chart_replay_each_plan_once(monkeypatch: pytest.MonkeyPatch) -> None:
    replayed = []

    def counted(pipeline: Pipeline, orders: Orders) -> Timeline:
        replayed.append(pipeline)
        return simulate(pipeline, orders)

    monkeypatch.setattr(replay, "simulate", counted)
    assert bars(written([regression()]))
    assert len(replayed) == 2
