"""Variables of a company's network, and of other installations, change nothing here, or are named."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import plumbline
from plumbline.core.extras import find_foreign_libraries

SOURCE = str(Path(plumbline.__file__).parents[1])
PROXIES = "import plumbline; from urllib.request import proxy_bypass as direct; import os; "


def run(code: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": SOURCE} | variables
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("variables", "direct"),
    [
        ({}, "127.0.0.1,localhost"),
        ({"NO_PROXY": "example.org"}, "example.org,127.0.0.1,localhost"),
        ({"no_proxy": "a.org", "NO_PROXY": "b.org"}, "a.org,127.0.0.1,localhost"),
        ({"NO_PROXY": "*"}, "*"),
    ],
)
def test_calls_to_this_machine_go_through_no_proxy(variables, direct):
    code = PROXIES + "assert direct('127.0.0.1:80') and direct('localhost'); print(os.environ['NO_PROXY'])"
    ended = run(code, HTTP_PROXY="http://127.0.0.1:9", ALL_PROXY="http://127.0.0.1:9", **variables)
    assert ended.stdout.strip() == direct, ended.stderr


def test_without_a_proxy_the_one_of_the_system_stays_in_use():
    code = "import plumbline, urllib.request; print(urllib.request.getproxies_environment())"
    assert run(code, HTTP_PROXY="").stdout.strip() == "{}"


def test_data_of_another_installation_is_not_used(tmp_path):
    names = ("PROJ_DATA", "PROJ_LIB", "GDAL_DATA", "GDAL_DRIVER_PATH")
    code = f"import plumbline, os, sys; print([os.environ.get(name) for name in {names}])"
    assert run(code, **dict.fromkeys(names, str(tmp_path))).stdout.strip() == str([None] * 4)
    inside = str(Path(sys.prefix) / "share")
    assert run(code, **dict.fromkeys(names, inside)).stdout.strip() == str([inside] * 4)
    beside = f"{sys.prefix}2"
    assert run(code, **dict.fromkeys(names, beside)).stdout.strip() == str([None] * 4)


def test_a_folder_of_national_grids_is_added_and_a_database_of_another_installation_is_not(tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "proj.db").touch()
    code = "import plumbline.sources.crs, pyproj, rasterio.crs; rasterio.crs.CRS.from_epsg(3035); "
    code += "print(pyproj.datadir.get_data_dir(), pyproj.CRS(3035).name)"
    for name in ("PROJ_DATA", "PROJ_LIB"):
        ended = run(code, **{name: os.pathsep.join([str(tmp_path / "other"), str(tmp_path)])})
        *_, folder = ended.stdout.partition(" ")[0].split(os.pathsep)
        assert (folder, "other" in ended.stdout) == (str(tmp_path), False), ended.stderr


def test_libraries_of_another_installation_are_named_before_they_fail(tmp_path, monkeypatch):
    (tmp_path / "numpy").mkdir()
    (tmp_path / "numpy" / "__init__.py").write_text("raise ImportError('of another Python')")
    path = os.pathsep.join([str(tmp_path), SOURCE])
    ended = run("from plumbline.__main__ import main; main()", PYTHONPATH=path)
    assert ended.stderr.startswith(f"WARNING PYTHONPATH: brings {tmp_path / 'numpy'}")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    for name in ("libstdc++.so.6", "libproj.so.25"):  # one of them is named
        (tmp_path / name).touch()
    assert find_foreign_libraries() == [("LD_LIBRARY_PATH", str(tmp_path / "libstdc++.so.6"))]
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert find_foreign_libraries() == []


@pytest.mark.parametrize(
    "folder", ["/lib", "/usr/lib64/", "/usr/lib/x86_64-linux-gnu", "/usr/local/cuda-12.4/lib64", "/opt/gcc-13/lib64"]
)
def test_folders_of_the_system_belong_to_no_other_installation(folder, monkeypatch):
    monkeypatch.setattr(Path, "glob", lambda self, pattern: [self / pattern])
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.setenv("LD_LIBRARY_PATH", os.pathsep.join([folder, "/opt/other/lib"]))
    assert find_foreign_libraries() == [("LD_LIBRARY_PATH", "/opt/other/lib/libstdc++.so.6")]
