"""Do one job of the service on a worker, in a separate process, as the service itself would."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from prefect import flow

from plumbline.core.errors import PlumblineError
from plumbline.service.job_store import LOG
from plumbline.service.runner import PROGRAM


@flow(name="service-job", log_prints=False)
def service_job(folder: Path) -> None:
    """Do the job in `folder`, which must have the same path on the worker's machine as for
    the service.

    Raises:
        PlumblineError: it failed; the folder says why.
    """
    with (folder / LOG).open("ab") as log:
        ended = subprocess.run(
            [sys.executable, "-m", PROGRAM, str(folder), str(os.getpid())],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            check=False,
        )
    if ended.returncode:
        raise PlumblineError(
            f"{folder.name}: the job ended with {ended.returncode}.", key="job.failed"
        )
