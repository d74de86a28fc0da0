"""Lower bounds on the step time of any plan in closed form: load, path of one micro-batch, memory over time."""

from __future__ import annotations

import math
from dataclasses import replace

from octopipe_cli.plan import Request
from octopipe_cli.search.atoms import AtomTable


def load_ns(table: AtomTable, request: Request) -> int:
    """Return the bound of all the work, each atom where it is cheapest, shared out evenly; and of the largest atom."""
    least = [
        forward + backward + step
        for forward, backward, step in zip(
            table.least("forward", total=True), table.least("backward", total=True), table.least("step"), strict=True
        )
    ]
    launches = 2 * request.num_microbatches * table.overhead_ns
    return max(-(-sum(least) // table.num_ranks), max(least)) + launches


def path_ns(table: AtomTable) -> int:
    """Return the bound of one micro-batch: forwards through all atoms, backwards to the first and its weights.

    A rank that is not the first one's is entered, and left, by a transfer: at least the cheapest ones there are.
    """
    if table.apart:  # each of them must pass
        return max(path_ns(single) for single, _ in table.apart)
    changes = sum(sorted(table.lag_ns[:-1])[: table.num_ranks - 1])
    launches = 2 * table.num_ranks * table.overhead_ns
    tail = table.least("weight")[0] + table.least("step")[0]
    return table.path("forward")[-1] + table.path("gradient")[-1] + 2 * changes + launches + tail


def fewer_ranks_ns(table: AtomTable, request: Request) -> int | None:
    """Return a bound on plans that leave a rank without layers, which no other argument here speaks of.

    None where there is but one rank. All work is on the others; and one micro-batch takes its way.
    """
    if table.num_ranks == 1:
        return None
    others, alone = (replace(table, class_of=table.class_of[:count]) for count in (table.num_ranks - 1, 1))
    return max(load_ns(others, request), path_ns(alone))


def memory_ns(table: AtomTable, request: Request) -> int:
    """Return the bound of the area under the memory curves: what must be held for how long, over what there is."""
    free = free_bytes(table)
    if free is None or free <= 0:
        return 0
    plain, saved = areas(table, request)
    least = sum(min(whole, whole - less) for whole, less in zip(plain, saved, strict=True))
    return -(-least // free)


def areas(table: AtomTable, request: Request) -> tuple[list[int], list[int]]:
    """Return for each atom the least byte-nanoseconds that is held of it, and what recomputation saves of them."""
    plain, saved = [0] * table.num_atoms, [0] * table.num_atoms
    for single, count in table.each:
        for a, (whole, less) in enumerate(zip(*_areas_of_one(single, request), strict=True)):
            plain[a] += count * whole
            saved[a] += count * less
    return plain, saved


def _areas_of_one(table: AtomTable, request: Request) -> tuple[list[int], list[int]]:
    """Return the same for one micro-batch.

    An activation lives at least as long as it takes the micro-batch to go on to the last layer and come back.
    """
    forward, gradient, weight = table.least("forward"), table.least("gradient"), table.least("weight")
    to_go = [f + g for f, g in zip(forward, gradient, strict=True)]
    plain, saved = [], []
    left = sum(to_go) + 2 * table.overhead_ns
    for a, t in enumerate(table.type_of):
        size = table.sizes[t]
        f, g, w = forward[a], gradient[a], weight[a]
        kept = size.activation * left + min(size.activation, size.weight) * w + size.workspace * (f + g)
        again = 0 if request.recompute == "full" else f
        small = size.inputs * (left + again) + size.largest * (g + again) + min(size.inputs, size.weight) * w
        small += size.workspace * (f + g + again)
        plain.append(small if request.recompute == "full" else kept)
        saved.append(kept - small if request.recompute == "auto" else 0)
        left -= to_go[a]
    return plain, saved


def free_bytes(table: AtomTable) -> int | None:
    """Return what all ranks together have besides the layers' states; None where a rank is unlimited."""
    total = 0
    for c, count in enumerate(table.class_counts):
        limit = table.classes[c].limit_bytes
        if limit is None:
            return None
        total += count * limit
    return total - sum(table.sizes[t].state for t in table.type_of)


def common_divisor(table: AtomTable) -> int:
    """Return the largest number of ns that divides every time of a table."""
    values: list[int] = [table.overhead_ns, *table.lag_ns]
    for times in (*table.times, *table.totals):
        for entry in times:
            values += entry
    return math.gcd(*values) or 1
