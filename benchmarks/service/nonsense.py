"""Ask the service nonsense made from its own OpenAPI document (schemathesis): no 500, no hang.

python -m benchmarks.service.nonsense [--examples 1000]
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.common import parse, parser, refusing
from benchmarks.service.__main__ import service
from plumbline.core.errors import InputError

CHECKS = "not_a_server_error"
TIMEOUT_S = 30


def main(argv: Sequence[str] | None = None) -> None:
    """Ask, and end with 1 where an answer was a server error or did not come."""
    asked = parser("service.nonsense", __doc__)
    asked.add_argument("--examples", type=int, default=1000, help="of each operation")
    given = parse(asked, argv, examples=3)
    with tempfile.TemporaryDirectory() as scratch, refusing():
        with service(Path(scratch) / "service", 1) as (address, _):
            command = [str(Path(sys.executable).with_name("schemathesis")), "run", f"{address}/openapi.json"]
            command += ["--checks", CHECKS, "--max-examples", str(given.examples), "--request-timeout", str(TIMEOUT_S)]
            command += ["--phases", "fuzzing", "--continue-on-failure", "--seed", "1"]
            ended = subprocess.run(command, check=False).returncode
        if ended:
            raise InputError(f"schemathesis ended with {ended}.")


if __name__ == "__main__":
    main()
