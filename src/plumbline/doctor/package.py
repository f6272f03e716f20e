"""Model packages: every file is the one that was released."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

from plumbline.core.errors import InputError
from plumbline.doctor.finding import Finding, Place, fault, ok

OWN = Path("data/package")
importing = threading.Lock()
"""Two threads that load the same large libraries, which import one another in circles, may each get half of one."""


def check_package(_: Place) -> Iterator[Finding]:
    """The package that comes with Plumbline, and the one that the last run made."""
    with importing:
        from plumbline.export.package import verify_package
        from plumbline.pretrained import PACKAGE
    for folder, what, mend in (
        (PACKAGE, "the package that comes with Plumbline", "Install Plumbline again; in a clone: `git checkout "
         "src/plumbline/pretrained`."),
        (OWN, str(OWN), f"`dvc checkout {OWN}`; if DVC has lost it, `make run`."),
    ):  # fmt: skip
        if folder == OWN and not folder.exists():
            continue
        try:
            yield ok(f"{what}: whole, version {verify_package(folder).version}")
        except InputError as error:
            yield fault(str(error), mend)
