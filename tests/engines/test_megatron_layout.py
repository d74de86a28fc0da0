from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octopipe_cli.engines.megatron_layout import LayoutSyntaxError, layout_problems, read_layout, write_layout
from tests.instances import SHARED

VECTORS = SHARED / "reference" / "megatron_layout_vectors.txt"

#: (string, ranks, decoder layers, MTP depths) that Megatron-LM takes, and the stages of some ranks.
TAKEN = {
    ("Et*3|(tt|)*29,m|L", 16, 61, 1): {0: "Ettt/tt", 1: "tt/tt", 13: "tt/tt", 14: "tt/m", 15: "tt/L"},
    ("Et*3|(tt|)*29,m|L", 8, 61, 1): {0: "Ettt/tt/tt/tt", 6: "tt/tt/tt/m", 7: "tt/tt/tt/L"},
    ("Et*2|(tt|)*5t|tmL", 4, 14, 1): {0: "Ett/tt", 1: "tt/tt", 2: "tt/t", 3: "tt/tmL"},
    ("Et*7|t*7mL", 2, 14, 1): {0: "Ettttttt", 1: "tttttttmL"},
    ("Et*3|(tt|)*6tmL", 2, 16, 1): {0: "Ettt/tt/tt/tt", 1: "tt/tt/tt/tmL"},
    ("Et*3|(tt|)*6L", 2, 15, 0): {1: "tt/tt/tt/L"},
    ("Et|(tt|)*6mL", 2, 13, 1): {0: "Et/tt/tt/tt", 1: "tt/tt/tt/mL"},
    ("E|t*3|(t|)*5mL", 4, 8, 1): {0: "E/t", 1: "ttt/t", 2: "t/t", 3: "t/mL"},
    ("E|t*3|(t|)*3tt|m|L", 4, 8, 1): {0: "E/t", 1: "ttt/tt", 2: "t/m", 3: "t/L"},
    ("E||t|L", 4, 1, 0): {1: "", 2: "t"},
    ("E||t|L", 2, 1, 0): {0: "E/t", 1: "/L"},
    ("Et*2|(t*2|)*34,t*3|(t*2|)*3,tL", 8, 80, 0): {0: "Ett/tt/tt/tt/tt", 7: "tt/tt/tt/tt/tL"},
    ("Et*4|(tttt|)*14tmL", 4, 61, 1): {3: "tttt/tttt/tttt/tmL"},
    ("Et*4|(tttt|)*14tmL", 2, 61, 1): {},
    ("Et*4|(t*7|)*5t*8|tmL", 4, 48, 1): {2: "ttttttt/tttttttt", 3: "ttttttt/tmL"},
    ("t*0Et|t*0|L", 3, 1, 0): {1: ""},
    ("Et|*3tL", 2, 2, 0): {0: "Et/", 1: "/tL"},
    ("(Et|)*1tL", 2, 2, 0): {0: "Et", 1: "tL"},
}
#: Strings with the rules they break.
REFUSED = {
    ("E|(t|)*3,m|m||L", 2, 3, 2): ["mtp-together", "mtp-chunk"],
    ("E|(t|)*3,m|m||L", 4, 3, 2): ["mtp-together", "mtp-rank"],
    ("E t|tL", 2, 2, 0): ["letter"],
    ("et|tL", 2, 2, 0): ["letter"],
    ("((t|)*2|)*3", 2, 6, 0): ["group"],
    ("()*2", 1, 0, 0): ["group"],
    ("(tt|)29", 1, 58, 0): ["group"],
    ("(tt|)", 1, 2, 0): ["group"],
    ("tE|tL", 2, 2, 0): ["embedding-first"],
    ("Et|Lt", 2, 2, 0): ["loss-last"],
    ("Et|tL", 2, 3, 0): ["layers"],
    ("Et|t|tL", 2, 3, 0): ["stages"],
    ("Et|tmL", 2, 2, 0): ["mtp-layers"],
    ("Etm|tL", 2, 2, 1): ["mtp-order", "mtp-rank"],
    ("EEt|tL", 2, 2, 0): ["one-embedding"],
    ("E|(t|)*10m|m|m|LL|LL", 8, 10, 3): ["one-loss", "mtp-together"],
    ("Et*99999999|tL", 2, 2, 0): ["length"],
    ("(" * 30_000, 2, 2, 0): ["length"],
    ("", 1, 0, 0): ["embedding-first", "loss-last", "one-embedding", "one-loss"],
    # What Megatron takes and does not build:
    ("Et|t|L|", 2, 2, 0): ["loss-stage"],
    ("|Et|tL", 3, 2, 0): ["embedding-stage"],
    ("Etmm|L", 2, 1, 2): ["mtp-rank"],
}


def judged(text: str, ranks: int, layers: int, mtp: int) -> list[str]:
    try:
        return [problem.rule for problem in layout_problems(read_layout(text), ranks, layers, mtp)]
    except LayoutSyntaxError as error:
        return [error.problem.rule]


@pytest.mark.parametrize("case", TAKEN, ids=lambda case: f"{case[0]}-{case[1]}")
def test_what_megatron_takes(case: tuple[str, int, int, int]) -> None:
    text, ranks, _, _ = case
    assert judged(*case) == []
    stages = read_layout(text)
    for rank, expected in TAKEN[case].items():
        assert "/".join(stages[rank::ranks]) == expected


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: f"{case[0][:20]}-{case[1]}")
def test_what_it_refuses_or_builds_otherwise(case: tuple[str, int, int, int]) -> None:
    assert judged(*case) == REFUSED[case]


def test_rules_of_our_own_are_told_apart() -> None:
    ours = {"embedding-stage", "loss-stage", "mtp-rank"}
    for case in (("Et|t|L|", 2, 2, 0), ("|Et|tL", 3, 2, 0), ("Etmm|L", 2, 1, 2), ("tE|tL", 2, 2, 0)):
        for problem in layout_problems(read_layout(case[0]), *case[1:]):
            assert problem.megatron == (problem.rule not in ours)


@pytest.mark.skipif(not VECTORS.exists(), reason="the vectors are not in this checkout")
def test_all_vectors() -> None:
    checked = 0
    for line in VECTORS.read_text().splitlines()[1:]:
        text, ranks, layers, mtp, result = (cell.strip() for cell in line.strip().rsplit(" | ", 4))
        problems = judged(text, int(ranks), int(layers), int(mtp) if mtp.isdigit() else 0)
        assert (not problems) == result.startswith("OK"), (line, problems)
        checked += 1
    assert checked > 20


def test_the_canonical_form() -> None:
    assert write_layout(["Ettt", *["tt"] * 29, "m", "L"]) == "Et*3|(t*2|)*29m|L"
    assert write_layout(["Ett", "tt", "tt", "tmmL"]) == "Et*2|(t*2|)*2tm*2L"
    assert write_layout(["E", "", "", "", "t", "L"]) == "E|(|)*3t|L"
    assert write_layout(["Et", "", "tL"]) == "Et||tL"
    assert write_layout(["EttL"]) == "Et*2L"


STAGE = st.builds(lambda t, m: "t" * t + "m" * m, st.integers(0, 12), st.integers(0, 3))


@given(st.lists(STAGE, min_size=1, max_size=24))
def test_what_is_written_is_read_back(stages: list[str]) -> None:
    stages = ["E" + stages[0], *stages[1:]]
    stages[-1] += "L"
    assert read_layout(write_layout(stages)) == tuple(stages)
