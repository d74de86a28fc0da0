"""``octopipe profile``: look at a profile, make one from another tool's file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer

from octopipe_cli.cli.output import Format, check_not_an_input, emit, emit_json, save, warn
from octopipe_cli.profile import Kind, Profile

BYTES = ("state_bytes", "activation_bytes", "weight_activation_bytes", "output_bytes", "workspace_bytes")


def show_profile(
    profile: Annotated[str, typer.Argument(metavar="PROFILE", help="The model profile; - is standard input.")],
    format: Annotated[Format, typer.Option(help="How the profile is printed.")] = Format.text,
) -> None:
    """Show what a model profile holds: parameters, layers, and the times and sizes of each kind.

    Times are in ms for one micro-batch through all layers of a kind, sizes in bytes (JSON) or GiB and MiB (text).

    Example: octopipe profile show profiles/models/llama3-8b.json
    """
    from octopipe_cli.profile import load_profile

    document = summary(load_profile(profile).value)
    if format is Format.json:
        emit_json(document)
    else:
        emit(summary_text(document))


def summary(profile: Profile) -> dict[str, Any]:
    """Return a profile's totals as a document; MTP depths are not counted in `parameters`."""
    layers = profile.layer_kinds
    counts = {name: layers.count(name) for name in profile.kinds}

    def total(value: Callable[[Kind], int], mtp: bool) -> int:
        kinds = profile.kinds.items()
        return sum(counts[name] * value(kind) for name, kind in kinds if (kind.role == "mtp") is mtp)

    return {
        "name": profile.name,
        "parameters": total(lambda kind: kind.parameters, mtp=False),
        "mtp_parameters": total(lambda kind: kind.parameters, mtp=True),
        "layers": len(layers),
        "hardware": list(profile.hardware),
        "kinds": {name: _kind_summary(kind, counts[name]) for name, kind in profile.kinds.items()},
        "totals": {
            "times": {name: _total_times(profile, name) for name in profile.hardware},
            **{key: sum(getattr(profile.kinds[name], key) for name in layers) for key in BYTES},
        },
        "provenance": profile.provenance,
    }


def _kind_summary(kind: Kind, count: int) -> dict[str, Any]:
    """Return what all layers of a kind cost together."""
    times = {hardware: _times(kind, hardware, count) for hardware in kind.times}
    sizes = {key: count * getattr(kind, key) for key in ("parameters", *BYTES)}
    return {"layers": count, "role": kind.role, "splittable": kind.splittable, "times": times, **sizes}


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


def summary_text(document: dict[str, Any]) -> str:
    """Return a profile's totals as text: a line of facts, then a table for each hardware."""
    from octopipe_cli.render.words import count_text, size_text, visible

    facts = [f"{document['layers']} layers"]
    if document["parameters"]:
        facts.append(f"{count_text(document['parameters'])} parameters")
    if document["mtp_parameters"]:
        facts.append(f"{count_text(document['mtp_parameters'])} more in MTP depths")
    lines = [f"{visible(document['name'])}: {', '.join(facts)}"]
    for hardware in document["hardware"]:
        lines += ["", f"on {visible(hardware)}, ms per micro-batch, all layers of a kind together:"]
        rows = [["kind", "layers", "forward", "backward input", "backward weight", "share"]]
        whole = document["totals"]["times"][hardware]
        for name, kind in document["kinds"].items():
            rows.append(_time_row(visible(name), str(kind["layers"]), kind["times"][hardware], whole))
        rows.append(_time_row("total", str(document["layers"]), whole, whole))
        lines += _aligned(rows)
    sizes = {key.removesuffix("_bytes").replace("_", " "): document["totals"][key] for key in BYTES}
    sizes = {name: size for name, size in sizes.items() if size}
    lines += ["", *(f"{name}: {size_text(size)}" for name, size in sizes.items())]
    if not sizes:
        lines.append("no sizes: memory is not modelled")
    lines += [f"{visible(str(key))}: {visible(str(value))}" for key, value in document["provenance"].items()]
    return "\n".join(lines)


def _time_row(name: str, layers: str, times: dict[str, float], whole: dict[str, float]) -> list[str]:
    spent, all_spent = times["forward_ms"] + times["backward_ms"], whole["forward_ms"] + whole["backward_ms"]
    columns = [f"{times[key]:.3f}" for key in ("forward_ms", "backward_input_ms", "backward_weight_ms")]
    return [name, layers, *columns, f"{100 * spent / all_spent:.1f} %" if all_spent else "-"]


def _aligned(rows: list[list[str]]) -> list[str]:
    """Return rows as lines: the first column flush left, the others flush right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for first, *others in rows:
        cells = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        lines.append("  ".join(["", first.ljust(widths[0]), *cells]))
    return lines


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
