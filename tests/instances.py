"""Random small instances with sound orders, and full plans made of them: shared by the property tests."""

from __future__ import annotations

import importlib.util
import io
import json
import math
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any, NamedTuple

import msgspec
import pytest

from octopipe_cli.cluster import P2P, Cluster, cluster_from_document
from octopipe_cli.engines import engine_p2p
from octopipe_cli.engines.megatron_orders import interleaved_1f1b, legal_group_size, one_f_one_b
from octopipe_cli.formats import Document, Loaded, digest
from octopipe_cli.lengths import lengths_of
from octopipe_cli.pipeline import Assignment, Pipeline, build_pipeline
from octopipe_cli.plan import (
    Action,
    Baseline,
    Bound,
    InputFile,
    Inputs,
    Orders,
    Plan,
    PlanRank,
    PlanStage,
    Predicted,
    PredictedRank,
    Request,
    Search,
    TransferTimes,
    write_orders,
)
from octopipe_cli.profile import Group, Name, Profile, compress, profile_from_document
from octopipe_cli.simulate import Timeline, simulate

SHARED = Path(__file__).parents[2] / "shared"
HARDWARE = ("fast", "slow")


class Instance(NamedTuple):
    """A profile, a cluster, stages on ranks and orders that keep every rule and fit into memory."""

    profile: Document
    cluster: Document
    assignment: Assignment
    orders: Orders
    num_microbatches: int
    lengths: dict[str, list[float]] | None = None
    microbatch_order: list[int] | None = None


