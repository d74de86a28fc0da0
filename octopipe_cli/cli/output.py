"""Where results, warnings and files go: payload on stdout, everything else on stderr."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator
from enum import Enum
from typing import TYPE_CHECKING, Any

from octopipe_cli.cli import failures
from octopipe_cli.errors import InputError
from octopipe_cli.formats import write_whole

if TYPE_CHECKING:
    from octopipe_cli.cluster import Cluster
    from octopipe_cli.plan import Plan
    from octopipe_cli.profile import Profile
    from octopipe_cli.simulate import Timeline


class Format(str, Enum):
    """How a report is printed."""

    text = "text"
    json = "json"


def emit(text: str) -> None:
    """Print a payload on stdout; where its reader has gone away the command goes on in silence."""
    with _reader_may_be_gone():
        sys.stdout.write(text if text.endswith("\n") else text + "\n")
        sys.stdout.flush()


@contextlib.contextmanager
def _reader_may_be_gone() -> Iterator[None]:
    """Within it a closed pipe on stdout is passed over in silence, and any other failure is the user's to mend."""
    try:
        yield
    except BrokenPipeError:
        failures.close_stdout()
    except OSError as error:
        failures.close_stdout()  # what is still buffered cannot be written either
        raise InputError(
            f"cannot write to standard output: {error.strerror or error}",
            remedy="check where it goes: its disk may be full",
        ) from None


def emit_json(document: Any) -> None:
    """Print a document on stdout as indented JSON."""
    emit(json.dumps(document, indent=2, ensure_ascii=False))


def note(text: str) -> None:
    """Print something that is not the payload on stderr."""
    with contextlib.suppress(OSError):  # nobody listens
        sys.stderr.write(text + "\n")
        sys.stderr.flush()


def emit_plan(
    plan: Plan, inputs: tuple[Profile, Cluster], format: Format, with_gantt: bool, stderr: bool = False
) -> None:
    """Print a plan's chart and report, on stdout unless that has the plan itself."""
    from octopipe_cli.render.report import report_document
    from octopipe_cli.replay import needs_inputs, replay

    timeline = replay(plan, "the plan", inputs if needs_inputs(plan) else None)
    if format is Format.json:
        text = json.dumps(report_document(plan, timeline), indent=2, ensure_ascii=False)
    else:
        text = ""
        with _reader_may_be_gone():  # rich flushes the stream it renders for
            text = _chart_and_report(plan, timeline, with_gantt, stderr)
    (note if stderr else emit)(text)


def _chart_and_report(plan: Plan, timeline: Timeline, with_gantt: bool, stderr: bool) -> str:
    from octopipe_cli.render.console import glyphs_of, make_console, rendered
    from octopipe_cli.render.gantt import gantt
    from octopipe_cli.render.report import report

    console = make_console(stderr=stderr)
    glyphs = glyphs_of(console)
    texts = [gantt(plan, timeline, console.width, glyphs)] if with_gantt else []
    return rendered(console, *texts, report(plan, timeline, console.width, glyphs))


def warn(text: str) -> None:
    """Print a warning on stderr."""
    note(f"octopipe: warning: {text}")


def save(file: str, text: str) -> None:
    """Write a file whole or not at all; ``-`` is stdout, whose reader may go away."""
    with _reader_may_be_gone():
        write_whole(file, text)


def check_not_an_input(output: str, inputs: dict[str, str]) -> None:
    """Raise InputError where the output file is one of the input files (name of the argument -> file)."""
    for name, file in inputs.items():
        there = "-" not in (output, file) and os.path.exists(output) and os.path.exists(file)
        if there and os.path.samefile(output, file):
            raise InputError(
                f"the output would replace the {name}", file=output, remedy="name another file with -o"
            ) from None


def safe_name(name: str) -> str:
    """Return a name with everything replaced that does not belong into a file name, cut to 100 characters."""
    kept = "".join(character if character.isalnum() or character in "._+-" else "-" for character in name)
    cut = kept.encode()[:100].decode(errors="ignore").strip(".-")
    return cut or "model"
