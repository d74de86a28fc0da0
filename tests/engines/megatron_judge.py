"""What megatron-core says of layouts and orders: run by an interpreter that has it, octopipe or not.

Reads {"layouts": [[string, ranks, layers, mtp], ...], "orders": [[P, V, M, N], ...]} on stdin. Writes on stdout, for
each layout, its stages in words or null where it is refused, and for each order the forward table and the warm-ups.
"""

from __future__ import annotations

import json
import sys
import warnings
from types import SimpleNamespace
from typing import Any


def judged_layout(text: str, ranks: int, layers: int, mtp: int) -> list[list[str]] | None:
    from megatron.core.transformer.pipeline_parallel_layer_layout import PipelineParallelLayerLayout

    try:
        layout = PipelineParallelLayerLayout(text, ranks)
        layout.validate_layer_layout(layers, mtp or None)
    except (AssertionError, IndexError, ValueError):
        return None
    chunks = layout.virtual_pipeline_model_parallel_size
    return [[each.name for each in layout.layout[r][c]] for c in range(chunks) for r in range(ranks)]


def judged_order(ranks: int, chunks: int, microbatches: int, size: int) -> dict[str, Any]:
    from megatron.core.pipeline_parallel.schedules import get_pp_rank_microbatches, get_schedule_table

    warm_ups = []
    for rank in range(ranks):
        group = SimpleNamespace(size=lambda: ranks, rank=lambda rank=rank: rank)
        virtual = chunks if chunks > 1 else None
        talker = SimpleNamespace(pp_group=group, virtual_pipeline_model_parallel_size=virtual)
        warm_ups.append(get_pp_rank_microbatches(microbatches, chunks, size, p2p_communicator=talker)[2])
    return {"table": get_schedule_table(microbatches, chunks, size), "warm_ups": warm_ups}


def main() -> None:
    warnings.simplefilter("ignore")
    asked = json.load(sys.stdin)
    layouts = [judged_layout(*each) for each in asked["layouts"]]
    json.dump({"layouts": layouts, "orders": [judged_order(*each) for each in asked["orders"]]}, sys.stdout)


if __name__ == "__main__":
    main()