def random_instance(rng: Random, *, empty_stages: bool = False, lengths: bool = False) -> Instance:
    """Return an instance that touches every field of the formats now and then.

    With `lengths` its micro-batches differ.

    With `empty_stages` it is one for the megatron engines: cyclic, the same number of stages on every rank, some
    empty, recomputation everywhere or nowhere, and their orders.
    """
    num_ranks, num_microbatches = rng.choice((1, 2, 2, 3, 3, 4, 4)), rng.randint(1, 6)
    ranks: tuple[int, ...]
    if empty_stages:
        num_layers = rng.randint(1, 10)
        num_stages = num_ranks * (rng.randint(1, 3) if 1 < num_ranks <= num_microbatches else 1)
        inner = sorted(rng.choices(range(num_layers + 1), k=num_stages - 1))
        ranks = tuple(stage % num_ranks for stage in range(num_stages))
    else:
        num_layers = rng.randint(num_ranks, num_ranks + 8)
        num_stages = rng.randint(num_ranks, min(num_layers, 3 * num_ranks))
        inner = sorted(rng.sample(range(1, num_layers), num_stages - 1))
        placed = [*range(num_ranks), *rng.choices(range(num_ranks), k=num_stages - num_ranks)]
        rng.shuffle(placed)
        ranks = tuple(placed)
    recompute = tuple(rng.random() < 0.3 for _ in range(num_stages))
    if empty_stages:
        recompute = recompute[:1] * num_stages
    assignment = Assignment((0, *inner, num_layers), ranks, recompute)
    profile = _random_profile(rng, assignment)
    if empty_stages:  # with roles the engines' rules on the ends of the model would bind the stages
        for kind in profile["kinds"].values():
            kind.pop("role", None)
    cluster = _random_cluster(rng, num_ranks)
    loaded = profile_from_document(profile, "profile")
    whole_only = [
        any(not loaded.kind_of(layer).splittable for layer in assignment.layers(stage)) for stage in range(num_stages)
    ]
    orders = (
        _megatron_orders(rng, num_ranks, num_stages // num_ranks, num_microbatches)
        if empty_stages
        else random_orders(rng, ranks, num_microbatches, whole_only)
    )
    instance = Instance(profile, cluster, assignment, orders, num_microbatches)
    if lengths:
        instance = with_lengths(rng, instance)
    _limit_memory(
        rng, instance, engine_p2p("megatron", num_stages // num_ranks, "overlapped") if empty_stages else None
    )
    return instance


def with_lengths(rng: Random, instance: Instance) -> Instance:
    """Return an instance whose kinds have modalities and quadratic shares, its micro-batches lengths."""
    for kind in instance.profile["kinds"].values():
        kind |= {"modality": rng.choice(("text", "vision", "audio"))} if rng.random() < 0.6 else {}
        kind |= {"quadratic_share": rng.choice((1, round(rng.random(), 3)))} if rng.random() < 0.6 else {}
    number = instance.num_microbatches
    lists = {
        name: [rng.choice((0, 1, 0.5, round(rng.uniform(0, 3), 4), rng.uniform(0, 8))) for _ in range(number)]
        for name in rng.sample(("text", "vision", "audio"), rng.randint(1, 3))
    }
    order = rng.sample(range(number), number) if rng.random() < 0.5 else None
    return instance._replace(lengths=lists, microbatch_order=order)


def _megatron_orders(rng: Random, num_ranks: int, stages_per_rank: int, num_microbatches: int) -> Orders:
    if stages_per_rank == 1:
        return one_f_one_b(num_ranks, num_microbatches)
    sizes = [n for n in range(num_ranks, num_microbatches + 1) if legal_group_size(n, num_ranks, num_microbatches)]
    return interleaved_1f1b(num_ranks, num_microbatches, stages_per_rank, rng.choice(sizes))


def random_orders(rng: Random, ranks: tuple[int, ...], num_microbatches: int, whole_only: list[bool]) -> Orders:
    """Return orders drawn by dispatching actions that are ready: they never wait in a circle."""
    last = len(ranks) - 1
    split = {
        (stage, m): not whole_only[stage] and rng.random() < share
        for share in [rng.choice((0.0, 0.5, 1.0))]
        for stage in range(len(ranks))
        for m in range(num_microbatches)
    }
    orders: list[list[Action]] = [[] for _ in range(max(ranks) + 1)]
    ready = [Action(0, "F", m) for m in range(num_microbatches)]
    returned: set[tuple[int, int]] = set()  # (stage, micro-batch) whose backward may start once its F has run
    forwarded: set[tuple[int, int]] = set()
    weights = {
        "F": rng.choice((0.2, 1, 5)),
        "I": rng.choice((1, 5)),
        "B": rng.choice((1, 5)),
        "W": rng.choice((0.2, 1)),
    }

    def back(stage: int, m: int) -> Action:
        return Action(stage, "I" if split[stage, m] else "B", m)

    while ready:
        action = rng.choices(ready, [weights[item.kind] for item in ready])[0]
        ready.remove(action)
        stage, kind, m = action
        orders[ranks[stage]].append(action)
        if kind == "F":
            forwarded.add((stage, m))
            if stage < last:
                ready.append(Action(stage + 1, "F", m))
            if stage == last or (stage, m) in returned:
                ready.append(back(stage, m))
        elif kind != "W":
            if kind == "I":
                ready.append(Action(stage, "W", m))
            if stage:
                returned.add((stage - 1, m))
                if (stage - 1, m) in forwarded:
                    ready.append(back(stage - 1, m))
    return tuple(map(tuple, orders))


def _random_profile(rng: Random, assignment: Assignment) -> Document:
    names = ["embedding", "mamba", "mlp", "head"][: rng.randint(1, 4)]
    kinds = {name: _random_kind(rng, name) for name in names}
    num_layers = assignment.cuts[-1]
    layers = tuple(rng.choice(names) for _ in range(num_layers))
    rank_of = [rank for stage, rank in enumerate(assignment.ranks) for _ in assignment.layers(stage)]
    rules: dict[str, Any] = {}
    if rng.random() < 0.5:
        rank = rng.choice(rank_of)
        together = [layer for layer in range(num_layers) if rank_of[layer] == rank]
        rules["same_rank"] = [rng.sample(together, rng.randint(1, len(together)))]
    if rng.random() < 0.5 and num_layers >= 2:
        group = rng.sample(range(num_layers), rng.randint(2, min(4, num_layers)))
        rules["tied"] = [group]
        rest = [layer for layer in range(num_layers) if layer not in group]
        if len(rest) >= 2:
            rules["tied"].append(rng.sample(rest, 2))
    if rng.random() < 0.5:
        cuts = {cut - 1 for cut in assignment.cuts[1:]}
        rules["no_cut_after"] = [layer for layer in range(num_layers) if layer not in cuts and rng.random() < 0.5]
    document: Document = {"schema": "octopipe.profile", "version": 1, "name": "random", "kinds": kinds}
    document["layers"] = compress(layers) if rng.random() < 0.5 else list(layers)
    return document | ({"rules": rules} if rules else {})


def _random_kind(rng: Random, name: str) -> dict[str, Any]:
    kind: dict[str, Any] = {}
    if rng.random() < 0.8:
        keys = ("state_bytes", "activation_bytes", "weight_activation_bytes", "output_bytes", "workspace_bytes")
        kind |= {key: rng.choice((0, rng.randint(1, 50), rng.randint(1, 2**30))) for key in keys if rng.random() < 0.9}
    if rng.random() < 0.2:
        kind["splittable"] = False
    if name != "mamba":
        kind["role"] = {"mlp": "decoder"}.get(name, name)
    unit = rng.choice((1e-6, 1.0))  # whole nanoseconds that often tie, or milliseconds that never do
    kind["times"] = {}
    for hardware in HARDWARE:
        times = {key: _draw(rng, unit) for key in ("forward_ms", "backward_input_ms", "backward_weight_ms")}
        if rng.random() < 0.3:
            times["backward_ms"] = _draw(rng, unit)
        if rng.random() < 0.3:
            times["step_ms"] = _draw(rng, unit)
        kind["times"][hardware] = times
    return kind


def _draw(rng: Random, unit: float) -> float:
    if rng.random() < 0.1:
        return 0.0
    return rng.randint(1, 4) * unit if unit < 1 else round(rng.uniform(0.001, 5), rng.choice((2, 4, 8)))


def _random_cluster(rng: Random, num_ranks: int) -> Document:
    groups: list[dict[str, Any]] = []
    while (left := num_ranks - sum(group.get("count", 1) for group in groups)) > 0:
        group: dict[str, Any] = {"hardware": rng.choice(HARDWARE), "memory_gib": None}
        group |= {"count": rng.randint(1, left)} if rng.random() < 0.7 else {}
        group |= {"speed": rng.choice((0.5, 0.9, 1.1, 3.0))} if rng.random() < 0.4 else {}
        group |= {"node": rng.randint(0, 1)} if rng.random() < 0.5 else {}
        groups.append(group)
    document: Document = {"schema": "octopipe.cluster", "version": 1, "name": "random", "ranks": groups}
    if rng.random() < 0.85:
        links: dict[str, Any] = {}
        for name in ("within_node", "between_nodes"):
            if rng.random() < 0.8:
                links[name] = _random_link(rng)
        pairs = [(a, b) for a in range(num_ranks) for b in range(num_ranks) if a != b]
        if pairs and rng.random() < 0.4:
            chosen = rng.sample(pairs, rng.randint(1, min(3, len(pairs))))
            links["pairs"] = [{"from": a, "to": b, **_random_link(rng)} for a, b in chosen]
        document["links"] = links
    if rng.random() < 0.3:
        document["action_overhead_us"] = rng.choice((0.002, 0.5, 37.1234))
    if rng.random() < 0.75:
        document["p2p"] = rng.choice(("blocking", "blocking", "overlapped"))
    return document


def _random_link(rng: Random) -> dict[str, Any]:
    link: dict[str, Any] = {}
    if rng.random() < 0.7:
        link["bandwidth_gb_per_s"] = rng.choice((None, 0.7, 25, 200.5))
    if rng.random() < 0.7:
        link["latency_us"] = rng.choice((0.001, 10, 333.3337))
    return link


def _limit_memory(rng: Random, instance: Instance, p2p: P2P | None) -> None:
    """Set memory limits the orders stay within: unlimited, roomy, or nothing to spare."""
    peaks = timeline_of(instance, p2p).peak_memory_bytes
    at = 0
    for group in instance.cluster["ranks"]:
        count = group.get("count", 1)
        need = max(peaks[at : at + count])
        at += count
        how = rng.choice(("unlimited", "roomy", "tight"))
        if how == "unlimited":
            continue
        reserved = rng.choice((0, 0.5, 3.7))
        group |= {"reserved_gib": reserved} if reserved else {}
        least = max(need, 1) / 2**30
        group["memory_gib"] = reserved + (least if how == "tight" else least * 1.7 + 1)
        while math.floor((group["memory_gib"] - reserved) * 2**30) < need:
            group["memory_gib"] = math.nextafter(group["memory_gib"], math.inf)


def loaded_profile(document: Document) -> Loaded[Profile]:
    return Loaded(profile_from_document(document, "profile"), "profile", digest(document))


def loaded_cluster(document: Document) -> Loaded[Cluster]:
    return Loaded(cluster_from_document(document, "cluster"), "cluster", digest(document))


def timeline_of(instance: Instance, p2p: Any = None) -> Timeline:
    """Return the simulator's timeline of an instance."""
    return simulate(pipeline_of(instance, p2p), instance.orders)


def pipeline_of(instance: Instance, p2p: Any = None) -> Pipeline:
    """Return the pipeline of an instance."""
    profile = profile_from_document(instance.profile, "profile")
    cluster = cluster_from_document(instance.cluster, "cluster")
    lengths = lengths_of(profile, instance.lengths, instance.num_microbatches)
    if lengths is not None and instance.microbatch_order is not None:
        lengths = lengths.ordered(instance.microbatch_order)
    return build_pipeline(profile, cluster, instance.assignment, instance.num_microbatches, p2p, lengths)


def plan_from(instance: Instance, **request: Any) -> Plan:
    """Return a full valid plan record of an instance, its figures the simulator's; `request` sets its fields.

    The bound is the work of the busiest rank, the baseline one and a half times the step time.
    """
    profile, cluster = loaded_profile(instance.profile), loaded_cluster(instance.cluster)
    asked = Request(num_microbatches=instance.num_microbatches, lengths=instance.lengths, **request)
    per_rank = len(instance.assignment.ranks) // cluster.value.num_ranks
    timeline = timeline_of(instance, engine_p2p(asked.engine, per_rank, cluster.value.p2p))
    pipeline = timeline.pipeline
    kinds = profile.value.layer_kinds
    step_time, span = timeline.step_time_ns, timeline.span_ns
    least = max(timeline.busy_ns)
    reached = span if asked.objective == "span" else step_time
    stages = [
        PlanStage(
            layers=(layers.start, layers.stop),
            kinds=msgspec.convert(compress(kinds[layers.start : layers.stop]), list[Name | Group]),
            rank=pipeline.rank_of[stage],
            recompute=cost.recompute,
            bytes=cost.bytes,
            action_ns=cost.action_ns,
            transfer_ns=TransferTimes(forward=cost.forward_transfer_ns, backward=cost.backward_transfer_ns),
        )
        for stage, cost in enumerate(pipeline.stages)
        for layers in [instance.assignment.layers(stage)]
    ]
    predicted = [
        PredictedRank(
            rank=rank,
            busy_ns=timeline.busy_ns[rank],
            peak_memory_bytes=timeline.peak_memory_bytes[rank],
            first_start_ns=timeline.first_start_ns(rank),
            last_end_ns=timeline.last_end_ns(rank),
        )
        for rank in range(pipeline.num_ranks)
    ]
    slower = step_time + step_time // 2
    baseline = Baseline(schedule="1f1b", step_time_ns=slower, speedup=slower / step_time) if step_time else None
    return Plan(
        schema="octopipe.plan",
        version=1,
        created_by="octopipe tests",
        inputs=Inputs(
            profile=InputFile(name=profile.value.name, digest=profile.digest),
            cluster=InputFile(name=cluster.value.name, digest=cluster.digest),
        ),
        request=asked,
        predicted=Predicted(step_time_ns=step_time, span_ns=span, bubble_ratio=timeline.bubble_ratio, ranks=predicted),
        bound=Bound(
            step_time_ns=least,
            gap=(reached - least) / least if least else 0.0,
            scope="any plan",
            span_ns=least if asked.objective == "span" else None,
        ),
        p2p=pipeline.p2p,
        kinds={name: kind.role for name, kind in profile.value.kinds.items()},
        ranks=[
            PlanRank(
                hardware=member.hardware,
                memory_limit_bytes=member.memory_limit_bytes,
                step_ns=pipeline.step_ns[member.number],
                node=member.node,
            )
            for member in cluster.value.members
        ],
        baseline=baseline,
        stages=stages,
        orders=write_orders(instance.orders),
        microbatch_order=instance.microbatch_order,
        search=Search(stopped_by="effort", reproducible=True),
    )


def load_oracle() -> ModuleType:
    """Return the outside oracle as a module; skips the test where it is not there."""
    file = SHARED / "acceptance" / "oracle.py"
    if not file.is_file():
        pytest.skip("the outside oracle is not beside this checkout")
    spec = importlib.util.spec_from_file_location("outside_oracle", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def oracle_refusal(oracle: ModuleType, profile: Document, cluster: Document, plan: Document) -> str | None:
    """Return why the oracle refuses a plan, or None where it holds."""
    texts = {"profile": json.dumps(profile), "cluster": json.dumps(cluster), "plan": json.dumps(plan)}
    vars(oracle)["open"] = lambda name, **_: io.StringIO(texts[name])  # it reads files; these need no folder
    try:
        oracle.main(list(texts))
    except (oracle.Wrong, KeyError, IndexError, TypeError, ValueError, AttributeError, ZeroDivisionError) as error:
        return f"{type(error).__name__}: {error}"
    return None
