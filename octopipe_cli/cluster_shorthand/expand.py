"""From a cluster in a line to the document of a cluster: memory, reserve and links as the hardware files say."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby, permutations
from typing import Any, Final

from octopipe_cli.cluster import MAX_RANKS, SCHEMA
from octopipe_cli.cluster_shorthand.grammar import Devices, Nodes, Shorthand
from octopipe_cli.errors import InputError
from octopipe_cli.formats import VERSION, Document
from octopipe_cli.profiling.hardware import Hardware, load_hardware

#: Links of single pairs, where nodes differ: beyond that a file says it better.
MAX_PAIRS: Final = 20_000

NOTE: Final = (
    "Memory, reserve, rates and latencies are the hardware files' (profiles/hardware), rates those of data sheets. "
    "Between nodes of different hardware the slower link counts."
)


@dataclass(frozen=True)
class _Device:
    """One device: what it is, and its node."""

    devices: Devices
    node: int


def cluster_document(shorthand: Shorthand, devices_per_rank: int | None = None) -> Document:
    """Return the cluster that a line stands for.

    Ranks are taken from the devices in order, `devices_per_rank` (by default the line's own) for each; a rank's memory
    and links are those of one of its devices, as profiles count them. Its node is that of its first device.

    Raises
    ------
    InputError
        Where there is no such hardware, or the devices cannot be shared out so.
    """
    size = devices_per_rank or shorthand.devices_per_rank
    hardware = {devices: _hardware(shorthand, devices) for nodes in shorthand.nodes for devices in nodes.devices}
    members = list(_members(shorthand, hardware))
    ranks = _ranks(shorthand, members, size)
    document: Document = {
        "schema": SCHEMA,
        "version": VERSION,
        "name": _name(shorthand, size),
        "provenance": {"note": NOTE},
        "ranks": [],
    }
    for (devices, node), alike in groupby(ranks, key=lambda rank: (rank.devices, rank.node)):
        document["ranks"].append(_group(devices, hardware[devices], len(list(alike)), node))
    document["links"] = _links(shorthand, members, ranks, hardware)
    return document


def _name(shorthand: Shorthand, size: int) -> str:
    """Return the line, its last part what was really taken."""
    own = f"/{shorthand.devices_per_rank}"
    stem = shorthand.text.removesuffix(own) if shorthand.devices_per_rank > 1 else shorthand.text
    return f"{stem}/{size}" if size > 1 else stem.removesuffix("/1")


def _hardware(shorthand: Shorthand, devices: Devices) -> Hardware:
    try:
        return load_hardware(devices.hardware)
    except InputError as error:
        if error.file is None:
            error.file, error.path = shorthand.text, f"character {devices.position}"
        raise


def _members(shorthand: Shorthand, hardware: dict[Devices, Hardware]) -> Iterator[_Device]:
    """Yield the devices in order; every part of the line begins a node of its own."""
    node = 0
    for nodes in shorthand.nodes:
        for held in _filled(nodes, hardware):
            for devices, count in held:
                for _ in range(count):
                    yield _Device(devices, node)
            node += 1


def _filled(nodes: Nodes, hardware: dict[Devices, Hardware]) -> Iterator[list[tuple[Devices, int]]]:
    """Yield what each node holds."""
    if nodes.count is not None:
        for _ in range(nodes.count):
            yield [(devices, devices.count) for devices in nodes.devices]
        return
    (devices,) = nodes.devices
    most = hardware[devices].devices_per_node.value
    for begin in range(0, devices.count, most):
        yield [(devices, min(most, devices.count - begin))]


def _ranks(shorthand: Shorthand, members: list[_Device], size: int) -> list[_Device]:
    """Return the first device of every rank.

    A rank lies inside a node or is a number of whole nodes: else the replicas of a rank would not be alike.
    """
    if len(members) % size:
        raise InputError(
            "the devices cannot be shared out to ranks",
            file=shorthand.text,
            found=f"{len(members)} devices, {size} a rank",
            expected=f"a number of devices a rank that divides {len(members)}",
        )
    parts = [members[at : at + size] for at in range(0, len(members), size)]
    if len(parts) > MAX_RANKS:
        raise InputError("too many ranks", file=shorthand.text, found=str(len(parts)), expected=f"at most {MAX_RANKS}")
    sizes: dict[int, int] = {}
    for device in members:
        sizes[device.node] = sizes.get(device.node, 0) + 1
    for number, part in enumerate(parts):
        touched = {device.node for device in part}
        if len({device.devices for device in part}) > 1:
            raise InputError(
                f"rank {number} would have devices of different kinds",
                file=shorthand.text,
                found=f"{size} devices a rank",
                expected="devices of one kind in each rank",
                remedy="choose a degree of parallelism that divides each kind's number of devices",
            )
        if len(touched) > 1 and sum(sizes[node] for node in touched) != size:
            raise InputError(
                f"rank {number} would be cut by the edge of a node",
                file=shorthand.text,
                found=f"{size} devices a rank, {sizes[part[0].node]} in its first node",
                expected="ranks inside a node, or ranks that are whole nodes",
                remedy="choose a degree of parallelism that divides the devices of a node, or is a multiple of them",
            )
    return [part[0] for part in parts]


def _group(devices: Devices, hardware: Hardware, count: int, node: int) -> dict[str, Any]:
    """Return ranks of a node that are alike, as a cluster has them."""
    memory, reserved, speed = (devices.option(name) for name in ("memory", "reserved", "speed"))
    own = hardware.reserved_gib.value if hardware.reserved_gib is not None else 0.0
    group: dict[str, Any] = {"count": count, "hardware": devices.option("times") or hardware.name}
    group["memory_gib"] = None if memory == "unlimited" else _number(float(memory or hardware.memory_gib.value))
    if kept := float(reserved) if reserved is not None else own:
        group["reserved_gib"] = _number(kept)
    if speed is not None:
        group["speed"] = _number(float(speed))
    return {**group, "node": node}


def _links(
    shorthand: Shorthand, members: list[_Device], ranks: list[_Device], hardware: dict[Devices, Hardware]
) -> dict[str, Any]:
    """Return the links: the first node's within all nodes, pairs where another node's differ."""
    kinds: dict[int, dict[Devices, None]] = {}
    for device in members:
        kinds.setdefault(device.node, {})[device.devices] = None
    within = {node: _within(list(held), hardware) for node, held in kinds.items()}
    first = within[members[0].node]
    links: dict[str, Any] = {"within_node": first}
    if len(within) > 1:
        ways = [hardware[devices].between_nodes for devices in hardware]
        rate = shorthand.rate_gb_per_s or min(way.bandwidth_gb_per_s.value for way in ways)
        links["between_nodes"] = _link(rate, max(way.latency_us.value for way in ways))
    elif shorthand.rate_gb_per_s is not None:
        raise InputError(
            "a rate between nodes, and there is one node",
            file=shorthand.text,
            path=f"character {shorthand.text.index('@') + 1}",
            remedy="leave it out (the link within a node is an option of the devices: 8xl40s:link=20), or say which "
            "devices are a node: 2x(4xh100-sxm)@50GB/s",
        )
    pairs = []
    for node, link in within.items():
        if link != first:
            numbers = [number for number, rank in enumerate(ranks) if rank.node == node]
            pairs += [{"from": a, "to": b, **link} for a, b in permutations(numbers, 2)]
            if len(pairs) > MAX_PAIRS:
                raise InputError(
                    "too many links of single pairs, as nodes differ",
                    file=shorthand.text,
                    remedy="write a cluster file",
                )
    return {**links, "pairs": pairs} if pairs else links


def _within(held: list[Devices], hardware: dict[Devices, Hardware]) -> dict[str, Any]:
    """Return the link inside a node: the slowest of its devices' ones."""
    rates = [float(d.option("link") or hardware[d].within_node.bandwidth_gb_per_s.value) for d in held]
    return _link(min(rates), max(hardware[d].within_node.latency_us.value for d in held))


def _link(rate_gb_per_s: float, latency_us: float) -> dict[str, Any]:
    return {"bandwidth_gb_per_s": _number(rate_gb_per_s), "latency_us": _number(latency_us)}


def _number(value: float) -> int | float:
    """Return a number as people write it: 80, not 80.0."""
    return int(value) if value == int(value) else value
