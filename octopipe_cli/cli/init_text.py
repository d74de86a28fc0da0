"""What `octopipe init` says: what was made of the devices, and the commands that come next."""

from __future__ import annotations

import re
import shlex
from typing import Any

from octopipe_cli.cli.init_files import Files
from octopipe_cli.cli.settings_file import in_project_file
from octopipe_cli.plan import Engine
from octopipe_cli.words import gibibyte_text, visible


def commands(files: Files, microbatches: int, engine: Engine, hybrid: bool) -> list[tuple[str, str]]:
    """Return what to do next: what it is for, and the command."""

    def plan(name: str, file: str) -> str:
        asked = [] if name == "any" else ["--engine", name]
        return shlex.join(
            ["octopipe", "plan", files.profile, files.cluster, "-m", str(microbatches), *asked, "-o", file]
        )

    def export(name: str, file: str) -> str:
        ending = "csv" if name == "torch" else "py" if name in ("torchtitan", "deepspeed") else "txt"
        target = "torch-csv" if name == "torch" else name
        return shlex.join(
            ["octopipe", "export", file, "--to", target, "-o", files.path(f"{files.stem}.{name}.{ending}")]
        )

    main = files.plan()
    steps = [("search: chart, tokens per second, MFU, bound", plan(engine, main))]
    steps.append(("what the step's time is made of", shlex.join(["octopipe", "show", main, "--why"])))
    if engine == "any":
        for name in ("torchtitan", "megatron-hybrid" if hybrid else "megatron"):
            steps.append((f"what {name} can run", plan(name, files.plan(name))))
            steps.append((f"for {name}", export(name, files.plan(name))))
    else:
        steps.append((f"for {engine}", export(engine, main)))
    gate = "octopipe verify --all --fresh"
    run = gate if files.folder == "." else f"(cd {shlex.quote(files.folder)} && {gate})"
    steps.append(("the gate of CI, for every plan that octopipe.toml names (a line each)", run))
    return steps


def summary(facts: dict[str, Any], files: Files, settings: bool, width: int) -> str:
    """Return what was made and what comes next, as text."""
    size = facts["devices_per_rank"]
    names = [name for name in ("tensor", "expert", "data") if name != "expert" or facts["expert_parallel"] > 1]
    degrees = ", ".join(f"{name} parallel {facts[f'{name}_parallel']}" for name in names)
    rank = "a device" if size == 1 else f"{size} devices"
    lines = [
        f"{facts['model']} on {facts['cluster']}",
        "",
        f"devices  {facts['devices']}: a pipeline of {facts['ranks']} ranks, each {rank}",
        f"         {degrees}",
        f"step     {facts['num_microbatches']} micro-batches, {facts['global_batch_size']} samples, "
        f"{facts['tokens_per_step']:,} tokens",
        f"state    {gibibyte_text(facts['state_bytes'])} of {gibibyte_text(facts['memory_bytes'])} GiB: weights, "
        f"gradients, optimizer states{'' if size == 1 else ' (of one device of each rank)'}",
        f"wrote    {', '.join(facts['files'])}",
    ]
    if not settings and in_project_file(files.folder):
        lines += ["", f"add to [tool.octopipe.plans] of pyproject.toml: {files.line}"]
    lines += ["", "next"]
    for step in facts["next"]:
        lines += [f"  # {step['what']}", *continued(step["run"], width)]
    return "\n".join(map(visible, lines))


def continued(command: str, width: int) -> list[str]:
    """Return a command as lines of a script, broken before an option where it is too long."""
    parts = [command] if "'" in command else re.split(r" (?=-{1,2}[a-z])", command)
    lines = [f"  {parts[0]}"]
    for part in parts[1:]:
        if len(lines[-1]) + 1 + len(part) + len(" \\") <= width:
            lines[-1] += f" {part}"
        else:
            lines[-1] += " \\"
            lines.append(f"    {part}")
    return lines
