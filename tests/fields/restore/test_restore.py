"""`plumbline restore` on small places: the file, its bands, who is refused, and that nothing is half written."""

import json
import re
import shutil
import xml.etree.ElementTree as ElementTree
from contextlib import ExitStack
from dataclasses import replace
from datetime import date
from pathlib import Path

import geopandas
import numpy as np
import pandas as pd
import pytest
import shapely

from plumbline.core.errors import InputError
from plumbline.fields.model.spread import read_spread
from plumbline.fields.prepare.grid import Grid, observe
from plumbline.fields.release.package import open_fields
from plumbline.fields.restore import outputs as style
from plumbline.fields.restore.areas import COLUMNS
from plumbline.fields.restore.field import BANDS, WINDOW, Box, cut_to_box, parse_box, restore_window
from plumbline.fields.restore.outputs import GRADIENTS
from plumbline.fields.restore.periods import check_observations
from plumbline.fields.restore.plan import RestoreOptions, plan_windows
from plumbline.fields.restore.restore import restore, restore_part, restore_windows
from plumbline.fields.simulate.scene import PLACE, SceneAbout, make_scene, write_scene
from plumbline.params import Ingest
from plumbline.serve.qgis.documents import MARK
from plumbline.serve.qgis.styles import field_style
from plumbline.sources.city.causes import read_causes
from plumbline.sources.city.in_memory import Reading, read_tracks
from plumbline.sources.city.window import Window
from plumbline.sources.crs import GLOBE, transformer
from tests.fields.prepare.made import PLACE as CORNER
from tests.fields.prepare.made import make_observations
from tests.refusals import refuses
from tests.tiny import run_cli

