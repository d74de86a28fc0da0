"""``octopipe schema``: the JSON Schema of the files octopipe reads, and of the comparisons it writes."""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Any, Final

import typer

from octopipe_cli.cli.output import emit_json

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


class FileKind(str, Enum):
    """What has a schema: the files that are read, and the document that `diff` writes."""

    profile = "profile"
    cluster = "cluster"
    plan = "plan"
    hardware = "hardware"
    diff = "diff"


def schema(
    kind: Annotated[
        FileKind, typer.Argument(metavar="profile|cluster|plan|hardware|diff", help="Which file.", show_choices=False)
    ],
) -> None:
    """Print the JSON Schema (draft 2020-12) of a file, or of what `octopipe diff --format json` prints.

    Units are in the names: _ms milliseconds, _us microseconds, _ns nanoseconds, _gib GiB of 1024^3 bytes.

    Example: octopipe schema profile > profile.schema.json
    """
    emit_json(schema_document(kind.value))


def schema_document(kind: str) -> dict[str, Any]:
    """Return the JSON Schema of a kind of file; what the readers check beyond it are references and sums."""
    import msgspec

    from octopipe_cli.cluster import Cluster
    from octopipe_cli.plan import Plan
    from octopipe_cli.profile import Profile
    from octopipe_cli.profiling.hardware import Hardware
    from octopipe_cli.render.diff.document import DiffDocument

    records = {"profile": Profile, "cluster": Cluster, "plan": Plan, "hardware": Hardware, "diff": DiffDocument}
    record = records[kind]
    (reference,), definitions = msgspec.json.schema_components([record], ref_template="#/$defs/{name}")
    root = definitions.pop(reference["$ref"].rpartition("/")[2])
    return {"$schema": DIALECT, **root, "title": f"octopipe {kind}", "$defs": definitions}
