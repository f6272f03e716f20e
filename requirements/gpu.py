"""Install what a GPU needs into an environment of its own, or download it: `python
requirements/gpu.py --help`.

The lock file gives all but four: PyTorch's CUDA build (with Triton), `onnxruntime-gpu` in
the place of `onnxruntime`, and TensorRT, which may be missing. The last three are those of
the extras `gpu` and `trt` of pyproject.toml. Index and proxies are pip's own settings, or
PIP_ARGS.
"""

from __future__ import annotations

import argparse
import shlex
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from pins import read_lock

HERE = Path(__file__).parent
LOCK, TORCH = HERE / "test.lock", HERE / "torch.txt"
REPLACED = "onnxruntime"
"""Shares its folder with onnxruntime-gpu: only one may be there."""
NO_GPU = (
    "No NVIDIA GPU was found: there is no `nvidia-smi`. Install its driver first, or run `make "
    "gpu DRY=1`, which takes "
    "the CPU."
)
NO_CUDA = (
    "This is not a CUDA build of PyTorch. Point pip to an index or folder that has one "
    "(PIP_INDEX_URL, PIP_ARGS or "
    "WHEELS), remove the environment, and repeat."
)
NO_CUDA_WHEEL = (
    "this is PyTorch's CPU build. Point pip to an index that has the CUDA build, and to no "
    "folder with the CPU build "
    "(PIP_INDEX_URL, PIP_FIND_LINKS, PIP_ARGS). Remove this file, and repeat."
)


def pins() -> list[str]:
    """Return the versions of the lock file, but for the package that another one replaces."""
    return [
        pin.requirement
        for pin in read_lock(LOCK.read_text(encoding="utf-8"))
        if pin.name != REPLACED
    ]


def extra(name: str) -> list[str]:
    """Return the requirements of an extra."""
    project = tomllib.loads((HERE.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    listed: list[str] = project["optional-dependencies"][name]
    return listed


def commands(
    action: str, constraints: Path, wheels: Path | None, pip_args: list[str]
) -> dict[str, list[str]]:
    """Return the arguments of each call of pip, by what it is for; that of `tensorrt` may fail.

    Args:
        action: `install` or `download`. constraints: file with `pins`. wheels: folder to
            install from, or to download into. pip_args: more arguments for pip.
    """
    if action == "download":
        begin = ["download", *pip_args, "--dest", str(wheels)]
    else:
        begin = ["install", *pip_args, "--no-compile"]
        begin += ["--no-index", "--find-links", str(wheels)] if wheels else []
    asked = [*begin, "--constraint", str(constraints), "--requirement", str(TORCH)]
    found = {
        "lock": [*begin, "--no-deps", "--require-hashes", "--requirement", str(LOCK)],
        "replaced": ["uninstall", "--yes", REPLACED],
        "gpu": [*asked, *extra("gpu")],
        "tensorrt": [*asked, *extra("trt")],
        "own": ["install", "--no-deps", "--no-build-isolation", "--editable", str(HERE.parent)],
    }
    if action == "download":
        del found["replaced"], found["own"]
    return found


def cpu_wheel(wheels: Path) -> Path | None:
    """Return PyTorch's CPU build in a folder of wheels; pip would take it before the CUDA build."""
    return next(iter(sorted(wheels.glob("torch-*+cpu*.whl"))), None)


def main() -> int:
    """Call pip; return the exit code."""
    asked = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    asked.add_argument("action", choices=["install", "download"])
    asked.add_argument(
        "--wheels", type=Path, help="folder to install from and nowhere else, or to download into"
    )
    asked.add_argument("--pip-args", default="", help="more arguments for pip")
    given = asked.parse_args()
    if given.action == "download" and given.wheels is None:
        sys.exit("A folder to download into is needed: make gpu-wheels WHEELS=folder")
    if given.action == "install" and shutil.which("nvidia-smi") is None:
        print(NO_GPU, file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as scratch:
        constraints = Path(scratch) / "pins.txt"
        constraints.write_text("\n".join(pins()) + "\n", encoding="utf-8")
        for name, words in commands(
            given.action, constraints, given.wheels, shlex.split(given.pip_args)
        ).items():
            print(f"{name}: pip {shlex.join(words)}", flush=True)
            command = [
                sys.executable,
                "-m",
                "pip",
                "--disable-pip-version-check",
                "--quiet",
                *words,
            ]
            code = subprocess.run(command, check=False).returncode
            if code and name == "tensorrt":
                print(
                    "TensorRT could not be had: its parts will say `not measured` "
                    "(docs/runtimes.md).",
                    flush=True,
                )
            elif code:
                return code
    if given.action == "download" and (found := cpu_wheel(given.wheels)):
        print(f"{found}: {NO_CUDA_WHEEL}", file=sys.stderr)
        return 2
    if given.action == "install":
        check = "import sys, torch; sys.exit(torch.version.cuda is None)"
        if subprocess.run([sys.executable, "-c", check], check=False).returncode:
            print(NO_CUDA, file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
