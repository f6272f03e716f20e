"""The base installation does its own work where no library of an extra can be imported, and says which extra to add."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

import plumbline
from plumbline.core import source_code
from plumbline.core.errors import InputError
from plumbline.core.extras import LIBRARIES, ExtraMissing, install, is_installed, missing_extra, need
from plumbline.pretrained import PACKAGE
from tests.refusals import refuses
from tests.tiny import PARAMS

ROOT = Path(__file__).parents[2]
CASE = ROOT / "tests/fixtures/cases/base"
PRODUCTS, FOOTPRINTS = [CASE / "asc.csv", CASE / "des.csv"], CASE / "fp.gpkg"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
GONE = sorted({library for libraries in LIBRARIES.values() for library in libraries})
BLOCK = f"""
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {GONE!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Missing())
"""
RUN = """
import contextlib, io, json, sys
from plumbline import cli
commands, gone = map(json.loads, sys.argv[1:])
ended = []
for words in commands:
    sys.argv, code, out, err = ["plumbline", *words], 0, io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            cli.main()
        except SystemExit as end:
            code = end.code or 0
    ended.append([code, out.getvalue(), err.getvalue()])
print(json.dumps([ended, sorted(set(sys.modules) & set(gone))]))
"""
FILES = ["--points", "a.csv", "--buildings", "f.geojson"]
REFUSED = {
    ("train",): "pipeline",
    ("compress",): "pipeline",
    ("export",): "pipeline",
    ("validate",): "pipeline",
    ("package",): "pipeline",
    ("release", "promote", "data/package"): "pipeline",
    ("release", "list"): "pipeline",
    ("predict", *FILES, "--output", "o.csv", "--model", "champion"): "pipeline",
    ("explain", *FILES, "--output", "o.csv"): "torch",
    ("report", "--points", str(PRODUCTS[0]), "--buildings", str(FOOTPRINTS), "--output", "o.pdf"): "report",
    ("adapters", "list"): "torch",
    ("adapt", *FILES, "--labels", "l.csv", "--name", "athens"): "torch",
    ("adapters", "merge", "athens", "--output", "model"): "torch",
    ("predict", *FILES, "--output", "o.csv", "--adapter", "athens"): "torch",
    ("export", "--model", "pretrained", "--output", "onnx"): "torch",
    ("release", "sign", "data/package", "--sign-key", "key.pem"): "sign",
    ("release", "verify", "pretrained", "--verify-key", "key.pem"): "sign",
    ("predict", *FILES, "--output", "o.csv", "--verify-key", "key.pem"): "sign",
    ("restore", "--points", "a.csv", "--output", "o.tif", "--verify-key", "key.pem"): "sign",
    ("tensorrt", "pretrained", "--output", "engines"): "trt",
}


def run_without(commands: list[list[str]], folder: Path) -> list[tuple[int, str, str]]:
    """Run commands in one process in which no library of an extra can be found: exit code, output, messages."""
    block = folder / ".block"
    block.mkdir(exist_ok=True)
    (block / "sitecustomize.py").write_text(BLOCK)
    sources = Path(plumbline.__file__).parents[1]
    environment = os.environ | {"PYTHONPATH": f"{block}{os.pathsep}{sources}", "COLUMNS": "300"}
    ended = subprocess.run(
        [sys.executable, "-c", RUN, json.dumps(commands), json.dumps(GONE)],
        capture_output=True,
        text=True,
        cwd=folder,
        env=environment,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    results, loaded = json.loads(ended.stdout.splitlines()[-1])
    assert loaded == []
    return [tuple(one) for one in results]


def names(requirements: list[str]) -> set[str]:
    return {Requirement(text).name for text in requirements}


def test_each_library_stands_in_the_extra_that_is_named_for_it():
    distributions = metadata.packages_distributions()
    for extra, libraries in LIBRARIES.items():
        asked = names(PROJECT["optional-dependencies"][extra])
        for library in libraries:
            assert asked & {library.replace("_", "-"), *distributions.get(library, [])}, (extra, library)


def test_the_pipeline_holds_all_of_torch_and_the_base_nothing_of_either():
    extras = PROJECT["optional-dependencies"]
    assert set(extras["torch"]) <= set(extras["pipeline"])
    assert not names(PROJECT["dependencies"]) & names(extras["pipeline"])


@pytest.mark.heavy
def test_the_base_works_without_any_extra(tmp_path):
    points = [word for path in PRODUCTS for word in ("--points", str(path))]
    buildings = ["--buildings", str(FOOTPRINTS)]
    package = str(PACKAGE)
    delivery = tmp_path / "data" / "deliveries" / "town" / "first"
    delivery.mkdir(parents=True)
    for path in [*PRODUCTS, FOOTPRINTS]:
        (delivery / path.name).symlink_to(path)
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(PARAMS | {"score": {"settle_s": 0}}))
    commands = {
        "predict": ["predict", *points, *buildings, "--model", package, "--output", "o.csv", "--map", "m.html"],
        "score of the champion": ["score", "--workers", "1"],
        "score": ["score", "--model", "pretrained", "--workers", "1"],
        "help": ["--help"],
        "help of explain": ["explain", "--help"],
    }
    ended = dict(zip(commands, run_without(list(commands.values()), tmp_path), strict=True))
    refused = ended.pop("score of the champion")
    assert refused[0] == 2
    assert install("pipeline") in refused[2]
    assert {name: code for name, (code, _, _) in ended.items()} == dict.fromkeys(ended, 0), ended
    assert (tmp_path / "o.csv").read_text().count("\n") > 20
    assert list(tmp_path.glob("data/score/town/*/predictions.gpkg"))


def test_what_an_extra_is_missing_for_names_it_and_ends_with_2(tmp_path):
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(PARAMS))
    for (words, extra), (code, _, said) in zip(
        REFUSED.items(), run_without([list(words) for words in REFUSED], tmp_path), strict=True
    ):
        assert code == 2, (words, said)
        (message,) = re.findall("^ERROR .*", said, re.MULTILINE)
        assert f"`make install EXTRAS={extra}" in message, words
        assert "Traceback" not in said
    assert {path.name for path in tmp_path.iterdir()} == {".block", "params.yaml"}


def test_need_names_the_library_the_extra_and_what_can_be_done_without(monkeypatch):
    need("pipeline", "train")
    for error in (ModuleNotFoundError(name="nothing_of_ours"), ImportError("no symbol", name="torch"), ImportError()):
        assert missing_extra(error, "predict") is None
    monkeypatch.setitem(LIBRARIES, "torch", ("numpy", "no_such_library"))
    with refuses("extra.missing", "explain: no_such_library", "`torch`", "Use predict.", error=ExtraMissing):
        need("torch", "explain", "Use predict.")
    assert issubclass(ExtraMissing, InputError)
    assert not is_installed("no_such_library.part")


def test_a_checkout_gets_an_extra_by_make_and_a_wheel_by_pip(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert install("torch") == f"`make install EXTRAS=torch` in {ROOT}"
    assert install("trt", "--index I") == f'`make install EXTRAS=trt PIP_ARGS="--index I"` in {ROOT}'
    monkeypatch.setattr(source_code, "PYTHON_PACKAGE", tmp_path / "site-packages/plumbline")
    assert install("torch") == '`pip install "./WHEEL[torch]"` with the name of your wheel'
    assert install("trt", "--index I").startswith('`pip install "./WHEEL[trt]" --index I`')
