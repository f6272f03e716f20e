"""What a worker starts for a run: Prefect's engine, and DVC beside it. Each takes seconds to load."""

from __future__ import annotations

import runpy

from flows import ready

if __name__ == "__main__":
    ready.begin()
    runpy.run_module("prefect.engine", run_name="__main__", alter_sys=True)
