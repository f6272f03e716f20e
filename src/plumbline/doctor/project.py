"""The project's two files: params.yaml and dvc.yaml."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import yaml

from plumbline.core.errors import InputError
from plumbline.doctor.command import dvc
from plumbline.doctor.finding import Finding, Place, fault, nothing, ok
from plumbline.params import check_sections, is_partial, load_params

PARAMS, GRAPH = Path("params.yaml"), Path("dvc.yaml")


def check_params(_: Place) -> Iterator[Finding]:
    """params.yaml holds what is allowed."""
    if not PARAMS.exists() and not GRAPH.exists():
        yield nothing(f"{Path.cwd()} is no project: neither {PARAMS} nor {GRAPH} is there")
        return
    try:
        if _is_for_option():
            check_sections(PARAMS)
            yield ok(
                f"every key is known and in its range; for `--params`, as it is no whole one and no {GRAPH} is there"
            )
            return
        load_params(PARAMS)
        yield ok("every key is known and in its range")
    except InputError as error:
        for line in str(error).splitlines():  # a line a key
            yield fault(line, f"Correct {PARAMS}; `git diff {PARAMS}` shows what was changed.")


def _is_for_option() -> bool:
    """Whether params.yaml is no project's, but what an analyst gives `predict` by `--params`: some sections alone."""
    return not GRAPH.exists() and is_partial(PARAMS)


def check_graph(place: Place) -> Iterator[Finding]:
    """dvc.yaml can be read by DVC, and every stage in it is a command of this version."""
    if not GRAPH.exists():
        with suppress(InputError):  # told of by the check of params.yaml, as is one that is not there
            if not _is_for_option():
                yield fault(f"{PARAMS} is there and {GRAPH} is not", f"`git checkout {GRAPH}`.")
                return
        yield nothing("no project here")
        return
    mend = f"Correct {GRAPH}; `git diff {GRAPH}` shows what was changed."
    try:
        content = yaml.safe_load(GRAPH.read_text(encoding="utf-8"))
        stages = list(content["stages"])
    except (yaml.YAMLError, UnicodeDecodeError, TypeError, KeyError) as error:
        yield fault(f"{GRAPH}: no stages can be read ({' '.join(str(error).split())})", mend)
        return
    if unknown := [name for name in stages if name not in place.commands]:
        yield fault(
            f"{GRAPH}: no command of this version for {', '.join(unknown)}",
            "Install the version that the checkout is of (`pip install --no-deps -e .`), or correct the names.",
        )
    ended = dvc("stage", "list", "--name-only", "--fail", seconds=place.seconds)
    if ended.code:
        yield fault(f"{GRAPH}: DVC refuses it: {ended.error}", mend)
    elif not unknown:
        yield ok(f"{len(stages)} stages, each a command of this version")
