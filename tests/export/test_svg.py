from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from xml.etree import ElementTree

import msgspec
import pytest

from octopipe_cli.export import Options, svg
from octopipe_cli.export.palette import FILLS
from octopipe_cli.export.svg import export
from octopipe_cli.formats import Loaded
from octopipe_cli.plan import Plan, StageBytes
from octopipe_cli.words import visible
from tests.export.tiny import HOSTILE, hostile, loaded, two_ranks
from tests.render.plans import MS, make_plan, one_f_one_b, v_plan, wide_plan

NAME = "{http://www.w3.org/2000/svg}"


def drawn(plan: Loaded[Plan]) -> ElementTree.Element:
    return ElementTree.fromstring(export(plan, Options()))


def texts(root: ElementTree.Element) -> list[str]:
    return ["".join(element.itertext()) for element in root.iter(f"{NAME}text")]


def test_what_it_says() -> None:
    root = drawn(loaded(v_plan(step_ns=6 * MS)))
    said = texts(root)
    for words in ("toy on cluster", "561.0 ms", "550.0 ms", "plan is 2.0 % above; for any plan", "57.2 %", "1.25 x"):
        assert words in said
    assert {"rank 0", "rank 3", "bound 550.0 ms", "step 561.0 ms", "time, ms", "F forward", "bubble"} <= set(said)
    assert "B backward, whole" not in said  # only what occurs is in the legend
    assert said.count("1.4 / 2.0") == 4  # peak and limit of each rank, in GiB
    assert root.find(f"{NAME}title").text == "toy on cluster"  # type: ignore[union-attr]


def test_every_action_has_a_box_and_its_number() -> None:
    root = drawn(two_ranks())
    paths = [path.get("d", "") for path in root.iter(f"{NAME}path") if re.match("[FB]0", path.get("class", ""))]
    assert sum(path.count("M") for path in paths) == 8
    # 94 ms on 1100 px: 0F1 from 10 ms to 20 ms
    assert "M1170 0H2340V340H1170z" in "".join(paths)
    assert [text for text in texts(root) if text in ("0", "1")].count("1") == 4


def test_no_memory_no_curves() -> None:
    plan = v_plan()
    bare = [msgspec.structs.replace(stage, bytes=StageBytes()) for stage in plan.stages]
    said = texts(drawn(loaded(msgspec.structs.replace(plan, stages=bare))))
    assert not [words for words in said if "GiB" in words or "memory" in words]


def test_a_limit_that_is_broken_is_marked() -> None:
    said = texts(drawn(loaded(v_plan(limit_gib=1))))
    assert said.count("1.4 / 1.0 !") == 4
    assert "rank 0, limit 1.0 GiB, TOO MUCH" in said


def test_hostile_names_are_only_text() -> None:
    root = drawn(hostile())
    assert {element.tag.removeprefix(NAME) for element in root.iter()} == {
        *("svg", "title", "desc", "style", "defs", "pattern", "rect", "path", "g", "text"),
    }
    assert not [key for element in root.iter() for key in element.keys() if key[:2] == "on" or "href" in key]  # noqa: SIM118
    title = root.find(f"{NAME}title").text or ""  # type: ignore[union-attr]
    assert title.startswith(visible(HOSTILE)[:50])
    assert not re.search("[\x00-\x09\x0b-\x1f\u202e\u2028]", export(hostile(), Options()))


def test_nothing_from_elsewhere() -> None:
    text = export(loaded(v_plan()), Options())
    assert re.findall(r"\w+://[^\"']*", text) == ["http://www.w3.org/2000/svg"]
    assert set(re.findall(r"url\([^)]*\)", text)) == {"url(#octopipe-idle)"}
    assert "@import" not in text
    assert "@font-face" not in text
    assert "@media (prefers-color-scheme:dark)" in text


def test_a_plan_of_no_length() -> None:
    plan = make_plan([0, 1], one_f_one_b(2, 2), {"F": 0, "B": 0}, num_microbatches=2)
    assert "0 ns" in texts(drawn(loaded(plan)))


def lightness(colour: str) -> float:
    """Return CIE L* of an sRGB colour (CIE 15:2004; IEC 61966-2-1)."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    luminance = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    return 116 * luminance ** (1 / 3) - 16


def test_kinds_are_told_apart_in_grey() -> None:
    ladder = [FILLS[kind] for kind in "IFWB"]
    for brighter, darker in pairwise(ladder):
        assert lightness(brighter.odd) - lightness(darker.even) >= 7.5  # the nearest tones of two kinds
    for kind in "FIWB":
        ink, tones = lightness(FILLS[kind].ink), (FILLS[kind].even, FILLS[kind].odd)
        assert all(abs(ink - lightness(tone)) > 45 for tone in tones)


def test_large_plans_stay_small(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = loaded(wide_plan(64, 512))
    folded = export(plan, Options())
    monkeypatch.setattr(svg, "fold_of", lambda *_: None)
    text = export(plan, Options())
    assert len(text) < 600_000
    assert "columns show how the time is shared" in text
    assert "steady state" not in text
    assert len(folded) < 600_000
    assert "steady state: micro-batches 64 to 511 enter" in folded


def test_a_long_step_shows_its_steady_state_once() -> None:
    text = export(loaded(wide_plan(4, 64)), Options())
    assert "the same pattern 60 times, shown once; left out: 52.00 ms to 760.0 ms</text>" in text
    assert ">60x</text>" in text
    # Of rank 3: micro-batch 3 is before, 62 behind what is left out; 33 is left out.
    assert ">3</text>" in text
    assert ">62</text>" in text
    assert ">33</text>" not in text


def test_golden(golden: Callable[[str, str], None]) -> None:
    golden("two-ranks.svg", export(two_ranks(), Options()))
