"""Parts for `test_gpu.py`: two of the real ones, and some that end badly."""

import os
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.gpu.parts import PARTS as REAL
from benchmarks.gpu.results import Found, Table, Work


def waits(work: Work) -> Found:
    """Wait, at the first time, until the run is killed."""
    begun = work.folder / "begun"
    if not begun.exists():
        begun.write_text(str(os.getpid()))
        time.sleep(3600)
    return Found([Table("After the kill", ["what"], [["it went on"]])])


def raises(work: Work) -> Found:
    """Fail as a library would."""
    raise ValueError("no kernel image is available")


def hangs(work: Work) -> Found:
    """Wait for a process that does not end."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
    Path(work.folder / "child").write_text(str(child.pid))
    child.wait()
    return Found()


PARTS = {"ragged": REAL["ragged"], "waits": waits, "tensorrt-fp16": REAL["tensorrt-fp16"]}
PARTS |= {"raises": raises, "hangs": hangs}
