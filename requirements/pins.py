"""Read a lock file; print its versions as constraints for pip, without hashes: `python
requirements/pins.py LOCK`."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import NamedTuple

PINNED = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)(?: *; *([^\\]+))?")


class Pin(NamedTuple):
    """A version of a lock file. A name has two of them where Pythons need different versions."""

    name: str
    """In its normal form: `ruamel-yaml`."""
    version: str
    marker: str
    """Where it is needed, as `python_full_version < '3.11.3'`; empty: everywhere."""
    askers: frozenset[str]
    """Names of the packages that need it."""

    @property
    def requirement(self) -> str:
        """Return it as a line of a requirements file."""
        return f"{self.name}=={self.version}" + (f" ; {self.marker}" if self.marker else "")


def read_lock(text: str) -> list[Pin]:
    """Return the versions of a lock file in its order."""
    found: list[Pin] = []
    in_via = False
    for line in text.splitlines():
        if match := PINNED.match(line):
            found.append(Pin(normal(match[1]), match[2], (match[3] or "").strip(), frozenset()))
            in_via = False
        elif found and line.startswith(" ") and (comment := line.strip()).startswith("#"):
            words = comment.lstrip("# ")
            in_via = in_via or words.startswith("via")
            asks = re.match(r"([A-Za-z0-9._-]+)", words.removeprefix("via").strip())
            if in_via and asks and asks[1] not in ("-c", "-r"):
                found[-1] = found[-1]._replace(askers=found[-1].askers | {normal(asks[1])})
    return found


def normal(name: str) -> str:
    """Return a package's name in its normal form."""
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    print(
        "\n".join(
            pin.requirement for pin in read_lock(Path(sys.argv[1]).read_text(encoding="utf-8"))
        )
    )
