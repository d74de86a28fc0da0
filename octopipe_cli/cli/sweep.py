"""``octopipe sweep``: plans over a range of a quantity, or one plan under noise."""

from __future__ import annotations

from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Annotated

import typer

from octopipe_cli.cli.inputs import ClusterFile, ProfileFile, check_stdin, percent
from octopipe_cli.cli.output import check_not_an_input
from octopipe_cli.errors import InputError
from octopipe_cli.formats import check_writable
from octopipe_cli.plan import MAX_MICROBATCHES, Backward, Effort, Engine, Placement, Recompute, Request

if TYPE_CHECKING:
    from octopipe_cli.sweep.quantities import Quantity

SWEPT, NOISE, SEARCH, OUTPUT = "What is swept (one of them)", "Noise", "Search", "Output"


class Format(str, Enum):
    """How a sweep is printed."""

    text = "text"
    json = "json"
    csv = "csv"


def sweep(
    profile: ProfileFile,
    cluster: ClusterFile,
    num_microbatches: Annotated[
        int | None,
        typer.Option(
            "-m",
            "--num-microbatches",
            min=1,
            max=MAX_MICROBATCHES,
            metavar="N",
            help="Micro-batches of a step. Needed but with --microbatches.",
        ),
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option(
            metavar="GIB",
            rich_help_panel=SWEPT,
            help="Memory of every rank, in GiB: first:last:step (40:80:5) or a list (40,48,80). The reserve stays.",
        ),
    ] = None,
    microbatches: Annotated[
        str | None,
        typer.Option(metavar="N", rich_help_panel=SWEPT, help="Micro-batches of a step: 8,16,32 or 8:64:8."),
    ] = None,
    ranks: Annotated[
        str | None,
        typer.Option(
            metavar="P",
            rich_help_panel=SWEPT,
            help="Ranks, the first ones of a cluster whose ranks are alike: 2,4,8. These points start afresh.",
        ),
    ] = None,
    max_stages_per_rank: Annotated[
        str | None,
        typer.Option(
            metavar="V", rich_help_panel=SWEPT, help="Stages a rank at the most: 1:8. One number alone is a limit."
        ),
    ] = None,
    bandwidth: Annotated[
        str | None,
        typer.Option(
            metavar="GB/S",
            rich_help_panel=SWEPT,
            help="Bandwidth of the links between nodes, in GB/s (of those within the node, where there is one alone); "
            "links of single pairs stay: 12.5:200:12.5.",
        ),
    ] = None,
    noise: Annotated[
        str | None,
        typer.Option(
            metavar="PERCENT",
            rich_help_panel=NOISE,
            help="In place of a sweep: by how many per cent the profile's times may be off (8%). Each kind's F, I and "
            "W take a log-normal factor of their own with that deviation; plan and classic schedules are replayed in "
            "their orders as they stand.",
        ),
    ] = None,
    draws: Annotated[
        int, typer.Option(min=1, max=100_000, metavar="N", rich_help_panel=NOISE, help="How many draws.")
    ] = 200,
    plan: Annotated[
        str | None,
        typer.Option(
            metavar="PLAN", rich_help_panel=NOISE, help="The plan to replay; by default one is made with these options."
        ),
    ] = None,
    effort: Annotated[Effort, typer.Option(rich_help_panel=SEARCH, help="How much is tried for each plan.")] = "quick",
    seed: Annotated[
        int,
        typer.Option(
            rich_help_panel=SEARCH, min=0, max=2**31 - 1, metavar="S", help="Of every random choice, and of the draws."
        ),
    ] = 0,
    jobs: Annotated[
        int | None,
        typer.Option(
            rich_help_panel=SEARCH,
            min=1,
            max=1024,
            metavar="J",
            show_default=False,
            help="Searches side by side; by default one a core. The plans do not depend on it.",
        ),
    ] = None,
    engine: Annotated[Engine, typer.Option(help="What is to run the plans.")] = "any",
    recompute: Annotated[
        Recompute, typer.Option(help="Activation recomputation: where it pays, never, always.")
    ] = "auto",
    backward: Annotated[Backward, typer.Option(help="Whether backward may be split in input and weights.")] = "split",
    placement: Annotated[Placement, typer.Option(help="Which rank a stage may sit on.")] = "free",
    output: Annotated[
        str | None,
        typer.Option(
            "-o",
            "--output",
            metavar="DIR",
            rich_help_panel=OUTPUT,
            help="Keep each point's plan in this folder, and its cluster where that is what changes.",
        ),
    ] = None,
    svg: Annotated[
        str | None, typer.Option(metavar="FILE", rich_help_panel=OUTPUT, help="Write the chart as a picture too.")
    ] = None,
    format: Annotated[
        Format, typer.Option(rich_help_panel=OUTPUT, help="How the points are printed; times in ns but in text.")
    ] = Format.text,
    no_plot: Annotated[bool, typer.Option("--no-plot", rich_help_panel=OUTPUT, help="Print no chart.")] = False,
) -> None:
    """Plan over a range of memory, micro-batches, ranks, stages or bandwidth; or replay one plan under noise.

    Each point is planned, beginning from the plan before it, and shown beside the classic schedules. More memory, more
    stages allowed or more bandwidth never make the plan slower. A star marks the points that no smaller value equals
    in throughput. Points where no plan fits say so, and the sweep goes on; exit 3 where none fits at all.

    Example: octopipe sweep nemotron-nano-9b-v2.json a100-4.json -m 16 --memory 40:80:5 --svg memory.svg
    """
    check_stdin(PROFILE=profile, CLUSTER=cluster, **{"--plan": plan})
    given = {
        "memory": memory,
        "microbatches": microbatches,
        "ranks": ranks,
        "max-stages-per-rank": max_stages_per_rank,
        "bandwidth": bandwidth,
    }
    swept, most_stages = _swept(given, noise is not None)
    if num_microbatches is None and (swept is None or swept[0].name != "microbatches"):
        raise InputError("missing option -m, --num-microbatches", remedy="give it: -m 16")
    if num_microbatches is not None and swept is not None and swept[0].name == "microbatches":
        raise InputError("-m has no meaning beside --microbatches", remedy="leave out one of them")
    request = Request(
        num_microbatches=num_microbatches or MAX_MICROBATCHES,
        engine=engine,
        recompute=recompute,
        effort=effort,
        seed=seed,
        backward=backward,
        placement=placement,
        max_stages_per_rank=most_stages,
    )
    if swept is None:
        assert noise is not None
        _refuse("--noise", **{"-o": output, "--svg": svg})
        from octopipe_cli.cli.noise import show_noise

        show_noise(profile, cluster, request, percent(noise, "--noise"), draws, plan, jobs, format.value)
        return
    _refuse("a sweep", **{"--plan": plan})
    if svg is not None:
        if svg == "-":
            raise InputError("standard output has the points", path="--svg", found="-", remedy="name a file")
        check_not_an_input(svg, {"profile": profile, "cluster": cluster})
        check_writable(svg)
    from octopipe_cli.cli.sweeping import Sweep

    sweeping = Sweep(profile, cluster, request, *swept, jobs, output)
    sweeping.run()
    sweeping.show(format.value, not no_plot, svg)
    sweeping.leave()


