"""Whether the code still answers as it did: record its answers before a change, compare them after it.

    python -m benchmarks.unchanged FOLDER [--shared PATH]

Records into FOLDER where it is empty, else compares with what it holds, and ends with 1 where an answer is another one.
PATH holds `cases` (files as people have them, each folder with the command of a user) and `data` (real products).
An answer is how a command ended (right, warned, refused), its files to the byte, and the verdict of each gate of the
checkout. What a command says is compared apart: other words are shown, and are no failure. Floats are those of one
machine: a record holds on the machine that made it. Left out are the cases `gpkg-open-in-qgis` and `pipeline-proxy`,
which need another program.
"""

from __future__ import annotations

import base64
import datetime
import gzip
import json
import multiprocessing
import os
import re
import sqlite3
import sys
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from itertools import zip_longest
from pathlib import Path

import rasterio

from benchmarks.common import ROOT, head, line, parse, parser, stamp
from tests.tiny import run_cli

WORKERS = 2
"""Commands that run side by side."""
SHOWN = 50
"""Characters of a line that are shown from where it differs."""
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "OGR_CURRENT_DATE": "2000-01-01T00:00:00.000Z", "COLUMNS": "120"}
"""What a command's bytes depend on besides its files: threads, the date in a GeoPackage, the width of a terminal."""
SHORT = {
    "POINTS": "--points ../base/asc.csv ../base/des.csv",
    "POINTS3": "--points ../base3/asc.csv ../base3/des.csv",
    "HOUSES": "--buildings ../base/fp.gpkg --output o.csv",
    "HOUSES3": "--buildings ../base3/fp.gpkg --output o.csv",
    "USTICA": "--points ../data/ustica/EGMS_L2b_*.zip",
}
"""Words of `COMMANDS` that stand for several."""
COMMANDS = {
    "base/csv": "predict POINTS HOUSES",
    "base/geojson": "predict POINTS --buildings fp.gpkg --output o.geojson",
    "base/gpkg and map": "predict POINTS --buildings fp.gpkg --output o.gpkg --map o.html",
    "base/field": "restore POINTS --output o.tif --steps 5 --samples 4 --buildings fp.gpkg --buildings-output o.csv",
    "base/inspect": "inspect asc.csv des.csv fp.gpkg",
    "base/report": "report POINTS --buildings fp.gpkg --top 3 --output o.html",
    "base3/csv": "predict POINTS3 HOUSES3",
    "base/ustica": "predict USTICA --buildings ../data/ustica/footprints_synthetic.geojson --output o.csv",
    **{
        f"adv-names/{name}": f"predict --points asc.csv des.csv --buildings {name} --output o.csv"
        for name in ("fp.gpkg", "city_adv.gml", "wfs_adv.gml", "wfs_epsg.gml", "city_zone.gml", "wfs_zone.gml")
    },
    **{
        f"adv-names/{name} with crs": f"predict --points asc.csv des.csv --buildings {name} --output o.csv"
        " --params crs.yaml"
        for name in ("wfs_adv.gml", "city_zone.gml", "wfs_zone.gml")
    },
    **{
        f"{name}": f"predict POINTS --buildings {name.partition('/')[2]} --output o.csv"
        for name in (
            "building-parts/nested.gpkg",
            "building-parts/osm_parts.geojson",
            "building-parts/theme=buildings",
            "footprint-folders/shp",
            "footprint-folders/town.gdb",
            "footprint-folders/type=building",
            "google-open-buildings/google_13b.csv.gz",
            "messages/overpass.json",
            "messages/wfs3035_deegree.gml",
            "projected-geojson/proj.geojson",
            "wfs-page/oapif_page.geojson",
            "wfs-page/wfs4326_page.gml",
            "wfs-page/wfs_page.geojson",
        )
    },
    "dbf-255/csv": "predict --points ts_asc.shp ts_des.shp HOUSES3 --params my.yaml",
    "egms-missing-height/inspect": "inspect asc.csv",
    "egms-missing-height/inspect with params": "inspect asc.csv --params my.yaml",
    "fiji-geojson/geojson": "predict --points fj_asc.csv fj_des.csv --buildings fp_fj.geojson --params my.yaml"
    " --output o.geojson",
    "footprint-folders/inspect": "inspect ../base/asc.csv ../base/des.csv type=building",
    "geometry-without-incidence/csv": "predict --points asc/timeseries.h5 HOUSES",
    "gpkg-stale-index/csv": "predict POINTS3 --buildings fp_stale_small.gpkg --output o.csv",
    "heading-is-look-azimuth/csv": "predict --points ts_asc.shp ts_des.shp HOUSES --params params.yaml",
    "industry-shapefile/csv": "predict --points ts_asc.shp ts_des.shp HOUSES",
    "industry-shapefile/csv with params": "predict --points ts_asc.shp ts_des.shp HOUSES --params ../dbf-255/my.yaml",
    **{
        name: f"compare POINTS3 HOUSES3 --levelling {name.partition('/')[2]}"
        for name in (
            "levels/clean.csv",
            "levels/clean_mm.csv",
            "levels/clean_nounit.csv",
            "levels-datum-column/datum.csv",
            "levels-datum-column/survey.csv",
            "levels-initial-then-change/height_and_change.csv",
            "levels-initial-then-change/increment.csv",
            "levels-initial-then-change/mixed_nounit.csv",
            "levels-initial-then-change/mixed_units.csv",
            "levels-rezeroed/rezero.csv",
            "levels-rezeroed/rezero_both.csv",
            "levels-words/words.csv",
        )
    },
    "levels-words/words.csv with params": "compare POINTS3 HOUSES3 --levelling words.csv --params my.yaml",
    "mintpy-azimuth-radians/csv": "predict --points asc/timeseries.h5 des/timeseries.h5 HOUSES",
    "mojibake-ids/csv": "predict POINTS --buildings enc.shp --id-column NAME --output o.csv",
    "no-final-newline/csv": "predict --points noeol_asc.csv noeol_des.csv HOUSES --params params.yaml",
    "osgb-grid/csv": "predict --points asc.csv des.csv --buildings fp27700.gpkg --output o.csv",
    "osgb-grid/true": "predict --points asc.csv des.csv --buildings fp_true.gpkg --output o.csv",
    "osgb-grid/degrees": "predict --points ll_asc.csv ll_des.csv --buildings fp27700.gpkg --params my.yaml"
    " --output o.csv",
    "projected-geojson/footprints": "predict POINTS --buildings proj.geojson --params footprints.yaml --output o.csv",
    "projected-geojson/points": "predict --points pj_asc.geojson HOUSES --params points.yaml",
    "repeated-option/buildings": "predict POINTS --buildings north.gpkg --buildings south.gpkg --output o.csv",
    "report-cjk/pdf": "report POINTS3 --buildings fp.gpkg --top 9 --output o.pdf",
    "score-aws-temp/score": "score --model pretrained --params my.yaml",
    "spreadsheet-ids/csv": "predict --points xid_asc.csv xid_des.csv HOUSES --params params.yaml",
    "trailing-separator/csv": "predict --points trail_asc.csv trail_des.csv HOUSES --params params.yaml",
    "yaml-leading-zero/angles": "predict --points t_asc.csv t_des.csv --buildings fp.gpkg --params angles_plain.yaml"
    " --output o.csv",
    "yaml-leading-zero/angles right": "predict --points t_asc.csv t_des.csv --buildings fp.gpkg"
    " --params angles_right.yaml --output o.csv",
    "yaml-leading-zero/score": "score --model pretrained --params plain.yaml",
    "yaml-leading-zero/score quoted": "score --model pretrained --params quoted.yaml",
}
"""The commands of users: folder of `cases` in which each runs, and a name -> words after `plumbline`."""
SMOKE = ("footprint-folders/inspect", "messages/overpass.json")
"""Commands of a smoke run, on the cases of the tests."""
READ = (".csv", ".geojson", ".gpkg", ".html", ".tif")
"""Ends of the files that are compared; others, as a PDF and the record of MLflow, hold when they were made."""
PASSING = re.compile(rf"{datetime.date.today()}(T[\d:]+\+00:00)?|(?<= in )\d+ s|INFO [^\n]*, about [^\n]* left\n")
"""What a text holds of the day and the speed of a run."""
PRELOADED = ["tests.tiny", "plumbline.serve.compare.run", "plumbline.serve.report.run", "plumbline.serve.score.run"]
PRELOADED += ["plumbline.serve.predict", "plumbline.fields.restore", "plumbline.serve.inspect", "rasterio"]
"""What is imported once for all commands: each takes seconds."""
Answers = dict[str, tuple[list[str], list[str]]]
"""Name of a command, or of a gate's file -> lines of its answer, and of what it said."""


