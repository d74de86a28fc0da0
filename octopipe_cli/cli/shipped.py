"""``octopipe clusters``, ``models``, ``hardware``, ``configs``: what ships, by the names that commands take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from octopipe_cli.cli.output import Format, emit, emit_json
from octopipe_cli.profiling.shipped import shipped_files

FormatOption = Annotated[Format, typer.Option(help="How the list is printed.", rich_help_panel="Output")]


def list_clusters(format: FormatOption = Format.text) -> None:
    """List the clusters that ship: their names can stand for CLUSTER.

    A cluster in a line can stand there too, 8xh100-sxm or 2x(4xa100-80gb)@25GB/s: octopipe help files. Memory is a
    rank's, in GiB, the reserve taken off; rates are those of the links, in GB/s.

    Example: octopipe clusters
    """
    from octopipe_cli.cluster import load_cluster

    rows = []
    for name, path in shipped_files("clusters").items():
        cluster = load_cluster(str(path)).value
        members = cluster.members
        limits = {member.memory_limit_bytes for member in members}
        rows.append(
            {
                "name": name,
                "ranks": len(members),
                "nodes": len({member.node for member in members}),
                "hardware": ", ".join(dict.fromkeys(member.hardware for member in members)),
                "memory_gib": None if None in limits else min(limit for limit in limits if limit is not None) / 2**30,
                "within_node_gb_per_s": cluster.links.within_node.bandwidth_gb_per_s,
                "between_nodes_gb_per_s": cluster.links.between_nodes.bandwidth_gb_per_s,
            }
        )
    _show(rows, ["cluster", "ranks", "nodes", "hardware", "memory GiB", "within GB/s", "between GB/s"], format)


def list_models(format: FormatOption = Format.text) -> None:
    """List the model profiles that ship: their names can stand for PROFILE.

    Times are those of one micro-batch through the whole model, in ms; where there are no sizes, memory is not
    modelled; JSON has the kinds of layers too. Profiles for a model and a
    hardware of your own: octopipe init, octopipe profile estimate.

    Example: octopipe models --format json
    """
    from octopipe_cli.profile import load_profile

    rows = []
    for name, path in shipped_files("models").items():
        profile = load_profile(str(path)).value
        kinds = [profile.kinds[kind] for kind in profile.layer_kinds]
        for hardware in profile.hardware:
            times = [kind.times[hardware] for kind in kinds]
            backward = sum(t.backward_input_ms + t.backward_weight_ms for t in times)
            rows.append(
                {
                    "name": name,
                    "layers": len(kinds),
                    "hardware": hardware,
                    "forward_ms": round(sum(t.forward_ms for t in times), 3),
                    "backward_ms": round(backward, 3),
                    "sizes": any(kind.activation_bytes or kind.state_bytes for kind in kinds),
                    "kinds": ", ".join(profile.kinds),
                }
            )
    _show(rows, ["model", "layers", "times for", "forward ms", "backward ms", "sizes"], format)


def list_hardware(format: FormatOption = Format.text) -> None:
    """List the hardware that ships: for profile estimate, init, and clusters in a line.

    Rates are those of data sheets, links one direction of one device. profiles/hardware says where each figure is
    from; octopipe schema hardware, how to write your own.

    Example: octopipe hardware
    """
    from octopipe_cli.profiling.hardware import load_hardware

    rows = []
    for name in shipped_files("hardware"):
        found = load_hardware(name)
        peaks = {dtype: figure.value for dtype, figure in found.peak_tflops.items()}
        rows.append(
            {
                "name": name,
                "memory_gib": found.memory_gib.value,
                "memory_gb_per_s": found.memory_bandwidth_gb_per_s.value,
                "bf16_tflops": peaks["bf16"],
                "fp8_tflops": peaks.get("fp8"),
                "devices_per_node": found.devices_per_node.value,
                "within_node_gb_per_s": found.within_node.bandwidth_gb_per_s.value,
                "between_nodes_gb_per_s": found.between_nodes.bandwidth_gb_per_s.value,
            }
        )
    heads = ["hardware", "GiB", "GB/s", "bf16 TFLOP/s", "fp8", "a node", "within GB/s", "between"]
    _show(rows, heads, format)


def list_configs(format: FormatOption = Format.text) -> None:
    """List the model configs that ship: for init and profile estimate.

    Parameters of MTP depths are not counted, those of a vision encoder and its projector apart; active ones are those
    that a token of text meets.

    Example: octopipe configs
    """
    from octopipe_cli.profiling.configs.families import architecture_of, load_config
    from octopipe_cli.profiling.configs.vision import with_images
    from octopipe_cli.words import count_text

    rows: list[dict[str, Any]] = []
    for name, path in shipped_files("configs").items():
        model = architecture_of(config := load_config(str(path)))
        seeing = with_images(config, model, "layer")
        layers = [layer for layer in model.layers if layer.role != "mtp"]
        rows.append(
            {
                "name": name,
                "family": model.family,
                "layers": sum(layer.role == "decoder" for layer in layers),
                "parameters": sum(layer.parameters for layer in layers),
                "active_parameters": sum(layer.active_parameters for layer in layers),
                "vision_parameters": 0 if seeing is None else seeing[0].vision_parameters,
            }
        )
    if format is Format.json:
        emit_json(rows)
        return
    counts = ("parameters", "active_parameters", "vision_parameters")
    sized = [row | {key: count_text(row[key]) if row[key] else "-" for key in counts} for row in rows]
    _show(sized, ["config", "family", "layers", "params", "active", "vision"], format)


def _show(rows: Sequence[dict[str, Any]], heads: list[str], format: Format) -> None:
    if format is Format.json:
        emit_json(rows)
        return
    from octopipe_cli.render.console import glyphs_of, make_console, rendered
    from octopipe_cli.render.grid import grid, joined

    console = make_console()
    glyphs = glyphs_of(console)
    aligns = "".join("l" if isinstance(value, str) and not value[:1].isdigit() else "r" for value in rows[0].values())
    cells = [[glyphs.name(_cell(value)) for value in row.values()][: len(heads)] for row in rows]
    emit(rendered(console, joined(grid(heads, cells, aligns[: len(heads)], console.width))))


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "-" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
