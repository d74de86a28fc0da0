"""``octopipe export``: a plan in the format of an engine or a viewer."""

from __future__ import annotations

from typing import Annotated

import typer

from octopipe_cli.cli.replayed import PlanCluster, PlanProfile
from octopipe_cli.errors import InputError
from octopipe_cli.export import TARGETS, Options, Target, target_named
from octopipe_cli.export import export as exported
from octopipe_cli.export import notes as export_notes
from octopipe_cli.export.padding import VIEWERS, padded

LISTED = "; ".join(f"{target.name}: {target.description}" for target in TARGETS)


def export(
    plan: Annotated[str, typer.Argument(metavar="PLAN", help="Plan file; - is standard input.")],
    to: Annotated[str, typer.Option("--to", metavar="TARGET", help=f"What to write. {LISTED}.")],
    output: Annotated[
        str,
        typer.Option("-o", "--output", metavar="FILE", help="Where it goes; - is standard output."),
    ] = "-",
    symbol: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KIND=SYMBOL",
            help="Of megatron-hybrid: the symbol of a layer kind, where its name does not tell it. May be repeated.",
        ),
    ] = None,
    comms: Annotated[
        bool,
        typer.Option(
            "--comms", help="Of torch-csv: with sends and receives, in the order in which they are planned to be ready."
        ),
    ] = False,
    profile: PlanProfile = None,
    cluster: PlanCluster = None,
) -> None:
    """Write a plan in the format of an engine or a viewer; the table of what each rank holds goes to standard error.

    Engines take micro-batches of one length: a plan with --lengths is written for padded ones, saying what they cost.
    A plan that the engine cannot run is refused (exit 1): the rule it breaks is named, and the nearest plan it can run.

    Example: octopipe export llama3-8b.plan.json --to deepspeed -o stages.py
    """
    from octopipe_cli.cli.output import check_not_an_input, note, save
    from octopipe_cli.cli.replayed import inputs_of
    from octopipe_cli.formats import check_writable
    from octopipe_cli.plan import load_plan
    from octopipe_cli.replay import needs_inputs, replay

    target = target_named(to)
    given: dict[str, object] = {"symbols": _pairs(symbol or []), "comms": comms}
    _check_options(target, given)
    check_not_an_input(output, {"plan": plan})
    check_writable(output)
    loaded = load_plan(plan)
    inputs = inputs_of(loaded, profile, cluster)
    padding = []
    if inputs is not None and needs_inputs(loaded.value):
        if target.name in VIEWERS:
            replay(loaded.value, loaded.file, inputs)  # known from here on
        else:
            loaded, cost = padded(loaded, *inputs)
            padding = [f"octopipe: {cost}"]
    options = Options(**given)  # type: ignore[arg-type]
    text = exported(loaded, target, options)
    save(output, text)
    from octopipe_cli.render.console import glyphs_of, make_console, rendered
    from octopipe_cli.render.held import held_table

    console = make_console(stderr=True)
    note(rendered(console, held_table(loaded.value, glyphs_of(console), console.width)).rstrip("\n"))
    for line in [*padding, *(f"octopipe: {line}" for line in export_notes(loaded, target, options))]:
        note(line)
    if output != "-":
        note(f"octopipe: wrote {output}")


def _check_options(target: Target, given: dict[str, object]) -> None:
    """Raise InputError where an option was given that the target has no use for."""
    for name, value in given.items():
        if value and name not in target.options:
            raise InputError(f"--to {target.name} does not take --{_FLAGS[name]}", remedy=f"leave out --{_FLAGS[name]}")


#: How the options of an export are called here.
_FLAGS = {"symbols": "symbol", "comms": "comms"}


def _pairs(texts: list[str]) -> dict[str, str]:
    pairs = {}
    for text in texts:
        name, sign, value = text.rpartition("=")
        if not (name and sign and value):
            raise InputError("not a kind and its symbol", path="--symbol", found=text, expected="KIND=SYMBOL: mamba=M")
        pairs[name] = value
    return pairs