def run_command(name: str, shared: Path) -> tuple[list[str], list[str]]:
    """Run a command in a folder with links to its case; return the lines of its answer, and of what it said."""
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch).resolve()
        folder = root / name.partition("/")[0]
        for path in (*(shared / "cases").iterdir(), shared / "data"):
            if path.name != folder.name:
                (root / path.name).symlink_to(path)
        folder.mkdir()
        for path in (shared / "cases" / folder.name).iterdir():  # no copies: `score` waits for files that are new
            (folder / path.name).symlink_to(path)
        given = set(folder.rglob("*"))
        words = " ".join(SHORT.get(word, word) for word in COMMANDS[name].split()).split()
        try:
            ended = run_cli(*words, cwd=folder)
        except Exception as error:  # a fault of Plumbline: an answer, too
            return [f"failed: {type(error).__name__}"], [str(error)]
        outcome = "refused" if ended.code else "warned" if "WARNING" in ended.err else "right"
        answer = [f"{outcome}, exit code {ended.code}", *_without(ended.out, root, shared)]
        for path in sorted(set(folder.rglob("*")) - given):
            if path.suffix in READ:
                answer += [f"file {path.relative_to(folder)}", *_without("\n".join(read_lines(path)), root, shared)]
        return answer, _without(ended.err, root, shared)


