"""Run the tutorials as a reader does, and compare what they show with what the commands print.

`python -m tests.docs.outputs` refuses a page that shows other figures, and `--write` renews them.
In a page, an output is a `text` fence behind a block; its line `…` leaves lines out.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = ("docs/tutorial.md", "docs/tutorial-fields.md")
"""In the order in which a reader meets them: the second goes on in the folder of the first."""
LAST: Mapping[str, int] = {"docs/tutorial-fields.md": 1}
"""Number of a page's last command that is run here: what follows needs a service."""
SHORTER = {"--steps 5 --samples 4": "--steps 1 --samples 2"}
"""Options that change no line of an output, only the time that it takes."""
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"`([\w.]+\.(?:yaml|py))`[^`\n]*:\s*$")
NUMBER = re.compile(r"\d+(?:\.\d+)?")
LEFT_OUT = "…"


class OutputError(Exception):
    """A command of a page failed, or prints no line like the page's."""


@dataclass(frozen=True)
class Step:
    """A fenced block that a reader acts on, and the output that the page shows behind it."""

    page: str
    language: str
    text: str
    file: str | None
    """Name under which the reader saves the block; None: it is a command."""
    shown: tuple[int, int] | None
    """Start and end of the shown output in the page's text; None: the page shows none."""


def steps(page: str, text: str) -> Iterator[Step]:
    """Yield the steps of a page."""
    fences = list(FENCE.finditer(text))
    for fence, following in zip(fences, [*fences[1:], None], strict=True):
        if fence[1] == "text":
            continue
        name = FILE.search(text[: fence.start()])
        shown = following.span(2) if following and following[1] == "text" else None
        yield Step(page, fence[1], fence[2], name[1] if name else None, shown)


def renewed(shown: str, printed: str) -> str:
    """Return an output as a page shows it, with the figures that were printed.

    Each line is replaced by the next printed line that differs from it in numbers and spaces alone.

    Raises:
        OutputError: there is no such line.
    """
    lines, at, result = printed.splitlines(), 0, []
    for line in shown.splitlines():
        if line.strip() != LEFT_OUT:
            pattern = re.compile(
                r"\s*" + r"\s+".join(NUMBER.sub(r"\\d+(?:\\.\\d+)?", re.escape(w)) for w in line.split())
            )
            at = next(
                (row for row in range(at, len(lines)) if pattern.fullmatch(lines[row].rstrip())),
                len(lines),
            )
            if at == len(lines):
                raise OutputError(f"no line is printed like\n{line}\nThis was printed:\n{printed}")
            line = lines[at].rstrip()
            at += 1
        result.append(line)
    return "\n".join(result) + "\n"


def same(shown: str, printed: str) -> bool:
    """Return whether two outputs agree: decimals to a unit of the last place.

    Processors differ there.
    """
    if NUMBER.sub("0", " ".join(shown.split())) != NUMBER.sub("0", " ".join(printed.split())):
        return False
    for one, other in zip(NUMBER.findall(shown), NUMBER.findall(printed), strict=True):
        places = len(one.partition(".")[2])
        if abs(float(one) - float(other)) > (1.001 * 10**-places if places else 0):
            return False
    return True


@dataclass(frozen=True)
class Reader:
    """Follows pages in a folder, with `plumbline` and `python` of this checkout on the path."""

    folder: Path

    def follow(self, page: str) -> tuple[str, str]:
        """Do the steps of a page; return its text, and the same text with the outputs of now.

        Raises:
            OutputError: a command failed, or an output has other lines.
        """
        text = (ROOT / page).read_text(encoding="utf-8")
        outputs: list[tuple[tuple[int, int], str]] = []
        commands = 0
        for step in steps(page, text):
            if step.file:
                (self._here() / step.file).write_text(step.text, encoding="utf-8")
                continue
            commands += 1
            printed = self.run(step.text)
            if step.shown:
                try:
                    outputs.append((step.shown, renewed(text[slice(*step.shown)], printed)))
                except OutputError as error:
                    raise OutputError(f"{page}, command {commands}: {error}") from None
            if commands == LAST.get(page):
                break
        now = text
        for (start, end), output in reversed(outputs):
            if not same(now[start:end], output):
                now = now[:start] + output + now[end:]
        return text, now

    def run(self, command: str) -> str:
        """Run a Bash block where the one before ended; return all that it prints.

        Raises:
            OutputError: it failed.
        """
        for was, now in SHORTER.items():
            command = command.replace(was, now)
        script = f"{command}\npwd > '{self._place}'\n"
        words = ["bash", "-e", "-u", "-c", script]
        ended = subprocess.run(
            words,
            cwd=self._here(),
            env=self.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if ended.returncode:
            raise OutputError(f"exit code {ended.returncode}:\n{command}\n{ended.stdout}")
        return ended.stdout

    @property
    def _place(self) -> Path:
        return self.folder / ".place"

    def _here(self) -> Path:
        return Path(self._place.read_text(encoding="utf-8").strip()) if self._place.exists() else self.folder

    def environment(self) -> dict[str, str]:
        """Return what commands are started with."""
        tools = self.folder / ".tools"
        tools.mkdir(exist_ok=True)
        for name, words in (("plumbline", "-m plumbline"), ("python", "")):
            script = tools / name
            script.write_text(f'#!/bin/sh\nexec "{sys.executable}" {words} "$@"\n', encoding="utf-8")
            script.chmod(0o755)
        path = os.pathsep.join([str(tools), os.environ["PATH"]])
        source = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
        return os.environ | {"PATH": path, "PYTHONPATH": source, "OMP_NUM_THREADS": "1", "COLUMNS": "200"}


def main() -> int:
    """Compare the outputs of all pages, or renew them; return 1 if a page shows others, else 0."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--write", action="store_true", help="renew the pages")
    write = parser.parse_args().write
    differing = 0
    with tempfile.TemporaryDirectory() as folder:
        reader = Reader(Path(folder))
        for page in PAGES:
            text, now = reader.follow(page)
            if text == now:
                continue
            differing += 1
            print(f"{page}: {'renewed' if write else 'it shows other figures than its commands print'}")
            for was, line in zip(text.splitlines(), now.splitlines(), strict=True):
                if was != line:
                    print(f"- {was}\n+ {line}")
            if write:
                (ROOT / page).write_text(now, encoding="utf-8")
    if differing and not write:
        print("Run `python -m tests.docs.outputs --write`, and check the sentences beside the figures.")
    return int(bool(differing) and not write)


if __name__ == "__main__":
    sys.exit(main())
