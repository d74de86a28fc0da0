"""How a cluster's devices become ranks of a pipeline: tensor, expert, data and pipeline parallel degrees."""

from __future__ import annotations

from dataclasses import dataclass

from octopipe_cli.cluster import Cluster, cluster_from_document
from octopipe_cli.cluster_shorthand import cluster_document, parse
from octopipe_cli.errors import InputError
from octopipe_cli.formats import Document


@dataclass(frozen=True)
class Degrees:
    """The parallel degrees of a run: `tensor` x `data` devices in each of `pipeline` ranks.

    Experts are spread over `expert` of the `data` replicas, Megatron's way.
    """

    tensor: int
    expert: int
    data: int
    pipeline: int

    @property
    def devices_per_rank(self) -> int:
        """Devices of a pipeline rank."""
        return self.tensor * self.data

    @property
    def devices(self) -> int:
        """Devices of the run."""
        return self.pipeline * self.devices_per_rank


def degrees_of(devices: int, tensor: int, expert: int, pipeline: int | None, num_layers: int) -> Degrees:
    """Return the degrees for so many devices: as deep a pipeline as they make, or the one asked for, replicated.

    Raises
    ------
    InputError
        Where the devices cannot be shared out so, or a rank would have no layer.
    """
    wanted = expert if pipeline is None else None  # replicas where nothing else is said: just those of the experts
    unit = tensor * (pipeline if pipeline is not None else expert)
    if devices % unit:
        asked = [f"tensor parallel {tensor}"] + ([f"expert parallel {expert}"] if wanted else [])
        asked += [] if pipeline is None else [f"pipeline parallel {pipeline}"]
        raise InputError(
            "the devices cannot be shared out so",
            found=f"{devices} devices, {', '.join(asked)}",
            expected=f"degrees whose product divides {devices}",
            remedy="change --tensor-parallel, --expert-parallel or --pipeline-parallel, or the number of devices",
        )
    found = Degrees(tensor, expert, wanted or devices // unit, pipeline or devices // unit)
    if found.data % expert:
        raise InputError(
            "experts are spread over the data-parallel replicas",
            found=f"{found.data} replicas ({devices} devices / tensor {tensor} x pipeline {pipeline}), expert parallel "
            f"{expert}",
            expected="a number of replicas that --expert-parallel divides",
        )
    if found.pipeline > num_layers:
        rest = devices // tensor
        fits = max(n for n in range(1, num_layers + 1) if rest % n == 0)
        raise InputError(
            "more pipeline ranks than layers: every rank needs one",
            found=f"{found.pipeline} ranks for {num_layers} layers (embedding and head counted)",
            remedy=f"give --pipeline-parallel {fits} (then {rest // fits} replicas), or more --tensor-parallel",
        )
    return found


def check_nodes(shorthand: str, tensor: int) -> None:
    """Raise InputError where tensor parallel devices would not share a node: their links carry every layer's sums."""
    groups = cluster_from_document(cluster_document(parse(shorthand), 1), shorthand).ranks
    sizes: dict[int, int] = {}
    for group in groups:
        sizes[group.node] = sizes.get(group.node, 0) + group.count
    least = min(sizes.values(), key=lambda size: (size % tensor == 0, size))
    if least % tensor:
        raise InputError(
            f"tensor parallel {tensor} does not fit into the nodes",
            file=shorthand,
            found=f"a node of {least} devices",
            expected=f"a degree that divides {least}: tensor parallel devices share a node",
            remedy="give a smaller --tensor-parallel",
        )


def cluster_of(shorthand: str, degrees: Degrees) -> tuple[Document, Cluster]:
    """Return the cluster of a line as a document and as a record, its ranks of as many devices as the degrees say."""
    document = cluster_document(parse(shorthand), degrees.devices_per_rank)
    return document, cluster_from_document(document, shorthand)
