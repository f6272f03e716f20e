"""Run a command of GDAL that a message advises, where GDAL's programs are not installed by pyogrio."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import geopandas
import pytest

VALUED = ("-nlt", "-a_srs")
FLAGS = ("-makevalid", "-explodecollections")


def run_advised(message: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Run the `ogr2ogr` of a message in a folder; returns what it has written."""
    (command,) = re.findall(r"`(ogr2ogr [^`]+)`", message)
    program, *words = shlex.split(command)
    monkeypatch.chdir(folder)
    if shutil.which(program):
        subprocess.run([program, *words], check=True, capture_output=True)
        return folder / next(word for word in words if word.startswith("OUT."))
    options = [(words[at], words[at + 1]) for at in range(len(words) - 1) if words[at] in VALUED]
    taken = {value for _, value in options}
    out, source, *layer = [word for word in words if word not in (*VALUED, *FLAGS) and word not in taken]
    given = dict(options)
    if given.get("-nlt"):  # as the program does on the way
        line = f'gdal vector pipeline ! read "{source}" ! set-geom-type --geometry-type {given["-nlt"]}'
        Path("in.gdalg.json").write_text(json.dumps({"type": "gdal_streamed_alg", "command_line": line}))
        source = "in.gdalg.json"
    frame = geopandas.read_file(source, layer=layer[0] if layer else None)
    if "-a_srs" in given:
        frame = frame.set_crs(given["-a_srs"], allow_override=True)
    if "-makevalid" in words:
        frame.geometry = frame.make_valid()
    if "-explodecollections" in words:
        frame = frame.explode()
    frame.to_csv(out, index=False) if out.endswith(".csv") else frame.to_file(out)
    return folder / out