def _without(text: str, *folders: Path) -> list[str]:
    """Return the lines of a text without what each run or checkout has of its own: folders, the day, the speed."""
    for folder in (*folders, ROOT):
        text = text.replace(f"{folder}/", "")
    return PASSING.sub("", text).splitlines()


def read_lines(path: Path) -> Iterable[str]:
    """Return what a file holds, line by line: rows of a GeoPackage, cells of a raster, the document of a map."""
    if path.suffix == ".gpkg":
        with closing(sqlite3.connect(path)) as database:
            return list(database.iterdump())
    if path.suffix == ".tif":
        with rasterio.open(path) as raster:
            return [f"{raster.profile}", *(" ".join(map(str, row)) for band in raster.read() for row in band)]
    text = path.read_bytes().decode("utf-8", "backslashreplace")
    document = re.search(r'<script type="application/gzip" id="document">(.*?)</script>', text)
    if document:
        return json.dumps(json.loads(gzip.decompress(base64.b64decode(document[1]))), indent=0).splitlines()
    return text.split("\n")


def read_verdicts(path: Path) -> list[str]:
    """Return the verdict of each rule of a `gate.json`."""
    report = json.loads(path.read_text(encoding="utf-8"))
    about = ("metric", "artifact", "slice", "kind")
    rules = [f"{' '.join(str(rule.get(key, '')) for key in about)}: {rule['passed']}" for rule in report["rules"]]
    return [f"verdict: {report['verdict']}", *rules]


def collect(shared: Path, names: Sequence[str]) -> Answers:
    """Run the commands, each in a fresh process; return all answers."""
    os.environ.update(ENVIRONMENT)
    context = multiprocessing.get_context("forkserver")  # which loads the libraries once
    context.set_forkserver_preload(PRELOADED)
    with ProcessPoolExecutor(WORKERS, context, max_tasks_per_child=1) as pool:
        runs = {name: pool.submit(run_command, name, shared) for name in names}
        answers = {name: run.result() for name, run in runs.items()}
    gates = [folder / "metrics" / "gate.json" for folder in (ROOT, ROOT / "restoration")]
    return answers | {str(path.relative_to(ROOT)): (read_verdicts(path), []) for path in gates if path.is_file()}


def first_difference(before: Sequence[str], now: Sequence[str]) -> str:
    """Return the first line that differs, from a little before where it does; nothing where none does."""
    for number, (was, is_now) in enumerate(zip_longest(before, now, fillvalue=""), 1):
        if was != is_now:
            pairs = enumerate(zip_longest(was, is_now))
            at = max(next(at for at, pair in pairs if pair[0] != pair[1]) - 10, 0)
            cells = (part[at : at + SHOWN].replace("|", "/") for part in (was, is_now))
            return f"line {number}: " + " → ".join(f"`{cell}`" for cell in cells)
    return ""


def compare(before: Answers, now: Answers) -> bool:
    """Print what each command answered before and now; return whether an answer is another one."""
    print(head("command", "lines", "answer", "text", "first difference"))
    changed = False
    for name in sorted(before | now):
        pairs = zip(before.get(name, ([], [])), now.get(name, ([], [])), strict=True)
        answer, text = (first_difference(*pair) for pair in pairs)
        changed |= bool(answer)
        words = ("changed" if difference else "unchanged" for difference in (answer, text))
        print(line(name, len(now.get(name, ([],))[0]), *words, answer or text or "–"))
    return changed


def main(argv: Sequence[str] | None = None) -> int:
    """Record or compare; return 1 if an answer is another one."""
    asked = parser("unchanged", __doc__)
    asked.add_argument("folder", type=Path, nargs="?", help="of the record: written where it is empty")
    asked.add_argument("--shared", type=Path, default=ROOT.parent / "shared", help="folder with cases/ and data/")
    given = parse(asked, argv, shared=ROOT / "tests" / "fixtures")
    shared = given.shared.resolve()
    if not given.smoke and (given.folder is None or not (shared / "cases").is_dir()):
        asked.error(f"a folder for the record is needed, and {shared / 'cases'}")
    now = collect(shared, SMOKE if given.smoke else list(COMMANDS))
    print(f"{stamp()}\n")
    if given.smoke:
        return int(compare(now, now))
    record = given.folder / "answers.json"
    if record.is_file():
        return int(compare(json.loads(record.read_text(encoding="utf-8")), now))
    given.folder.mkdir(parents=True, exist_ok=True)
    record.write_text(json.dumps(now, indent=0), encoding="utf-8")
    print(f"{record}: {len(now)} answers recorded.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
