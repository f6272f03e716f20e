"""Measure the map's page: the size of a large city's file, the time to its first picture, and frames while it moves.

`python -m benchmarks.map_page` makes a city up and opens its map in headless Chromium, which draws without a GPU. Needs
`make web`. Prints Markdown; `docs/benchmarks` keeps dated copies. `--pictures FOLDER` writes the pictures of the docs.
"""

from __future__ import annotations

import contextlib
import io
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import geopandas
import numpy as np
import psutil
import shapely
from PIL import Image

from benchmarks.common import head, line, parse, parser, stamp
from plumbline.params import Prepare
from plumbline.prepare.abstention import STATUSES, UNSURE_WHERE, explanations
from plumbline.serve.base_rate import fixed_rate
from plumbline.serve.judgement import Judged
from plumbline.serve.map.page import write_map
from plumbline.serve.predictions import make_predictions
from plumbline.sources.points.track import Track

FLAGS = ("--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--disable-gpu-compositing")
"""Chromium draws WebGL and the page on the CPU, as it does by itself on a machine without a GPU."""
WINDOW = {"width": 1400, "height": 900}
PHONE = {"width": 390, "height": 844}
EAST, NORTH, STEP_M = 500_000.0, 4_600_000.0, 25.0
CRS = "EPSG:32633"
BARS, FRAMES_A_SECOND = {"first picture, s": 3, "blank on the way to footprints, s": 1}, 30
"""At most, and at least."""
DRAWN = """async () => {
    // The page's policy forbids what Playwright's own waiting needs.
    while (!performance.getEntriesByName("map drawn").length) await new Promise(done => setTimeout(done, 20))
    return performance.getEntriesByName("map drawn")[0].startTime
}"""
NEAR = """async () => {
    const {map, far} = window.plumbline.view
    while (far() || map.isMoving() || !map.loaded()) await new Promise(done => setTimeout(done, 50))
}"""
GO = """async zoom => {
    const {map} = window.plumbline.view
    map.jumpTo({zoom})
    await new Promise(done => { map.once("idle", done); map.triggerRepaint() })
}"""
ENTER = """async zoom => {
    const {map} = window.plumbline.view, {width, height} = map.getContainer().getBoundingClientRect()
    const middle = [[width / 2 - 100, height / 2 - 100], [width / 2 + 100, height / 2 + 100]]
    const start = performance.now()
    let since = null, longest = 0, footprints = null
    const look = () => {
        const now = performance.now(), drawn = name => map.queryRenderedFeatures(middle, {layers: [name]}).length > 0
        if (footprints === null && drawn("footprints")) footprints = now - start
        if (drawn("footprints") || drawn("hexagons")) since = null
        else longest = Math.max(longest, now - (since ??= now))
    }
    map.on("render", look)
    map.easeTo({zoom, duration: 500})
    await new Promise(done => map.once("moveend", () => map.once("idle", done)))
    look()
    map.off("render", look)
    return {longest: longest / 1000, footprints: footprints / 1000}
}"""
PAN = """async seconds => {
    const {map} = window.plumbline.view
    let frames = 0
    const count = () => frames++
    map.on("render", count)
    const start = performance.now()
    map.panBy([500, 250], {duration: 1000 * seconds, easing: share => share})
    await new Promise(done => map.once("moveend", done))
    map.off("render", count)
    return {frames, rate: 1000 * frames / (performance.now() - start)}
}"""


