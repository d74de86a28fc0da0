"""Every reader of octopipe's with commands that use it, and good input to spoil."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path
from typing import Any, Final, NamedTuple

from hypothesis import strategies as st

from octopipe_cli import cli
from octopipe_cli.export import TARGETS
from tests import documents
from tests.fuzz import hostile
from tests.profiling import tiny_configs
from tests.profiling.test_megatron_timers import ITERATION, block
from tests.profiling.traces import event, trace
from tests.test_markup import TOML, YAML

#: Where the spoilt file's name, or the spoilt text itself, stands in a command.
FILE: Final = "<file>"
TEXT: Final = "<text>"

PLAN: Final = documents.toy(documents.PLAN)
PROFILE: Final = documents.toy(documents.PROFILE)
SHIPPED: Final = documents.MODELS.parent


def _json(path: Path) -> Any:
    return json.loads(path.read_text())


class Reader(NamedTuple):
    """A reader: its commands, the spoilt input, the name its file must have."""

    commands: tuple[tuple[str, ...], ...]
    inputs: st.SearchStrategy[bytes]
    file: str = "spoilt.json"


class Ended(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str


INPUTS: Final = ("--profile", "profile.json", "--cluster", "cluster.json")
ESTIMATE: Final = ("--sequence-length", "4096", "--micro-batch-size", "1")
OF_PLAN: Final = ("--plan", "plan.json", "--profile", "profile.json")

CONFIGS: Final = [value for value in vars(tiny_configs).values() if isinstance(value, dict) and "model_type" in value]
TRACE: Final = trace(
    *(
        event(f"PP:{stage}{kind}{m}", 100.0 * (4 * m + at), 90.0)
        for m in range(2)
        for stage in range(2)
        for at, kind in enumerate("FIW")
    )
)
SIMPIPE: Final = {"pattern": "EM-*-L", "forward_ms": dict.fromkeys("EM-*L", 1.5), "backward_ms": {"E": 1, "attn": 2}}
SETTINGS: Final = (
    '[plans]\n"none.json" = { profile = "profile.json", cluster = "cluster.json" }\n[diff]\nfail_on = "regression"\n'
    "# a comment\n[diff.thresholds]\nstep_time = 1.5\nx = [1, 2]\nwhen = 1979-05-27T07:32:00Z\n",
    '[tool.octopipe.plans]\n"none.json" = {}\n',
)
YAML_NOTES: Final = f"%YAML 1.1\n---\n{YAML}name2: &a [*a, !!float 1_0:20, 0o17, |\n  text\n  , 'a', \"\\x41\"]\n...\n"
SHORTHANDS: Final = ("8xh100-sxm", "2x(4xa100-80gb)@25GB/s", "2x(4xh100-sxm+4xl40s)/2", "4xa100-80gb+65536xh100-sxm")
LAYOUTS: Final = ("Et*2|(tt|)*5t|tmL", "E|t|L", "(t|)*3", "Et*3|(tt|)*29,m|L", "M-|M*-/MM", "M-M*/-/-")

LENGTHS: Final = {"text": [1, 0.25]}
LENGTH_TEXTS: Final = (
    '{"text": [1, 2]}\n{"text": [0.5, 3]}\n',
    "text\n1\n0.5\n2.5\n0\n",
    '[{"text": [1, 1]}, {"text": [2, 0]}]',
)
TOKENS: Final = ("--tokens",)

READERS: Final[dict[str, Reader]] = {
    "profile": Reader(
        (("profile", "show", FILE), ("compare", FILE, "cluster.json", "-m", "2")),
        hostile.documents(PROFILE, documents.full_profile()),
    ),
    "cluster": Reader(
        (("compare", "profile.json", FILE, "-m", "2"),),
        hostile.documents(documents.toy(documents.CLUSTER), documents.full_cluster()),
    ),
    "cluster-yaml": Reader(
        (("compare", "profile.json", FILE, "-m", "2"),), hostile.texts(YAML, YAML_NOTES), "spoilt.yaml"
    ),
    "cluster-toml": Reader((("compare", "profile.json", FILE, "-m", "2"),), hostile.texts(TOML), "spoilt.toml"),
    "cluster-line": Reader((("compare", "-m", "2", "--", "profile.json", TEXT),), hostile.texts(*SHORTHANDS)),
    "plan": Reader(
        (
            *(("show", FILE), ("show", FILE, "--format", "json"), ("verify", FILE, *INPUTS)),
            *(("diff", FILE, "plan.json"), ("diff", "plan.json", FILE, "--format", "markdown")),
            *(("export", FILE, "--to", target.name) for target in TARGETS),
            ("compare", "profile.json", "cluster.json", "-m", "2", "--plan", FILE),
        ),
        hostile.documents(PLAN, documents.full_plan()),
    ),
    "orders": Reader(
        (("show", FILE), ("verify", FILE, *INPUTS), ("export", FILE, "--to", "torch-csv")),
        hostile.texts(*(json.dumps({**PLAN, "orders": orders}) for orders in (PLAN["orders"], [["0F0"], ["1F0"]]))),
    ),
    "config": Reader(
        (("profile", "estimate", FILE, "--hardware", "h100-sxm", *ESTIMATE),),
        hostile.documents(*CONFIGS, *(_json(path) for path in sorted((SHIPPED / "configs").glob("*.json")))),
    ),
    "lengths": Reader(
        tuple(
            ("compare", "profile.json", "cluster.json", "-m", "2", "--lengths", FILE, *more) for more in ((), TOKENS)
        ),
        st.one_of(hostile.documents(LENGTHS), hostile.texts(*LENGTH_TEXTS)),
        "spoilt.lengths",
    ),
    "hardware": Reader(
        (("profile", "estimate", "llama-2-7b", "--hardware", FILE, *ESTIMATE),),
        hostile.documents(_json(SHIPPED / "hardware" / "h100-sxm.json")),
    ),
    "trace": Reader((("profile", "import", "trace", FILE, *OF_PLAN),), hostile.documents(TRACE, TRACE["traceEvents"])),
    "megatron-log": Reader(
        (("profile", "import", "megatron", FILE, *OF_PLAN),),
        hostile.texts(ITERATION + block([40, 80], [100, 160]) + ITERATION + block([44, 8], [36, 4], "0: ")),
    ),
    "simpipe": Reader(
        (("profile", "import", "simpipe", FILE, "--hardware", "a100"),), hostile.documents(SIMPIPE, PROFILE)
    ),
    "settings": Reader(
        (("plan", "--check-all"), ("diff", "plan.json", "plan.json")), hostile.texts(*SETTINGS), "octopipe.toml"
    ),
    "layout": Reader(
        (
            ("layout", "check", "--ranks", "2", "--layers", "4", "--", TEXT),
            ("layout", "check", "--ranks", "3", "--hybrid", "--", TEXT),
        ),
        hostile.texts(*LAYOUTS),
    ),
    "range": Reader(
        tuple(("sweep", "profile.json", "none.json", "-m", "2", f"--{name}", TEXT) for name in ("memory", "ranks")),
        hostile.texts("40:80:5", "1,2,3", "1:8", "12.5:200:12.5"),
    ),
}


def run(arguments: tuple[str, ...]) -> Ended:
    """Return how octopipe ends on the arguments, in this process."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = cli.run(arguments)
    return Ended(code, *(stream.buffer.getvalue().decode() for stream in (out, err)))  # type: ignore[attr-defined]


def tried(name: str, data: bytes) -> None:
    """Run the commands of a reader, in the current folder, on some input: none may end with a bug of octopipe's."""
    reader = READERS[name]
    Path(reader.file).write_bytes(data)
    text = data.decode("utf-8", "surrogateescape").replace("\0", "")
    for command in reader.commands:
        ended = run(tuple({FILE: reader.file, TEXT: text}.get(word, word) for word in command))
        assert ended.code in (0, 1, 2, 3, 4), ended.err[-2500:]
        assert "\x1b" not in ended.out + ended.err
        if ended.code == 2 and not ended.out:
            assert ended.err.startswith("octopipe: error: ")
            assert len(ended.err) < 4000
