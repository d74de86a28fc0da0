"""What a cluster in a line may say, and where one is wrong."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from octopipe_cli.errors import InputError
from octopipe_cli.formats import did_you_mean, one_of, show
from octopipe_cli.markup import SUFFIXES

GRAMMAR: Final = """\
cluster  = nodes ["+" nodes]... ["@" rate] ["/" devices of a rank]
nodes    = [count "x"] "(" devices ["+" devices]... ")"    so many nodes, each with these devices
         | devices                                         nodes of as many devices as the hardware file says
devices  = count "x" hardware [":" option "=" value]...
rate     = number "GB/s" or "Gb/s"                         of a device's link between nodes, one direction
option   = memory (GiB, or unlimited), reserved (GiB), speed (factor), link (GB/s within the node), times (the
           name that the profile's times have)"""
EXAMPLES: Final = ("8xh100-sxm", "2x(4xa100-80gb)@25GB/s", "4xa100-40gb+4xh100-sxm", "16xh100-sxm:memory=70/4")

OPTIONS: Final = ("memory", "reserved", "speed", "link", "times")
MAX_CHARACTERS: Final = 200
#: Devices of a cluster, over all ranks.
MAX_DEVICES: Final = 65_536
_NUMBER: Final = r"[0-9]{1,6}(?:\.[0-9]{1,6})?"


@dataclass(frozen=True)
class Devices:
    """Devices that are alike: how many, the hardware's name, options by name, where the hardware's name stands."""

    count: int
    hardware: str
    options: tuple[tuple[str, str], ...]
    position: int = field(compare=False)

    def option(self, name: str) -> str | None:
        """Return the value of an option, None where it is not given."""
        return dict(self.options).get(name)


@dataclass(frozen=True)
class Nodes:
    """Nodes that are alike; `count` None: devices that fill nodes of the hardware's own size."""

    count: int | None
    devices: tuple[Devices, ...]


@dataclass(frozen=True)
class Shorthand:
    """A cluster in a line, taken apart.

    Attributes
    ----------
    text
        As it was written, spaces left out.
    nodes
        In the order of the line.
    rate_gb_per_s
        Of the links between nodes; None where the hardware's own counts.
    devices_per_rank
        How many devices a rank of the pipeline is.
    """

    text: str
    nodes: tuple[Nodes, ...]
    rate_gb_per_s: float | None = None
    devices_per_rank: int = 1

    @property
    def num_devices(self) -> int:
        """How many devices there are in all."""
        return sum((nodes.count or 1) * devices.count for nodes in self.nodes for devices in nodes.devices)

    @property
    def hardware(self) -> tuple[str, ...]:
        """The hardware's names, each once, in the order of the line."""
        return tuple(dict.fromkeys(devices.hardware for nodes in self.nodes for devices in nodes.devices))


def looks_like(text: str) -> bool:
    """Return whether a text can only be meant as a cluster in a line: it begins with a count or a parenthesis."""
    if text.endswith(SUFFIXES) and not re.search(r"[+:@/()]", text):
        return False  # a file
    return re.match(r"\s*(?:\(|[0-9]+\s*[xX*]\s*[(\w])", text) is not None


def parse(text: str) -> Shorthand:
    """Return a cluster in a line, taken apart; hardware names are not looked up here.

    Raises
    ------
    InputError
        With the position (from 1, spaces left out) and what was expected there.
    """
    bare = "".join(text.split())
    if len(bare) > MAX_CHARACTERS:
        raise InputError(
            "too long for a cluster in a line",
            found=f"{len(bare)} characters",
            expected=f"at most {MAX_CHARACTERS}",
            remedy="write a cluster file: `octopipe schema cluster`",
        )
    return _Reader(bare).cluster()


class _Reader:
    """Reads from left to right; `at` is the next character."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def cluster(self) -> Shorthand:
        nodes = [self.nodes()]
        while self.take("+"):
            nodes.append(self.nodes())
        rate, devices = None, 1
        if self.take("@"):
            rate = self.rate()
        if self.take("/"):
            devices = self.whole("how many devices a rank is")
        if self.at < len(self.text):
            if self.text[self.at] in "+(" and rate is not None:
                raise self.error("the rate between nodes stands once, behind all nodes", "the end")
            raise self.error(
                "something else stands behind the cluster", '"+" and more devices, "@25GB/s", "/4", or the end'
            )
        found = Shorthand(self.text, tuple(nodes), rate, devices)
        if found.num_devices > MAX_DEVICES:
            raise InputError(
                "too many devices",
                file=self.text,
                found=str(found.num_devices),
                expected=f"at most {MAX_DEVICES}",
                remedy="give fewer",
            )
        return found

    def nodes(self) -> Nodes:
        begin = self.at
        count = 1
        if not self.take("("):
            match = re.compile(r"([0-9]+)[x]\(").match(self.text, self.at)
            if match is None:
                return Nodes(None, (self.devices(),))
            count = self.whole("how many nodes")
            self.at = match.end()
        devices = [self.devices()]
        while self.take("+"):
            devices.append(self.devices())
        if not self.take(")"):
            found = "a parenthesis that is not closed" if self.at == len(self.text) else "something else inside a node"
            raise self.error(found, '")", which closes the one at character ' + str(self.text.index("(", begin) + 1))
        return Nodes(count, tuple(devices))

    def devices(self) -> Devices:
        count = self.whole("how many devices, then x: 8xh100-sxm")
        if not self.take("x"):
            raise self.error("no x behind the number of devices", f"{count}x and the name of a hardware: 8xh100-sxm")
        at = self.at
        name = self.match(r"[\w.-]+", "the name of a hardware, h100-sxm say")
        if re.match(r"[0-9]+x[a-z]", name):
            self.at = at
            raise self.error("nodes and their devices without parentheses", f"({name}): {count}x({name})")
        options: list[tuple[str, str]] = []
        while self.take(":"):
            options.append(self.option([given for given, _ in options]))
        return Devices(count, name, tuple(options), at + 1)

    def option(self, given: list[str]) -> tuple[str, str]:
        begin = self.at
        name = self.match(r"[A-Za-z_]+", one_of(OPTIONS))
        if name not in OPTIONS or name in given:
            self.at = begin
            message = f"the option {show(name)} stands twice" if name in given else f"no option {show(name)}"
            remedy = "leave one out" if name in given else did_you_mean(name, OPTIONS, "")
            raise self.error(message, one_of(OPTIONS), remedy)
        if not self.take("="):
            raise self.error(f"the option {show(name)} has no value", f"= and a value: {name}=70")
        if name == "times":
            return name, self.match(r"[\w.-]+", "the name that the profile's times have")
        if name == "memory" and self.text.startswith("unlimited", self.at):
            self.at += len("unlimited")
            return name, "unlimited"
        return name, self.match(_NUMBER, "a number: 70, 2.5")

    def rate(self) -> float:
        number = float(self.match(_NUMBER, "a rate: 25GB/s, or 200Gb/s"))
        unit = self.match(r"G[Bb]/s", "GB/s (10^9 bytes a second) or Gb/s (10^9 bits), written so")
        if not number:
            raise self.error("no rate", "a number above 0")
        return number if unit == "GB/s" else number / 8

    def whole(self, expected: str) -> int:
        begin = self.at
        digits = self.match(r"[0-9]+", expected)
        if len(digits) > 6 or not int(digits):
            self.at = begin
            raise self.error("not a number that can stand here", f"1 to {MAX_DEVICES}")
        return int(digits)

    def take(self, character: str) -> bool:
        found = self.text.startswith(character, self.at)
        self.at += found
        return found

    def match(self, pattern: str, expected: str) -> str:
        match = re.compile(pattern, re.ASCII).match(self.text, self.at)
        if match is None:
            raise self.error("not a cluster in a line", expected)
        self.at = match.end()
        return match[0]

    def error(self, message: str, expected: str, remedy: str = "") -> InputError:
        rest = self.text[self.at :]
        return InputError(
            message,
            file=self.text,
            path=f"character {self.at + 1}",
            found=show(rest[:30]) if rest else "the end",
            expected=expected,
            remedy=remedy or f"like {', '.join(EXAMPLES[:3])}; `octopipe hardware` lists the names",
        )