def made_city(count: int) -> Judged:
    """Make up a city of houses in rows: one in twenty probably damaged, one in five not judged."""
    rng = np.random.default_rng(7)
    across = int(np.ceil(np.sqrt(count)))
    number = np.arange(count)
    middle = np.stack([EAST + STEP_M * (number % across), NORTH + STEP_M * (number // across)], axis=1)
    middle += rng.uniform(-3, 3, middle.shape)
    side = rng.uniform(7, 18, (count, 2)) / 2
    turn = rng.normal(0, 0.15, count) + 0.3 * np.sin(middle[:, 0] / 900)
    corner = np.array([(1, 1), (-1, 1), (-1, -1), (1, -1)]) * side[:, None, :]
    cos, sin = np.cos(turn)[:, None], np.sin(turn)[:, None]
    ring = np.stack([corner[..., 0] * cos - corner[..., 1] * sin, corner[..., 0] * sin + corner[..., 1] * cos], axis=2)
    names = [f"B{i:06d}" for i in number]
    buildings = geopandas.GeoDataFrame(
        {"building_id": names}, geometry=shapely.polygons(ring + middle[:, None, :]), crs=CRS
    )
    # Damage lies in a few bowls, as it would along a tunnel.
    bowls = rng.uniform(0, across * STEP_M, (6, 2)) + np.array([EAST, NORTH])
    away = np.min(np.linalg.norm(middle[:, None, :] - bowls, axis=2), axis=1)
    severity = np.exp(rng.normal(-1.6, 0.6, count)) * (1 + 14 * np.exp(-((away / 220) ** 2)))
    p_damaged = 1 / (1 + np.exp(-4 * (severity - 0.9)))
    category = np.searchsorted((0.5, 0.75, 1.5, 3.0), severity, side="right")
    rest = np.zeros((count, 5))
    rest[number, np.maximum(category, 1)] = p_damaged
    rest[:, 0] = 1 - p_damaged
    status = np.array(STATUSES, object)[rng.choice(3, count, p=(0.8, 0.17, 0.03))]
    reason = np.where(status == STATUSES[1], "noisy_points", status).astype(object)
    reason[(status == STATUSES[1]) & (rng.random(count) < 0.2)] = UNSURE_WHERE
    quadrant = rng.dirichlet((0.6, 0.6, 0.6, 0.6), count)
    table = make_predictions(
        buildings,
        status.tolist(),
        reason.tolist(),
        rng.integers(6, 60, count),
        quadrant,
        quadrant.max(axis=1),
        severity,
        severity / 2,
        severity * 2,
        rest,
        np.tile([0.7, 0.1, 0.1, 0.05, 0.03, 0.02], (count, 1)),
        0.05,
        "made-up",
    )
    explanation = explanations(reason, Prepare(), np.full(count, 0.9))
    return Judged(table, explanation, fixed_rate(0.05))


def made_tracks(judged: Judged, epochs: int = 120) -> list[Track]:
    """Make up two tracks with one scatterer a building each."""
    place = shapely.get_coordinates(shapely.centroid(judged.table.geometry.to_numpy()))
    days = np.datetime64("2022-01-04") + np.arange(epochs) * np.timedelta64(6, "D")
    tracks = []
    for seed, (name, side) in enumerate({"ascending_117": -0.6, "descending_022": 0.6}.items()):
        rng = np.random.default_rng(seed)
        own = place + rng.uniform(-5, 5, place.shape)
        rate = -rng.gamma(1.2, 1.5, len(own))
        moved = rate[:, None] * np.linspace(0, 2, epochs) + rng.normal(0, 1.2, (len(own), epochs))
        los = np.tile([side, -0.1, np.sqrt(1 - side**2 - 0.01)], (len(own), 1))
        ids = np.array([f"{name}_{i}" for i in range(len(own))], object)
        tracks.append(Track(name, CRS, days, ids, *own.T, np.zeros(len(own)), los, moved.astype(np.float32)))
    return tracks


def draw(folder: Path, count: int) -> Path:
    """Write the map of a made-up city."""
    judged = made_city(count)
    path = folder / "map.html"
    write_map(judged, made_tracks(judged), path, f"Made-up city of {count:,} buildings")
    return path


def open_page(browser: Any, page: Path, size: dict[str, int] = WINDOW) -> tuple[Any, float]:
    """Open the map in a new window; return it and the seconds from the request to the first whole picture."""
    window = browser.new_page(viewport=size)
    window.goto(page.as_uri(), wait_until="commit")
    return window, window.evaluate(DRAWN) / 1000


def cpu_seconds() -> float:
    """Sum the CPU time of the browser's processes, all of which this one has started."""
    used = 0.0
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            times = process.cpu_times()
            used += times.user + times.system
    return used


def measure(browser: Any, page: Path, rounds: int, seconds: float) -> dict[str, float]:
    """Return the medians over `rounds` openings."""
    found: dict[str, list[float]] = {}
    for _ in range(rounds):
        before = cpu_seconds()
        window, drawn = open_page(browser, page)
        opening = cpu_seconds() - before
        near = window.evaluate("window.plumbline.view.near")
        start = window.evaluate("window.plumbline.view.map.getZoom()")
        result = {"first picture, s": drawn, "first picture, s of CPU": opening}
        way = window.evaluate(ENTER, near + 0.05)
        result |= {"until footprints, s": way["footprints"], "blank on the way to footprints, s": way["longest"]}
        for name, zoom in (("hexagons", start), ("all footprints", near + 0.05), ("a street", near + 2)):
            window.evaluate(GO, zoom)
            before = cpu_seconds()
            moved = window.evaluate(PAN, seconds)
            cost = (cpu_seconds() - before) / moved["frames"]
            result |= {f"{name}: frames a second": moved["rate"], f"{name}: ms of CPU a frame": 1000 * cost}
        for name, value in result.items():
            found.setdefault(name, []).append(value)
        window.close()
    return {name: statistics.median(values) for name, values in found.items()}


def picture(window: Any, path: Path) -> None:
    """Write what is seen with 256 colours, so that the file stays small; an octree keeps those of the legend."""
    seen = Image.open(io.BytesIO(window.screenshot())).convert("RGB")
    seen.quantize(256, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE).save(path, optimize=True)


def pictures(browser: Any, page: Path, folder: Path) -> None:
    """Write the pictures of the docs: the whole city, and one building with its details."""
    folder.mkdir(parents=True, exist_ok=True)
    window, _ = open_page(browser, page)
    picture(window, folder / "map-hexagons.png")
    for name, size in (("map-building.png", WINDOW), ("map-phone.png", PHONE)):
        window, _ = open_page(browser, page, size)
        window.locator(".list").focus()
        window.keyboard.press("ArrowDown")
        window.evaluate(NEAR)
        picture(window, folder / name)


def main(argv: Sequence[str] | None = None) -> None:
    """Print the table, or write the pictures."""
    made = parser("map_page", __doc__)
    made.add_argument("--buildings", type=int, default=50_000)
    made.add_argument("--rounds", type=int, default=3, help="openings; medians are printed")
    made.add_argument("--seconds", type=float, default=4.0, help="of each movement")
    made.add_argument("--pictures", type=Path, help="folder for the pictures of the docs, in place of the table")
    given = parse(made, argv, buildings=200, rounds=1, seconds=0.3)
    chromium = shutil.which("chromium")
    if chromium is None:
        sys.exit("no Chromium found: install the package `chromium`")
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as folder, sync_playwright() as play:
        begun = time.monotonic()
        page = draw(Path(folder), given.buildings)
        written = time.monotonic() - begun
        browser = play.chromium.launch(executable_path=chromium, args=list(FLAGS))
        if given.pictures:
            pictures(browser, page, given.pictures)
            return
        found = measure(browser, page, given.rounds, given.seconds)
        print(stamp(f"{given.buildings:,} buildings", f"Chromium {browser.version}, no GPU"), "\n")
        print(head("figure", "measured", "bar"))
        print(line("file, MB", f"{page.stat().st_size / 1e6:.1f}", "30"))
        print(line("city made and map written, s", f"{written:.1f}", ""))
        for name, value in found.items():
            print(line(name, f"{value:.3g}", BARS.get(name, FRAMES_A_SECOND if "frames" in name else "")))
        browser.close()


if __name__ == "__main__":
    main()
