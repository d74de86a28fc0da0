from __future__ import annotations

from random import Random

from octopipe_cli.diff.orders import OrderChange, order_change


def common(a: list[str], b: list[str]) -> int:
    """Return the length of the longest common subsequence, by the textbook table."""
    row = [0] * (len(b) + 1)
    for x in a:
        before = row[:]
        for j, y in enumerate(b):
            row[j + 1] = before[j] + 1 if x == y else max(before[j + 1], row[j])
    return row[-1]


def test_moved_actions_are_the_fewest_that_explain_it() -> None:
    for seed in range(200):
        rng = Random(seed)
        pool = [f"{stage}F{m}" for stage in range(3) for m in range(4)]
        a, b = rng.sample(pool, rng.randint(0, 12)), rng.sample(pool, rng.randint(0, 12))
        change = order_change(a, b)
        shared = len(set(a) & set(b))
        moved = shared - common(a, b)
        if a == b:
            assert change is None
        else:
            assert change is not None
            assert change[1:] == (moved, len(a) - shared, len(b) - shared)
            assert a[: change.first] == b[: change.first]


def test_one_action_that_comes_later() -> None:
    assert order_change(["0F0", "0F1", "0B0", "0B1"], ["0F0", "0B0", "0F1", "0B1"]) == OrderChange(1, 1, 0, 0)