def _refuse(what: str, **options: str | None) -> None:
    for name, value in options.items():
        if value is not None:
            raise InputError(f"{name} has no meaning for {what}", remedy=f"leave out {name}")


def _swept(given: dict[str, str | None], with_noise: bool) -> tuple[tuple[Quantity, list[Decimal]] | None, int | None]:
    """Return what is swept and its values, None where it is noise; and the limit on stages a rank, where one is set."""
    from octopipe_cli.sweep.quantities import QUANTITIES, parse_values

    found = [(q, parse_values(text, q)) for q in QUANTITIES if (text := given[q.name]) is not None]
    limit = None
    if len(found) + with_noise > 1:  # beside something else, one number of stages is a limit
        limits = [values for quantity, values in found if quantity.name == "max-stages-per-rank" and len(values) == 1]
        if limits:
            limit = int(limits[0][0])
            found = [entry for entry in found if entry[0].name != "max-stages-per-rank"]
    if len(found) + with_noise != 1:
        raise InputError(
            "one quantity is swept at a time",
            found=", ".join([quantity.option for quantity, _ in found] + ["--noise"] * with_noise) or "none",
            expected="one of " + ", ".join(quantity.option for quantity in QUANTITIES) + ", or --noise",
        )
    return (found[0] if found else None), limit
