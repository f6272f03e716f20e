"""Find the checkout that a command works in, and refuse to make its stages with other code
than the checkout's.

DVC files the result of a stage under the hashes of the checkout's source code. Only that
code may make the result.
"""

from __future__ import annotations

import os
from pathlib import Path

from plumbline.core.errors import InputError

PYTHON_PACKAGE = Path(__file__).resolve().parents[1]
"""Folder of the package that runs: that of a checkout, or a copy that pip installed."""
SOURCES = Path("src/plumbline")
"""Folder of the package in a checkout."""
MAP_PAGE = Path("serve/map/page")
"""Folder of the map's page in the package. `make web` builds it from third-party code, so
it is not in Git."""
PAGE_FILES = ("app.js", "app.css")
"""Names of the files in that folder."""
STAGE_OF_PAGE = "predict"
"""Name of the stage that draws the map."""


def is_checkout(folder: Path) -> bool:
    """Return whether a folder is the root of a checkout."""
    return (folder / "dvc.yaml").is_file() and (folder / SOURCES).is_dir()


def nearest_checkout() -> Path | None:
    """Return the root of the checkout that the user works with: the working directory's,
    else the running package's.

    None if both are outside of a checkout.
    """
    return _checkout_here() or next(
        (root for root in PYTHON_PACKAGE.parents[1:2] if is_checkout(root)), None
    )


def foreign_checkout() -> Path | None:
    """Return the root of the checkout in the working directory if the running package is
    not its own; else None."""
    root = _checkout_here()
    return root if root and (root / SOURCES).resolve() != PYTHON_PACKAGE else None


def check_code(stage: str) -> None:
    """Refuse to make a stage in a checkout with another package than the checkout's own.

    Args:
        stage: its name.

    Raises:
        InputError: an installed copy, or another checkout's package, runs.
    """
    if root := foreign_checkout():
        raise InputError(
            f"{stage}: {PYTHON_PACKAGE} runs, which is not the source code of this checkout "
            f"({root / SOURCES}). DVC would file the result under code that did not make it.\n"
            f"Run `make install` in {root}, and `source {root}/.venv/bin/activate`. "
            f"With another environment: `pip install --no-deps -e {root}`.",
            key="checkout.other_code",
        )


def check_map_page(stage: str) -> None:
    """Refuse to begin a stage of the diagnosis pipeline while the map's page, which its
    last stage needs, is missing.

    A machine that is not for that stage (`PLUMBLINE_STAGES`) needs no page.

    Args:
        stage: its name.

    Raises:
        InputError: the page is not built.
    """
    stages = os.environ.get("PLUMBLINE_STAGES")
    if not is_checkout(Path.cwd()) or (stages is not None and STAGE_OF_PAGE not in stages.split()):
        return
    page = SOURCES / MAP_PAGE
    missing = next((page / name for name in PAGE_FILES if not (page / name).is_file()), None)
    if missing:
        raise InputError(
            f"{stage}: {missing}: the map's page is not built, and the stage `{STAGE_OF_PAGE}` "
            "needs it. Run `make web`.",
            key="map.page_not_built",
        )


def _checkout_here() -> Path | None:
    """Return the root of the checkout of the working directory, which is the root or
    `restoration/` in it."""
    here = Path.cwd()
    return next((root for root in (here, here.parent) if is_checkout(root)), None)
