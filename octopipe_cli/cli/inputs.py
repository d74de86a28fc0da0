"""The files that commands take: their arguments, reading them, what they must have in common."""

from __future__ import annotations

import re
from typing import Annotated, Final, get_args

import typer

from octopipe_cli.cli.output import warn
from octopipe_cli.cluster import Cluster
from octopipe_cli.errors import InfeasibleError, InputError
from octopipe_cli.formats import Loaded
from octopipe_cli.named import miscounted, read_cluster, read_profile
from octopipe_cli.plan import MAX_MICROBATCHES, Part, Plan
from octopipe_cli.profile import Profile

#: Sums over a step stay below: a quarter of what 64 bits hold.
MAX_TOTAL: Final = 2**61

ProfileFile = Annotated[
    str,
    typer.Argument(
        metavar="PROFILE", help="The model profile: a file, or a name of `octopipe models`; - is standard input."
    ),
]
ClusterFile = Annotated[
    str,
    typer.Argument(
        metavar="CLUSTER",
        help="The cluster spec: a file, a name of `octopipe clusters`, or a line: 8xh100-sxm; - is standard input.",
    ),
]
NumMicrobatches = Annotated[
    int,
    typer.Option("-m", "--num-microbatches", min=1, max=MAX_MICROBATCHES, metavar="N", help="Micro-batches of a step."),
]


def check_stdin(**files: str | None) -> None:
    """Raise InputError where more than one file is ``-``."""
    names = [name for name, file in files.items() if file == "-"]
    if len(names) > 1:
        raise InputError(
            f"{' and '.join(names)} cannot both be standard input",
            found=" and ".join("-" for _ in names),
            expected="at most one -",
            remedy="write one of them to a file",
        )


def percent(text: str, option: str) -> float:
    """Return the number of a text like ``1%`` or ``0.5``, 0 to 100; raises InputError."""
    match = re.fullmatch(r"(\d{1,3}(?:\.\d{1,9})?) ?%?", text.strip(), re.ASCII)
    if match is None or float(match[1]) > 100:
        raise InputError(f"{option} is no percentage", found=text, expected="0% to 100%: 1%, 0.5%")
    return float(match[1])


def kept_parts(text: str) -> tuple[Part, ...]:
    """Return the parts of a plan that a text like ``partition,placement`` names; raises InputError."""
    names = [name.strip() for name in text.split(",")]
    parts = tuple(part for part in get_args(Part) if part in names)
    if len(parts) != len(names):
        raise InputError(
            "--keep names something else, or something twice",
            found=text,
            expected=f"one or more of {', '.join(get_args(Part))}, with commas between",
        )
    return parts


def load_inputs(profile_file: str, cluster_file: str, num_microbatches: int) -> tuple[Loaded[Profile], Loaded[Cluster]]:
    """Return profile and cluster, checked to belong together.

    Raises
    ------
    InputError
        Where a file is wrong, a rank's hardware is none that the profile has times for, or a step of so many
        micro-batches would be longer or larger than 64-bit arithmetic holds.
    InfeasibleError
        Where there are more ranks than layers.
    """
    profile, cluster = read_profile(profile_file), read_cluster(cluster_file)
    check_inputs(profile, cluster, num_microbatches)
    if (said := miscounted(profile.value, cluster)) is not None:
        warn(said)
    return profile, cluster


def check_inputs(
    profile: Loaded[Profile], cluster: Loaded[Cluster], num_microbatches: int, growth: float = 1.0
) -> None:
    """Check that profile and cluster belong together; raises what `load_inputs` does.

    `growth` is a factor by which times and sizes may be larger than the profile's.
    """
    from octopipe_cli.pipeline import check_hardware

    check_hardware(profile.value, cluster.value, profile.file, cluster.file)
    if profile.value.num_layers < cluster.value.num_ranks:
        raise InfeasibleError(
            "more ranks than layers: every rank needs a stage, every stage a layer",
            file=cluster.file,
            path="$.ranks",
            found=f"{cluster.value.num_ranks} ranks for {profile.value.num_layers} layers",
            remedy="use fewer ranks",
        )
    _check_range(profile, cluster.value, num_microbatches, growth)


def _check_range(profile: Loaded[Profile], cluster: Cluster, num_microbatches: int, growth: float) -> None:
    """Check that sums over all layers and micro-batches stay far inside 64 bits, wherever the layers are put."""
    from octopipe_cli.pipeline import layer_times

    model = profile.value
    machines = {(member.hardware, member.speed) for member in cluster.members}
    links = [cluster.links.within_node, cluster.links.between_nodes, *cluster.links.pairs]
    time_ns = size_bytes = 0
    for name, kind in model.kinds.items():
        count = model.layer_kinds.count(name)
        times = [layer_times(kind.times[hardware], speed) for hardware, speed in machines]
        worst = max(2 * t.forward + max(t.backward, t.input + t.weight) for t in times) + 3 * cluster.action_overhead_ns
        transfer = 2 * max(link.transfer_ns(kind.output_bytes) for link in links)
        time_ns += count * (num_microbatches * (worst + transfer) + max(t.step for t in times))
        held = kind.activation_bytes + kind.weight_activation_bytes + 2 * kind.output_bytes + kind.workspace_bytes
        size_bytes += count * (num_microbatches * held + kind.state_bytes)
    for what, total, unit in (("long", time_ns, "ns"), ("large", size_bytes, "bytes")):
        total = round(total * growth)
        if total > MAX_TOTAL:
            raise InputError(
                f"a step of {num_microbatches} micro-batches is too {what} to reckon with",
                file=profile.file,
                path="$.kinds",
                found=f"up to {total:.1e} {unit}",
                expected=f"at most {MAX_TOTAL:.1e} {unit} over all layers and micro-batches",
                remedy="check the units of the profile and the cluster (ms, us, bytes, GB/s)",
            )


def check_digests(plan: Loaded[Plan], profile: Loaded[Profile], cluster: Loaded[Cluster]) -> None:
    """Raise InputError where a plan was made from other files than these."""
    made_from = plan.value.inputs
    for name, wanted, given in (("profile", made_from.profile, profile), ("cluster", made_from.cluster, cluster)):
        if wanted.digest != given.digest:
            raise InputError(
                f"the plan was made from another {name} than {given.file}",
                file=plan.file,
                path=f"$.inputs.{name}.digest",
                found=f"{wanted.digest} ({wanted.name})",
                expected=f"{given.digest} ({given.value.name})",
                remedy=f"give the {name} the plan was made from, or plan again",
            )


def check_microbatches(plan: Loaded[Plan], num_microbatches: int) -> None:
    """Raise InputError where a plan was made for another number of micro-batches."""
    planned = plan.value.request.num_microbatches
    if planned != num_microbatches:
        raise InputError(
            "the plan was made for another number of micro-batches",
            file=plan.file,
            path="$.request.num_microbatches",
            found=str(planned),
            expected=str(num_microbatches),
            remedy=f"compare with -m {planned}, or plan again",
        )