rasterio = pytest.importorskip("rasterio")
ABOUT = SceneAbout("plain-00003", "plain", "easy", 3, 2, 32, 10.0)
FIGURES = ("displacement_mm", "against_neighbours_mm")
QUICK = RestoreOptions(steps=2, samples=3)
HOLE = 100.0


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Two products with a hole in their middle, and footprints."""
    scene, folder = make_scene(ABOUT), tmp_path_factory.mktemp("place") / "products"
    tracks = []
    for track in scene.tracks:
        kept = np.hypot(*(track.east_north + 20).T) > HOLE
        changed = {name: getattr(track, name)[kept] for name in ("incidence_deg", "east_north", "height", "los")}
        series = track.displacement[kept]
        series[3] = np.nan
        tracks.append(replace(track, **changed, displacement=series))
    write_scene(replace(scene, tracks=tracks), folder)
    return folder


@pytest.fixture(scope="module")
def products(place):
    return sorted(place.glob("*.csv"))


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def left_in(folder):
    return sorted(path.name for path in folder.iterdir())


def read(path):
    with rasterio.open(path) as source:
        return {name: source.read(number) for number, name in enumerate(source.descriptions, 1)}, source.tags(), source


def footprints(folder, offset=0.0):
    east, north = np.meshgrid(np.arange(-140, 141, 40.0), np.arange(-140, 141, 40.0))
    boxes = [
        shapely.box(x - 12, y - 9, x + 12, y + 9)
        for x, y in zip(east.ravel() + PLACE[0] + offset, north.ravel() + PLACE[1], strict=True)
    ]
    path = folder / "houses.gpkg"
    ids = [f"h{number}" for number in range(len(boxes))]
    geopandas.GeoDataFrame({"building_id": ids}, geometry=boxes, crs="EPSG:3035").to_file(path)
    return path


@pytest.fixture(scope="module")
def restored(place, products, tiny_fields, tmp_path_factory):
    """A field, with the table of its buildings and its picture, in cells of which it takes several windows."""
    folder = tmp_path_factory.mktemp("restored")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        restore(
            products,
            tiny_fields.package,
            folder / "field.tif",
            replace(QUICK, cell_m=4.0),
            buildings=footprints(folder),
            buildings_output=folder / "table.csv",
            picture=folder / "field.png",
            areas=folder / "areas.gpkg",
        )
    return folder


def test_a_field_has_the_bands_of_the_contract(restored, products, tiny_fields):
    bands, tags, source = read(restored / "field.tif")
    assert list(bands) == [*BANDS, *GRADIENTS]
    assert list(bands)[:4] == ["up_mm", "up_std_mm", "up_low_mm", "up_high_mm"]
    assert np.isnan(source.nodata)
    assert source.crs.to_epsg() == 3035
    assert tags["PLUMBLINE_STEPS"] == "2"
    assert tags["PLUMBLINE_ADAPTERS"] == "none"
    assert tags["PLUMBLINE_MODEL"].startswith("plumbline-restoration ")
    los = json.loads(tags["PLUMBLINE_LOS"])
    assert los["west"][0] < 0 < los["east"][0]
    told = np.isfinite(bands["up_mm"])
    for name in ("up", "east", "los"):
        mean, std, low, high = (bands[f"{name}_{what}"] for what in ("mm", "std_mm", "low_mm", "high_mm"))
        seen = np.isfinite(mean)
        assert all((np.isfinite(part) == seen).all() for part in (std, low, high))
        assert (std[seen] > 0).all()
        assert (low[seen] < mean[seen]).all()
        np.testing.assert_allclose(high[seen] - mean[seen], mean[seen] - low[seen], rtol=1e-3, atol=1e-3)
    np.testing.assert_array_equal(told, np.isfinite(bands["east_mm"]))
    slope, low, high = (bands[name] for name in GRADIENTS)
    seen = np.isfinite(slope)
    assert 0.8 * told.sum() < seen.sum() < told.sum()  # less those beside cells without a value
    assert all((np.isfinite(part) == seen).all() for part in (low, high))
    assert (low[seen] >= 0).all()
    assert (low[seen] <= slope[seen]).all()
    assert (slope[seen] < high[seen]).all()
    np.testing.assert_allclose((slope - low)[low > 0], (high - slope)[low > 0], rtol=1e-3, atol=1e-4)
    assert not (np.isfinite(bands["los_mm"]) & told).any()
    slope = np.hypot(*np.gradient(bands["up_mm"], 4.0))
    np.testing.assert_allclose(bands["gradient_mm_m"], slope, rtol=1e-4, atol=1e-5)
    # What is told is near points, and what is near points is told.
    farthest = read_spread(tiny_fields.package / "spread.json").farthest_m
    found = observe(read_tracks(products))
    grid = Grid(source.bounds.left, source.bounds.top, 4.0, source.height, source.width)
    east, north = np.meshgrid(grid.eastings, grid.northings)
    away = np.max(
        [
            np.hypot(east[..., None] - own[:, 0], north[..., None] - own[:, 1]).min(axis=-1)
            for own in (found.east_north[found.side == side] for side in (0, 1))
        ],
        axis=0,
    )
    assert told[away < farthest - 5].all()
    assert (away > farthest + 5).any()
    assert not told[away > farthest + 5].any()


def test_buildings_are_read_off_and_a_picture_is_drawn(restored):
    table = pd.read_csv(restored / "table.csv")
    assert len(table) == 64
    ends = [f"{name}{end}" for name in FIGURES for end in ("", "_low", "_high")]
    # No tilt and no strain: a field does not resolve them, however narrow their interval is.
    assert list(table) == ["building_id", "restored", "direction", *ends]
    page = (Path(__file__).parents[3] / "docs" / "restoration.md").read_text("utf-8")
    section = page.split("## The table of footprints\n")[1].split("\n## ")[0]
    assert re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE) == ["restored", "direction", *FIGURES]
    told = table[table["restored"]]
    name = FIGURES[0]
    assert (told[f"{name}_low"] <= told[name]).all()
    assert (told[name] <= told[f"{name}_high"]).all()
    assert table[name].isna().eq(~table["restored"]).all()
    against = told[told["against_neighbours_mm"].notna()]
    assert len(against) > 0.5 * len(told)
    assert (against["against_neighbours_mm_low"] < against["against_neighbours_mm"]).all()
    assert (against["against_neighbours_mm"] < against["against_neighbours_mm_high"]).all()
    assert (restored / "field.png").read_bytes()[:4] == b"\x89PNG"
    assert left_in(restored) == ["areas.gpkg", "field.png", "field.qml", "field.tif", "houses.gpkg", "table.csv"]
    assert not (restored / ".plumbline").exists()


def test_areas_are_causes_for_predict(restored):
    areas = geopandas.read_file(restored / "areas.gpkg", layer="moving_areas")
    assert geopandas.read_file(restored / "areas.gpkg", layer="layer_styles")["f_table_name"].tolist() == [
        "moving_areas"
    ]
    assert tuple(areas.columns) == COLUMNS
    assert areas.crs.to_epsg() == 3035
    assert len(areas)
    assert [about[0] for about in read_causes(restored / "areas.gpkg", {}).about] == areas["name"].tolist()


def test_the_style_beside_it_ends_where_the_field_does(restored):
    bands, *_ = read(restored / "field.tif")
    told = bands["up_mm"][np.isfinite(bands["up_mm"])]
    shader = ElementTree.parse(restored / "field.qml").find("pipe/rasterrenderer/rastershader/colorrampshader")
    ends = [float(shader.get(name)) for name in ("minimumValue", "maximumValue")]
    wanted = np.abs(np.percentile(told, [2, 98])).max()
    assert ends == pytest.approx([-wanted, wanted], rel=1e-4)


def degrees_of(bounds):
    return Box(*transformer("EPSG:3035", GLOBE).transform_bounds(*bounds))


def test_a_part_agrees_with_the_whole(restored, products, tiny_fields, here, caplog):
    bands, _, whole = read(restored / "field.tif")
    left, bottom, right, top = whole.bounds
    wanted = (left + 0.4 * (right - left), bottom + 0.1 * (top - bottom), left + 0.7 * (right - left), bottom + 100)
    options = replace(QUICK, cell_m=4.0, bbox=degrees_of(wanted))
    everything = len(plan_windows(products, tiny_fields.package, replace(options, bbox=None)).jobs)
    shutil.rmtree(".plumbline")
    with caplog.at_level("INFO", "plumbline"):
        restore(
            products, tiny_fields.package, here / "part.tif", options,
            buildings=footprints(here), buildings_output=here / "part.csv",
        )  # fmt: skip
    part, _, source = read(here / "part.tif")
    assert source.crs.to_epsg() == 3035
    for found, edge, sign in zip(source.bounds, wanted, (1, 1, -1, -1), strict=True):
        assert 0 <= sign * (edge - found) <= 12  # the rectangle around a box that is turned a little, in whole cells
    row, column = round((top - source.bounds.top) / 4), round((source.bounds.left - left) / 4)
    cells = (slice(row, row + source.height), slice(column, column + source.width))
    for name in ("up", "east"):
        middle, low, high = (bands[f"{name}_{end}"][cells] for end in ("mm", "low_mm", "high_mm"))
        # A few windows of its own have other samples: none tells another movement.
        apart = np.abs(part[f"{name}_mm"] - middle) / ((high - low) / 2)
        np.testing.assert_array_equal(np.isfinite(part[f"{name}_mm"]), np.isfinite(middle))
        assert np.nanmean(apart) < 0.5
    said = next(text for text in caplog.messages if text.startswith("restore: "))
    assert f"({source.width} x {source.height} cells)" in said
    assert 0 < int(said.split()[1]) < everything
    table = pd.read_csv(here / "part.csv").set_index("building_id")
    before = pd.read_csv(restored / "table.csv").set_index("building_id")
    assert 0 < len(table) < len(before)
    pd.testing.assert_frame_equal(table, before.loc[table.index])


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("1,2,3", "bbox.not_four_numbers"),
        ("1,2,3,x", "bbox.not_four_numbers"),
        ("nan,1,2,3", "bbox.not_degrees"),
        ("4599290,1741320,4600200,1742140", "bbox.not_degrees"),
        ("13,38,14,95", "bbox.latitude_out_of_range"),
        ("14,38,13,39", "bbox.reversed"),
        ("13,39,14,38", "bbox.reversed"),
    ],
)
def test_what_is_no_box_is_refused(text, key):
    with refuses(key, f"--bbox {text}:", "WEST,SOUTH,EAST,NORTH"):
        parse_box(text)
    assert parse_box(" 13.1, 38,14,39") == (13.1, 38, 14, 39)


def test_a_box_without_points_says_where_they_are(products, tiny_fields, here):
    for box in (Box(-75, 40, -74, 41), Box(10.0, 51.9, 10.00001, 51.90001)):
        with refuses("bbox.no_points", f"--bbox {box}:", " in 9.99", "(WEST,SOUTH"):
            restore(products, tiny_fields.package, here / "a.tif", replace(QUICK, bbox=box))
    assert left_in(here) == []


@pytest.mark.parametrize(("before", "kept"), [(None, False), (MARK, False), ("<qgis>mine</qgis>", True)])
def test_a_style_of_somebody_else_is_kept(here, before, kept):
    path = here / "my.field.qml"
    if before:
        path.write_text(before)
    with ExitStack() as staged:
        style.write_style(2.0, staged, here / "my.field.tif")
    assert path.read_text() == (before if kept else field_style(2.0))
    assert left_in(here) == ["my.field.qml"]


def test_a_run_that_was_cut_goes_on_and_gives_the_same(restored, products, tiny_fields, here):
    options = replace(QUICK, cell_m=4.0)
    plan = plan_windows(products, tiny_fields.package, options)
    assert len(plan.jobs) >= 4
    for job in plan.jobs[1:3]:
        restore_part(job)
    restore(products, tiny_fields.package, here / "field.tif", options)
    (one, *_), (other, *_) = read(restored / "field.tif"), read(here / "field.tif")
    for name, values in one.items():
        np.testing.assert_array_equal(other[name], values)
    assert not (here / ".plumbline").exists()


def test_windows_of_other_settings_are_not_taken(products, tiny_fields, here):
    folders = [
        plan_windows(products, tiny_fields.package, options, reading).work
        for options, reading in (
            (QUICK, Reading()),
            (replace(QUICK, seed=1), Reading()),
            (replace(QUICK, adapters=("noise",)), Reading()),
            (QUICK, Reading(Ingest(min_coherence=0.2))),
            (QUICK, Reading(window=Window(until=date(2100, 1, 1)))),
        )
    ]
    assert len(set(folders)) == len(folders)


def test_one_direction_gives_its_line_of_sight(products, tiny_fields, here):
    field = restore(products[:1], tiny_fields.package, here / "one.TIF", replace(QUICK, adapters=("noise",)))
    bands, tags, _ = read(here / "one.TIF")
    assert list(bands) == ["los_mm", "los_std_mm", "los_low_mm", "los_high_mm", *GRADIENTS]
    assert np.isfinite(bands["los_mm"]).any()
    assert tags["PLUMBLINE_ADAPTERS"] == "noise"
    assert len(json.loads(tags["PLUMBLINE_LOS"])) == 1
    level = np.nanmean(bands["los_mm"]) - field.observations.change.mean()
    assert abs(level) < 3 * field.observations.change.std()


def test_the_samples_depend_on_the_seed_alone(products, tiny_fields, here):
    field = plan_windows(products, tiny_fields.package, QUICK).field
    window = field.full_grid.window(0, 0, WINDOW, WINDOW)
    one, same, other = (
        restore_window(field.observations, window, field.package.model, replace(field.settings, seed=seed)).samples
        for seed in (0, 0, 1)
    )
    for name in ("up", "east"):
        np.testing.assert_array_equal(one[name], same[name])
        assert not np.array_equal(one[name], other[name])


def line_of(found):
    return replace(found, east_north=found.east_north * [1, 0] + np.outer(found.east_north[:, 0], [0, 0.5]))


def test_windows_in_threads_are_those_one_after_the_other_and_the_run_is_opened_once(
    restored, products, tiny_fields, here, monkeypatch
):
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    opened = []
    monkeypatch.setattr(
        "plumbline.fields.restore.restore.open_fields", lambda *a, **b: opened.append(a) or open_fields(*a, **b)
    )
    plan = plan_windows(products, tiny_fields.package, replace(QUICK, cell_m=5.0))
    assert len(plan.jobs) > 1
    restore_windows(plan.jobs)
    threaded = [np.load(job.folder / "bands.npy") for job in plan.jobs]
    for job in plan.jobs:
        shutil.rmtree(job.folder)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    restore_windows(plan.jobs)
    assert len(opened) == 1
    for before, job in zip(threaded, plan.jobs, strict=True):
        np.testing.assert_array_equal(before, np.load(job.folder / "bands.npy"))


@pytest.fixture
def lattice(products, tiny_fields, here):
    """Points that both directions see at the same places, and the direction that is told where it sees one alone."""
    field = plan_windows(products, tiny_fields.package, QUICK).field
    place = 16.0 + 32 * np.stack(np.divmod(np.arange(400), 20), axis=1)
    found = make_observations(np.random.default_rng(0), 800)
    found = replace(found, track=found.side, east_north=CORNER + np.repeat(place, 2, axis=0))
    return field, found, found.side == field.settings.line_side


SQUARE = Grid(CORNER[0], CORNER[1] + 640, 10.0, 64, 64)


@pytest.mark.parametrize(("beyond_m", "told"), [(30.0, False), (150.0, True)])
def test_what_one_direction_sees_alone_is_told_unless_it_is_a_rim(lattice, beyond_m, told):
    field, found, line = lattice
    found = found.take(found.east_north[:, 0] < CORNER[0] + 300 + beyond_m * line)
    bands = restore_window(found, SQUARE, field.package.model, field.settings).bands
    assert np.isfinite(bands[BANDS.index("up_mm")]).sum() > 1000
    assert np.isfinite(bands[BANDS.index("los_mm")]).any() == told


def test_a_strip_within_the_map_that_one_direction_sees_alone_is_told(lattice):
    field, found, line = lattice
    settings = replace(field.settings, spread=field.settings.spread.model_copy(update={"farthest_m": 60.0}))
    found = found.take((np.abs(found.east_north[:, 0] - CORNER[0] - 320) > 70) | line)
    bands = restore_window(found, SQUARE, field.package.model, settings).bands
    widths = np.isfinite(bands[BANDS.index("los_mm")]).sum(axis=1)[8:-8]
    assert widths.min() >= 3
    assert widths.max() <= 5


@pytest.mark.parametrize(
    ("made", "key", "places"),
    [
        (lambda found: found.take(np.arange(1)), "points.too_few", ["a, b, c: 1 ", "8 needed"]),
        (lambda found: found.take(np.arange(7)), "points.too_few", ["7 points"]),
        (line_of, "points.in_one_line", ["a, b, c: ", "0 m wide", "30 m"]),
        (lambda found: replace(found, east_north=0 * found.east_north), "points.in_one_line", []),
        (
            lambda found: replace(found, east_north=found.east_north + 5000.0 * (found.track == 2)[:, None]),
            *("tracks.different_places", ["b and c"]),
        ),
    ],
)
def test_points_that_make_no_field_are_refused(made, key, places):
    """The first track was left out, and is not blamed."""
    found = make_observations(np.random.default_rng(0), 40)
    found = replace(found, track=found.track + 1)
    check_observations(found, ["a", "b", "c"])
    with refuses(key, *places):
        check_observations(made(found), ["a", "b", "c"])


def rows_of(path, rows):
    lines = path.read_text().splitlines(keepends=True)
    return lines[0] + "".join(lines[1:][row] for row in rows)


def test_bad_input_leaves_nothing_behind(products, place, tiny_fields, here, monkeypatch):
    few = here / "few"
    few.mkdir()
    for number, rows in enumerate(([], [0], range(6))):
        (few / products[number % 2].name).write_text(rows_of(products[number % 2], rows))
        points = [few / products[number % 2].name]
        with pytest.raises(InputError):
            restore(points, tiny_fields.package, here / "a.tif", QUICK)
    houses = footprints(here)
    usual = {"points": products, "package": tiny_fields.package, "output": here / "a.tif", "options": QUICK}
    for changes, key, text in (
        ({"output": here / "a.png"}, "output.other_format", "--output"),
        ({"output": products[0].with_suffix(".tif"), "picture": products[0]}, "output.is_input", products[0]),
        ({"areas": products[0]}, "output.is_input", products[0]),
        ({"picture": here / "a.tif"}, "output.repeated_name", here / "a.tif"),
        ({"options": replace(QUICK, steps=41)}, "steps.out_of_range", "--steps 41:"),
        ({"options": replace(QUICK, adapters=("sparse",))}, "adapter.missing", "--adapter sparse:"),
    ):
        with refuses(key, text):
            restore(**usual | changes)
    for changes, text in (({"package": here}, here.name), ({"points": [here / "none.csv"]}, r"none\.csv")):
        with pytest.raises(InputError, match=text):
            restore(**usual | changes)
    with monkeypatch.context() as patch:
        patch.setattr("plumbline.fields.restore.plan.MAX_CELLS", 100)
        with refuses("grid.too_many_cells", "--cell 10:"):
            restore(**usual)
    far = footprints(few, offset=90_000.0)
    with refuses("footprints.none_in_field", far):
        restore(**usual, buildings=far, buildings_output=here / "b.csv", picture=here / "c.png")
    assert houses.exists()
    # The windows of the last are done, and a run with the right footprints takes them.
    assert left_in(here) == [".plumbline", "few", "houses.gpkg"]
    assert sorted(path.name for path in place.iterdir() if path.name.startswith(".")) == []


def test_the_command_says_what_it_wrote(products, tiny_fields, here):
    command = ("restore", "--points", *products, "--model", tiny_fields.package, "--steps", 2, "--samples", 2)
    ended = run_cli(*command, "--output", "f.tif", cwd=here)
    assert ended.code == 0, ended.err
    assert "f.tif:" in ended.err
    for more, said in (
        (("--output", "f.tif", "--bbox", "14,38,13,39"), "WEST must be less than EAST"),
        (("--output", "f.tif", "--buildings", "a.gpkg"), "give both, or neither"),
        (("--output", "f.tif", "--buildings", "a.gpkg", "--buildings-output", "b.xls"), "one of .csv"),
        (("--output", "f.tif", "--areas", "a.shp"), "one of .gpkg, .geojson"),
        (("--output", "g.tif", "--buildings", "a.gpkg", "--buildings-output", "b.csv"), "a.gpkg"),
    ):
        ended = run_cli(*command, *more, cwd=here)
        assert (ended.code, said in " ".join(ended.err.split())) == (2, True)
    assert left_in(here) == ["f.qml", "f.tif"]
    assert open_fields(tiny_fields.package).manifest.name == "plumbline-restoration"


@pytest.mark.parametrize("box", [(179.9995, 180.0005), (-180.0005, -179.9995), (179.9995, -179.9995)])
def test_a_box_across_180_degrees_is_found_however_it_is_counted(box):
    crs, east, north = "EPSG:32760", 819_787.0, 8_140_000.0
    grid = Grid(east - 200, north + 200, 10.0, 40, 40)
    options = parse_box(f"{box[0]},-17,{box[1]},-16")
    part = cut_to_box(grid, crs, options, np.array([[east - 150, north], [east, north], [east + 150, north]]))
    assert part.rows == 40
    assert part.left == pytest.approx(east - 54, abs=15)
    assert part.columns * part.cell_m == pytest.approx(107, abs=15)
