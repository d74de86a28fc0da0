"""``octopipe profile``: look at a profile, make one from another tool's file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from octopipe_cli.cli.output import Format, check_not_an_input, emit, emit_json, save, warn
from octopipe_cli.profile import PASSES, Kind, KindWork, Profile, estimated_work

BYTES = ("state_bytes", "activation_bytes", "weight_activation_bytes", "output_bytes", "workspace_bytes")


def show_profile(
    profile: Annotated[str, typer.Argument(metavar="PROFILE", help="The model profile; - is standard input.")],
    format: Annotated[Format, typer.Option(help="How the profile is printed.")] = Format.text,
) -> None:
    """Show the layers, times and sizes of a model profile.

    Times are in ms, sizes in bytes or in KiB, MiB, GiB: of one layer for one micro-batch in text, of all layers of a
    kind together in JSON. Parameters of MTP depths and of a vision encoder are counted apart. Of an estimated profile,
    FLOPs, active parameters and what bounds each kind are told too.

    Example: octopipe profile show profiles/models/llama3-8b.json
    """
    from octopipe_cli.named import read_profile

    value = read_profile(profile).value
    totals = summary(value)
    if format is Format.json:
        emit_json(totals)
    else:
        emit(_text(value, totals))


def summary(profile: Profile) -> dict[str, Any]:
    """Return a profile's totals as a document; MTP depths and vision layers are not counted in `parameters`."""
    layers = profile.layer_kinds
    work = estimated_work(profile)
    counts = {name: layers.count(name) for name in profile.kinds}

    def parameters(part: str) -> int:
        return sum(counts[name] * kind.parameters for name, kind in profile.kinds.items() if _part(kind) == part)

    return {
        "name": profile.name,
        "parameters": parameters("language"),
        "mtp_parameters": parameters("mtp"),
        "vision_parameters": parameters("vision"),
        **_active(profile, work),
        "layers": len(layers),
        "hardware": list(profile.hardware),
        "kinds": {name: _kind_summary(kind, counts[name], work.get(name)) for name, kind in profile.kinds.items()},
        "totals": {
            "times": {name: _total_times(profile, name) for name in profile.hardware},
            **{key: sum(getattr(profile.kinds[name], key) for name in layers) for key in BYTES},
            **({"flops": {step: sum(work[name].flops[step] for name in layers) for step in PASSES}} if work else {}),
        },
        "provenance": profile.provenance,
    }


def _part(kind: Kind) -> str:
    """Return what a kind's parameters are counted with: the language model, MTP depths or the vision encoder."""
    return "vision" if kind.modality != "text" else "mtp" if kind.role == "mtp" else "language"


def _active(profile: Profile, work: Mapping[str, KindWork]) -> dict[str, int]:
    """Return the parameters a token of text meets, MTP depths not counted, where the profile knows them."""
    names = [name for name in profile.layer_kinds if _part(profile.kinds[name]) == "language"]
    return {"active_parameters": sum(work[name].active_parameters for name in names)} if work else {}


def _kind_summary(kind: Kind, count: int, work: KindWork | None) -> dict[str, Any]:
    """Return what all layers of a kind cost together."""
    times = {hardware: _times(kind, hardware, count) for hardware in kind.times}
    sizes = {key: count * getattr(kind, key) for key in ("parameters", *BYTES)}
    document = {"layers": count, "role": kind.role, "splittable": kind.splittable, "times": times, **sizes}
    if kind.modality != "text":
        document["modality"] = kind.modality
    if work is not None:
        document["active_parameters"] = count * work.active_parameters
        document["flops"] = {step: count * work.flops[step] for step in PASSES}
        document["bound"] = dict(work.bound)
    return document


def _times(kind: Kind, hardware: str, count: int) -> dict[str, float]:
    times = kind.times[hardware]
    whole = times.backward_input_ms + times.backward_weight_ms if times.backward_ms is None else times.backward_ms
    named = {
        "forward_ms": times.forward_ms,
        "backward_input_ms": times.backward_input_ms,
        "backward_weight_ms": times.backward_weight_ms,
        "backward_ms": whole,
        "step_ms": times.step_ms,
    }
    return {name: _milliseconds(count * value) for name, value in named.items()}


def _total_times(profile: Profile, hardware: str) -> dict[str, float]:
    layers = profile.layer_kinds
    parts = [_times(kind, hardware, layers.count(name)) for name, kind in profile.kinds.items()]
    return {key: _milliseconds(sum(part[key] for part in parts)) for key in parts[0]}


def _milliseconds(value: float) -> float:
    """Return a sum of milliseconds without the digits that only binary fractions add: whole nanoseconds."""
    return round(value, 6)


def _text(profile: Profile, totals: dict[str, Any]) -> str:
    """Return a profile as text: a line of facts, tables of times and sizes by kind, where it comes from."""
    from octopipe_cli.render.console import glyphs_of, make_console, rendered
    from octopipe_cli.render.grid import joined, wrapped
    from octopipe_cli.render.tables import profile_table, work_table
    from octopipe_cli.words import count_text

    console = make_console()
    glyphs = glyphs_of(console)
    facts = [f"{totals['layers']} layers"]
    if totals["parameters"]:
        facts.append(f"{count_text(totals['parameters'])} parameters")
    work = estimated_work(profile)
    if work and totals["active_parameters"] != totals["parameters"]:
        facts.append(f"{count_text(totals['active_parameters'])} of them active")
    if totals["mtp_parameters"]:
        facts.append(f"{count_text(totals['mtp_parameters'])} more in MTP depths")
    if totals["vision_parameters"]:
        facts.append(f"{count_text(totals['vision_parameters'])} more in vision encoder and projector")
    lines = wrapped(f"{glyphs.name(profile.name)}: ", ", ".join(facts), console.width)
    for key, value in profile.provenance.items():
        if key != "kinds" or not work:
            lines += wrapped(f"{glyphs.name(str(key))}: ", glyphs.name(str(value)), console.width)
    tables = [profile_table(profile, glyphs, console.width)]
    tables += [work_table(profile, work, glyphs, console.width)] if work else []
    return rendered(console, joined(lines), *tables)


def import_simpipe(
    file: Annotated[str, typer.Argument(metavar="FILE", help="The simpipe file; - is standard input.")],
    hardware: Annotated[str, typer.Option(metavar="NAME", help="What the times were taken on: a100, say.")],
    output: Annotated[
        str, typer.Option("-o", "--output", metavar="PROFILE", help="The profile file; - is standard output.")
    ] = "-",
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name of the profile; by default the file's.", show_default=False)
    ] = None,
    note: Annotated[str | None, typer.Option(metavar="TEXT", help="Kept in the profile's provenance.")] = None,
) -> None:
    """Make a profile from a file of the SimPipe simulator: a pattern of layer symbols, and ms for each symbol.

    The times are read as ms per micro-batch. Such files hold no sizes: memory is not modelled.

    Example: octopipe profile import simpipe llama3-8B.json --hardware a100 -o llama3-8b.json
    """
    from octopipe_cli.formats import check_writable, document_text
    from octopipe_cli.profiling.simpipe import import_simpipe as read

    check_writable(output)
    check_not_an_input(output, {"simpipe file": file})
    document, warnings = read(file, hardware, name, note)
    for warning in warnings:
        warn(warning)
    save(output, document_text(document))
