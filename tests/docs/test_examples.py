"""The samples of docs/examples give the table of `predict` from the reference vectors, each in its own runtime."""

import json
import re
import shutil
import subprocess
import sys
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import numpy as np
import onnxruntime
import pytest

from plumbline.core.files import read_json
from plumbline.export.package import MODELS, VECTORS
from plumbline.export.vectors import read_vectors
from plumbline.pretrained import FIELDS, PACKAGE
from tests.browser import BROWSER, FLAGS

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
OLDER = ("1.16.3", "1.17.3", "1.18.1")
HEADERS = "com.github.asus4.onnxruntime@0.4.9"
"""Package of npm's registry that has the headers of ONNX Runtime."""
JSON_HEADER = Path("/usr/include/nlohmann/json.hpp")
BY_BARE_RUNTIME = """
import json, sys
import numpy as np, onnxruntime
folder, file = sys.argv[1:]
part = json.load(open(f"{folder}/vectors.json"))["inputs"]
tensors = {name: np.array(t["data"], t["type"]).reshape(t["shape"]) for name, t in part.items()}
def run(name, prefix):
    session = onnxruntime.InferenceSession(f"{folder}/{name}", providers=["CPUExecutionProvider"])
    found = session.run(None, {value.name: tensors[value.name] for value in session.get_inputs()})
    outputs = dict(zip([value.name for value in session.get_outputs()], found))
    tensors.update({prefix + name: values for name, values in outputs.items()})
    return {name: np.where(np.isfinite(values), values, None).tolist() for name, values in outputs.items()}
raw = run(file, "raw_")
print(json.dumps({"version": onnxruntime.__version__, "raw": raw, "predictions": run("predictions.onnx", "")}))
"""


def run(*command, cwd):
    done = subprocess.run([str(word) for word in command], cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A copy of the samples, beside the shipped package."""
    folder = shutil.copytree(ROOT / "docs" / "examples", tmp_path_factory.mktemp("application") / "examples")
    shutil.copytree(PACKAGE, folder / "package")
    return folder


def install(folder, name):
    if shutil.which("npm") is None:
        pytest.skip("npm is missing")
    run("npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", folder, name, cwd=folder)


def check(table):
    """Each cell is that of the package's reference vectors."""
    expected = read_vectors(PACKAGE / VECTORS)["predictions"]
    declared = read_json(PACKAGE / "manifest.json")["predictions"]["outputs"]
    assert list(table) == [column["name"] for column in declared]
    for column in declared:
        values, wanted = table[column["name"]], expected[column["name"]]
        if "values" in column:
            assert values == [None if code < 0 else column["values"][code] for code in wanted], column["name"]
        else:
            np.testing.assert_allclose(np.array(values, float), wanted, rtol=0, atol=1e-3, err_msg=column["name"])


def test_javascript_in_node(folder):
    install(folder, "onnxruntime-node")
    check(json.loads(run("node", "node.mjs", "package", cwd=folder)))


@pytest.mark.skipif(BROWSER is None, reason="no Chromium found")
def test_javascript_in_the_browser(folder):
    install(folder, "onnxruntime-web")
    handler = partial(SimpleHTTPRequestHandler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/browser.html"
        page = run(BROWSER, *FLAGS.split(), f"--user-data-dir={folder}/profile", "--dump-dom", address, cwd=folder)
        server.shutdown()
    check(json.loads(re.search('<pre id="table">(.+?)</pre>', page, re.DOTALL)[1]))


@pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is missing")
@pytest.mark.skipif(not JSON_HEADER.is_file(), reason=f"{JSON_HEADER} is missing (Debian: nlohmann-json3-dev)")
def test_cpp(folder, tmp_path):
    if shutil.which("npm") is None:
        pytest.skip("npm is missing, from whose registry the headers come")
    archive = run("npm", "pack", "--silent", HEADERS, cwd=tmp_path).strip()
    run("tar", "xzf", archive, "--wildcards", "*/ios-arm64/*/Headers/*.h", cwd=tmp_path)
    include = next(tmp_path.rglob("onnxruntime_cxx_api.h")).parent
    library = next((Path(onnxruntime.__file__).parent / "capi").glob("libonnxruntime.so.*"))
    shutil.copy(library, tmp_path / "libonnxruntime.so.1")
    linked = ("libonnxruntime.so.1", f"-Wl,-rpath,{tmp_path}", "-o", "predictions")
    run("g++", "-std=c++20", folder / "predictions.cpp", "-I", include, *linked, cwd=tmp_path)
    check(json.loads(run("./predictions", PACKAGE, cwd=tmp_path)))


@pytest.mark.parametrize("version", OLDER)
@pytest.mark.skipif(sys.version_info[:2] > (3, 12), reason="older runtimes have no wheel for this Python")
def test_older_runtimes_read_every_file(version, tmp_path):
    run(sys.executable, "-m", "venv", tmp_path / "venv", cwd=tmp_path)
    python = tmp_path / "venv" / "bin" / "python"
    run(python, "-m", "pip", "install", "-q", f"onnxruntime=={version}", "numpy<2", cwd=tmp_path)
    expected = read_vectors(PACKAGE / VECTORS)
    for name in MODELS:
        found = json.loads(run(python, "-c", BY_BARE_RUNTIME, PACKAGE, name, cwd=tmp_path))
        assert found["version"] == version
        for part in ("raw", "predictions") if name == "model.onnx" else ():
            for column, values in found[part].items():
                wanted = expected[part][column].astype(float)
                np.testing.assert_allclose(np.array(values, float), wanted, rtol=0, atol=1e-3, err_msg=column)
    for path in FIELDS.glob("*.onnx"):
        opening = f"import onnxruntime; onnxruntime.InferenceSession({str(path)!r})"
        run(python, "-c", opening, cwd=tmp_path)
