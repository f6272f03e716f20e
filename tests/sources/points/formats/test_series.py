import subprocess
import sys

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyproj import Transformer

from plumbline.core.errors import InputError
from plumbline.params import Product
from plumbline.sources.points.formats.hdf5 import PROBE
from plumbline.sources.points.formats.mintpy_geometry import VECTOR, Geometry
from plumbline.sources.points.read import is_product
from plumbline.sources.points.source import OUT_OF_ORDER
from tests.refusals import refuses, warned
from tests.sources.make import unless_refused
from tests.sources.points.opening import open_points, product_parts, read_points
from tests.sources.points.write_mintpy import COMMON, GEOCODED, NORTH, SHAPE, STEP, WEST, Stack, metres
from tests.sources.points.write_points import ANGLES, DAYS, UTM, assert_track, line_of_sight

PIXELS = [(row, column) for row in range(4) for column in range(3) if (row, column) not in ((1, 2), (3, 0))]
"""With data."""


def assert_is_stack(track, crs=UTM, heights=True, name="timeseries"):
    row, column = np.array(PIXELS).T
    longitude, latitude = WEST + STEP * (column + 0.5), NORTH - STEP * (row + 0.5)
    east, north = Transformer.from_crs("EPSG:4326", crs, always_xy=True).transform(longitude, latitude)
    assert (track.name, track.crs) == (name, crs)
    assert track.point_id.tolist() == [f"y{r}x{c}" for r, c in PIXELS]
    assert track.epochs.astype(str).tolist() == [f"{day[:4]}-{day[4:6]}-{day[6:]}" for day in DAYS]
    np.testing.assert_allclose(track.easting, east, atol=1e-6)
    np.testing.assert_allclose(track.northing, north, atol=1e-6)
    np.testing.assert_array_equal(track.height, row * 3 + column if heights else np.zeros(len(row)))
    np.testing.assert_allclose(track.los, np.tile(line_of_sight(), (len(row), 1)), atol=1e-6)
    np.testing.assert_allclose(track.displacement, 1000 * metres()[:, row, column].T, rtol=1e-6)
    assert dict(track.dropped) == {"no_data": 2}


def test_a_geocoded_stack_comes_back_in_mm_at_the_middles_of_its_pixels(tmp_path):
    path = Stack().write(tmp_path / "timeseries.h5")
    track = read_points(path)
    assert_is_stack(track)
    row, column = np.array(PIXELS).T
    np.testing.assert_allclose(track.coherence, (row * 3 + column) / 11, rtol=1e-6)
    assert is_product(path)
    assert product_parts(path) == [(0, None)]


@pytest.mark.parametrize("size", [512, 65536])
def test_a_stack_behind_a_block_of_the_user_s_is_read(tmp_path, size):
    path = Stack().write(tmp_path / "timeseries.h5")
    with h5py.File(path) as plain, h5py.File(tmp_path / "block.h5", "w", userblock_size=size) as behind:
        for name in plain:
            plain.copy(name, behind)
        behind.attrs.update(plain.attrs)
    (tmp_path / "block.h5").replace(path)
    assert_is_stack(read_points(path))


@pytest.mark.parametrize("folder", ["", "inputs/", "../inputs/", "../"])
def test_a_stack_in_radar_coordinates_takes_places_from_its_geometry(tmp_path, folder):
    stack = Stack().to_radar()
    track = read_points(stack.write(tmp_path / "geo" / "timeseries_ERA5_demErr.h5", f"{folder}geometryRadar.h5"))
    assert_is_stack(track, name="timeseries_ERA5_demErr")


@pytest.mark.parametrize("rows", [1, 3])
def test_the_extent_of_a_stack_in_radar_coordinates_is_found_by_blocks_of_rows(tmp_path, monkeypatch, rows):
    windows, read = [], Geometry.read
    monkeypatch.setattr("plumbline.sources.points.formats.mintpy_geometry.BLOCK_ROWS", rows)
    monkeypatch.setattr(Geometry, "read", lambda self, window: windows.append(window) or read(self, window))
    stack = Stack().to_radar()
    stack.geometry["latitude"][0] = np.nan  # a block without places
    stack.geometry["longitude"][:2], stack.geometry["longitude"][2:] = 179.999, -179.9999
    assert open_points(stack.write(tmp_path / "t.h5", "geometryRadar.h5")).crs == "EPSG:32660"
    assert [window[0].stop for window in windows[: -(-SHAPE[0] // rows)]] == [*range(rows, SHAPE[0], rows), SHAPE[0]]


def test_a_stack_in_radar_coordinates_over_the_date_line_lies_in_a_zone_of_there(tmp_path):
    stack = Stack().to_radar()
    stack.geometry["longitude"] += 180 - STEP * 1.8 - WEST
    stack.geometry["longitude"][:, 2] -= 360
    track = read_points(stack.write(tmp_path / "t.h5", "geometryRadar.h5"))
    assert track.crs == "EPSG:32660"
    assert np.ptp(track.easting) < 30


def test_pixels_whose_place_or_angle_is_not_known_are_left_out(tmp_path):
    stack = Stack().to_radar()
    stack.geometry["latitude"][0, 0] = stack.geometry["longitude"][0, 0] = 0
    stack.geometry["latitude"][0, 1] = np.nan
    stack.geometry["incidenceAngle"][2, 2] = 0
    track = read_points(stack.write(tmp_path / "t.h5", "geometryRadar.h5"))
    assert track.point_id.tolist() == [f"y{r}x{c}" for r, c in PIXELS if (r, c) not in ((0, 0), (0, 1), (2, 2))]
    assert dict(track.dropped) == {"no_data": 5}


@pytest.mark.parametrize("code", [np.nan, -999, -9999, -32768])
def test_pixels_whose_height_is_not_known_are_left_out(tmp_path, code):
    """At 0 m they would move every height of their building, which counts from its lowest point."""
    stack = Stack()
    stack.geometry["height"][1, 1] = code
    track = read_points(stack.write(tmp_path / "timeseries.h5"))
    whole = read_points(Stack().write(tmp_path / "whole" / "timeseries.h5"))
    assert track.point_id.tolist() == [name for name in whole.point_id.tolist() if name != "y1x1"]
    assert dict(track.dropped) == {**whole.dropped, "no_height": 1}


def test_files_of_other_names_are_named_in_the_description(tmp_path):
    path = Stack().write(tmp_path / "ts.h5", "g.h5", "c.h5")
    with refuses("geometry.missing", path, "4 x 3", "inputs/"):
        read_points(path)
    track = read_points(path, {"ts.h5": Product(geometry="g.h5", coherence="c.h5", track="T88")})
    assert_is_stack(track, name="T88")
    assert track.coherence is not None
    with refuses("file.missing", "x.h5: ", "params.yaml", "ts.h5"):
        read_points(path, {"*": Product(geometry="x.h5")})


def test_a_geocoded_stack_needs_no_geometry_where_the_angles_are_stated(tmp_path, caplog):
    path = Stack().write(tmp_path / "timeseries.h5", geometry=None, coherence=None)
    with caplog.at_level("INFO", "plumbline"):
        track = read_points(path, {"*": Product(**ANGLES)})
    assert_is_stack(track, heights=False)
    assert track.coherence is None
    assert "taken to be of one height" in caplog.text
    assert "points come without coherence" in caplog.text


SIGN = "displacements are taken as positive towards the satellite, as MintPy writes them"
NO_REFERENCE = "its attributes name no pixel that displacements refer to (REF_Y, REF_X)"


def test_what_is_not_there_is_noted_and_epochs_out_of_order_are_sorted(tmp_path):
    order = [2, 0, 3, 1]
    stack = Stack(series=metres()[order], dates=[DAYS[index].encode() for index in order])
    del stack.geometry["height"], stack.geometry["azimuthAngle"]
    path = stack.write(tmp_path / "timeseries.h5", coherence=None)
    assert open_points(path).notes[1:] == (
        "no temporalCoherence.h5 of its size beside it; points come without coherence",
        "no /height in geometryGeo.h5; all points are taken to be of one height",
        "no /azimuthAngle in geometryGeo.h5; the direction to the satellite is that by HEADING -11",
        SIGN,
        NO_REFERENCE,
        OUT_OF_ORDER,
    )
    assert_is_stack(read_points(path), heights=False)


def test_a_geometry_of_another_size_is_not_taken(tmp_path):
    Stack().write(tmp_path / "other.h5")
    stack = Stack(series=metres()[:, :3], attrs=COMMON | GEOCODED | {"LENGTH": "3"})
    with refuses("geometry.missing", "t.h5", "3 x 3"):
        read_points(stack.write(tmp_path / "t.h5", None, None))
    with refuses("geometry.other_size", "geometryGeo.h5, /incidenceAngle", "(4, 3)"):
        read_points(tmp_path / "t.h5", {"t.h5": Product(geometry="geometryGeo.h5")})


def test_without_azimuth_the_heading_counts_on_either_side(tmp_path):
    stack = Stack()
    del stack.geometry["azimuthAngle"]
    stack.attrs["ANTENNA_SIDE"] = "1"
    left = read_points(stack.write(tmp_path / "timeseries.h5")).los[0]
    np.testing.assert_allclose(left, line_of_sight() * [-1, -1, 1], atol=1e-6)
    del stack.attrs["HEADING"]
    with refuses("geometry.no_azimuth", "geometryGeo.h5", "/azimuthAngle", "HEADING", "heading_deg"):
        read_points(stack.write(tmp_path / "timeseries.h5"))


def test_an_azimuth_of_gamma_is_recognised_where_the_heading_confirms_it(tmp_path, caplog):
    usual = read_points(Stack().write(tmp_path / "usual" / "timeseries.h5"))
    stack = Stack()
    stack.geometry["azimuthAngle"] = np.radians(stack.geometry["azimuthAngle"] + 90).astype(np.float32)
    track = read_points(stack.write(tmp_path / "timeseries.h5"))
    np.testing.assert_allclose(track.los, usual.los, atol=1e-4)
    assert warned(caplog, "geometry.azimuth_of_gamma", "timeseries.h5", "/azimuthAngle", "HEADING -11")


@pytest.mark.parametrize("written", [lambda azimuth: azimuth + 45, np.radians])
def test_an_azimuth_that_contradicts_the_heading_is_refused_with_both_and_what_decides(tmp_path, written):
    stack = Stack()
    stack.geometry["azimuthAngle"] = written(stack.geometry["azimuthAngle"])
    path = stack.write(tmp_path / "timeseries.h5")
    with refuses("geometry.contradictory_azimuth", "geometryGeo.h5: /azimuthAngle", "HEADING -11", "heading_deg"):
        open_points(path)
    assert len(read_points(path, {"*": Product(incidence_deg=33, heading_deg=190)}))


@pytest.mark.parametrize("said", [{"UTM_ZONE": "31N"}, {"EPSG": 32631}])
def test_a_raster_in_metres_says_its_crs(tmp_path, said):
    east, north = Transformer.from_crs("EPSG:4326", UTM, always_xy=True).transform(WEST, NORTH)
    metre = {"X_FIRST": east, "Y_FIRST": str(north), "X_STEP": 10.0, "Y_STEP": "-10", "X_UNIT": "meters"}
    track = read_points(Stack(attrs=COMMON | metre | said).write(tmp_path / "t.h5"))
    assert track.crs == UTM
    np.testing.assert_allclose(track.easting[:2], [east + 5, east + 15])
    np.testing.assert_allclose(track.northing[[0, -1]], [north - 5, north - 35])
    path = Stack(attrs=COMMON | metre).write(tmp_path / "t.h5")
    with refuses("stack.unknown_crs", path, "EPSG", "UTM_ZONE", "'t.h5': {crs: EPSG"):
        read_points(path)
    assert read_points(path, {"*": Product(crs=UTM)}).crs == UTM


@pytest.mark.parametrize("options", [{}, {"chunks": (1, 4, 3), "compression": "gzip"}, {"chunks": (2, 3, 2)}])
def test_blocks_are_rows_whatever_the_storage(tmp_path, monkeypatch, options):
    monkeypatch.setattr("plumbline.sources.points.formats.mintpy.BLOCK_POINTS", 2)
    monkeypatch.setattr("plumbline.sources.points.formats.mintpy.BLOCK_BYTES", 4 * 4 * 3 * len(DAYS) * 0.8)
    source = open_points(Stack(options=options).write(tmp_path / "timeseries.h5"))
    blocks = list(source.blocks())
    assert len(blocks) >= 2
    assert sum(map(len, source.blocks())) == 10  # a second time
    assert_is_stack(read_points(tmp_path / "timeseries.h5"))


def test_a_file_that_kills_who_reads_it_is_refused_by_the_probe(tmp_path, monkeypatch):
    path = Stack().write(tmp_path / "timeseries.h5")
    monkeypatch.setattr("plumbline.sources.points.formats.hdf5.PROBE", "import os; os.kill(os.getpid(), 11)")
    assert_is_stack(read_points(path))  # of one's own disk
    monkeypatch.setattr("plumbline.sources.points.formats.hdf5.probes_first", True)
    with refuses("hdf5.unreadable", path):
        read_points(path)


def test_the_probe_reads_of_every_array(tmp_path):
    path = Stack(series=np.random.default_rng(0).random((4, *SHAPE), np.float32)).write_eos(tmp_path / "S1.he5")
    name = "HDFEOS/GRIDS/timeseries/packed"
    with h5py.File(path, "a") as file:
        file.create_dataset(name, data=np.arange(1000.0), chunks=(1000,), compression="gzip")
        where = file[name].id.get_chunk_info(0)

    def probed() -> int:
        return subprocess.run([sys.executable, "-I", "-c", PROBE, str(path)], capture_output=True).returncode

    assert probed() == 0
    with path.open("r+b") as stream:
        stream.seek(where.byte_offset)
        stream.write(b"\xff" * where.size)
    assert probed() == 1


def test_bursts_of_one_day_are_averaged_and_it_is_said(tmp_path):
    stack = Stack(dates=[b"20160327T0534", b"20160407T0534", b"20160407T0535", b"20160510T0534"])
    source = open_points(stack.write(tmp_path / "t.h5"))
    (track,) = source.blocks()
    assert [str(day) for day in track.epochs] == ["2016-03-27", "2016-04-07", "2016-05-10"]
    plain = read_points(Stack().write(tmp_path / "plain" / "t.h5")).displacement
    np.testing.assert_allclose(track.displacement[:, 1], plain[:, 1:3].mean(axis=1), rtol=1e-6)
    assert any("20160407T0534 and 20160407T0535 are of one day" in note for note in source.notes)


def vector(*parts):
    """A geometry of a vector, in place of the angles."""
    arrays = {name: np.full(SHAPE, value, np.float32) for name, value in zip(VECTOR, parts, strict=False)}
    return arrays | {"height": Stack().geometry["height"]}


@pytest.mark.parametrize("count", [2, 3])
def test_a_vector_in_place_of_angles_is_the_line_of_sight(tmp_path, count):
    path = Stack(geometry=vector(*line_of_sight()[:count])).write(tmp_path / "t.h5")
    assert f"the line of sight is that of {', '.join(VECTOR[:count])} in geometryGeo.h5" in open_points(path).notes
    track = read_points(path)
    np.testing.assert_allclose(track.los, np.tile(line_of_sight(), (len(track), 1)), atol=1e-6)
    wanted = read_points(Stack().write(tmp_path / "plain" / "t.h5"))
    assert track.point_id.tolist() == wanted.point_id.tolist()
    stack = Stack(geometry=vector(*line_of_sight()[:count])).to_radar()
    assert len(read_points(stack.write(tmp_path / "radar" / "t.h5", "geometryRadar.h5"))) == len(wanted)


@pytest.mark.parametrize("nothing", [0, np.nan])
def test_a_pixel_without_a_vector_is_left_out(tmp_path, nothing):
    stack = Stack(geometry=vector(*line_of_sight()[:2]))
    for name in VECTOR[:2]:
        stack.geometry[name][1, 1] = nothing
    assert "y1x1" not in read_points(stack.write(tmp_path / "t.h5")).point_id


def test_companions_are_no_products(tmp_path):
    Stack().write(tmp_path / "t.h5")
    assert [is_product(tmp_path / name) for name in ("t.h5", "geometryGeo.h5", "temporalCoherence.h5")] == [1, 0, 0]
    h5py.File(tmp_path / "a.h5", "w").close()
    for name, kind in (("geometryGeo.h5", "MintPy's geometry"), ("a.h5", "HDF5")):
        with refuses("hdf5.no_series", name, kind):
            read_points(tmp_path / name)


REFUSED = {
    "day twice": ({"dates": [b"20160327"] * 4}, "stack.repeated_day", "t.h5, /date: 20160327"),
    "no such day": ({"dates": [b"20160327", b"20161301", b"2", b"3"]}, "epochs.impossible_day", "/date: 20161301"),
    "days": ({"dates": [day.encode() for day in DAYS[:3]]}, "stack.day_count", "t.h5, /date: 3 "),
    "days as numbers": ({"dates": [1, 2, 3, 4]}, "hdf5.array_type", "t.h5, /date", "int64"),
    "one epoch": ({"series": metres()[:1], "dates": [DAYS[0].encode()]}, "epochs.too_few", "t.h5, /date: 1 epochs"),
    "one day": ({"dates": [f"20160327T053{n}".encode() for n in range(4)]}, "epochs.too_few", "t.h5, /date: 4 epochs"),
    "dimensions": ({"series": metres()[0]}, "hdf5.array_type", "t.h5, /timeseries: 2 dimensions"),
    "no data": ({"series": metres() * np.nan}, "stack.no_data", "t.h5"),
    "displacement": (
        {"series": metres() * 1e6},
        *("points.impossible_displacement", "t.h5, /timeseries, epoch 2016-04-07, row 0, column 0: 1e+06 mm"),
    ),
    "no pixel": ({"series": np.zeros((4, 0, 3), np.float32)}, "stack.no_pixel", "t.h5, /timeseries"),
    "step": ({"attrs": COMMON | GEOCODED | {"X_STEP": "0"}}, "stack.no_step", "t.h5, attributes X_STEP, Y_STEP: 0"),
    "no number": ({"attrs": COMMON | GEOCODED | {"X_STEP": "wide"}}, "hdf5.not_a_number", "attribute X_STEP: 'wide'"),
    "no attribute": ({"attrs": COMMON | {"X_FIRST": "4.9"}}, "hdf5.not_a_number", "t.h5, attribute Y_FIRST"),
    "swapped": (
        {"attrs": COMMON | GEOCODED | {"Y_FIRST": "103.7", "X_FIRST": "32"}},
        "crs.no_utm_zone",
        "103.70",
        "swap",
    ),
    "no length": ({"geometry": vector(0.9, 0.9)}, "geometry.out_of_range", "/los_east, los_north, row 0, column 0: 1"),
    "down": ({"geometry": vector(-0.6, -0.1, -0.79)}, "geometry.out_of_range", "/los_up, row 0, column 0: -0.79 "),
    "coherence": ({"coherence": np.full(SHAPE, 1.5)}, "geometry.out_of_range", "temporalCoherence.h5", "column 0: 1.5"),
}
"""Fault -> the stack with it, the key of the refusal, and the places that the message names."""


@pytest.mark.parametrize("fault", REFUSED)
def test_what_cannot_be_is_named_by_file_and_place(tmp_path, fault):
    change, key, *places = REFUSED[fault]
    with refuses(key, *places):
        read_points(Stack(**change).write(tmp_path / "t.h5"))


@pytest.mark.parametrize(
    ("name", "value"),
    [("incidenceAngle", 0.6), ("azimuthAngle", 1e6), ("height", 1e6), ("latitude", 103.7), ("longitude", -500)],
)
def test_a_geometry_that_cannot_be_is_named_by_its_pixel(tmp_path, name, value):
    stack = Stack().to_radar()
    stack.geometry[name][2, 1] = value
    with refuses("geometry.out_of_range", "geometryRadar.h5", "row 2, column 1: "):
        read_points(stack.write(tmp_path / "t.h5", "geometryRadar.h5"))


@pytest.mark.parametrize("how", ["external link", "soft link", "virtual", "raw"])
def test_arrays_that_lie_in_another_file_are_refused(tmp_path, how):
    secret, path = Stack().write(tmp_path / "secret" / "t.h5"), Stack().write(tmp_path / "t.h5")
    shape = metres().shape
    with h5py.File(path, "a") as file:
        del file["timeseries"]
        if how == "virtual":
            layout = h5py.VirtualLayout(shape, "f4")
            layout[:] = h5py.VirtualSource(str(secret), "timeseries", shape)
            file.create_virtual_dataset("timeseries", layout)
        elif how == "raw":
            file.create_dataset("timeseries", shape, "f4", external=[(str(tmp_path / "raw"), 0, h5py.h5f.UNLIMITED)])
        else:
            links = {
                "external link": h5py.ExternalLink(str(secret), "/timeseries"),
                "soft link": h5py.SoftLink("/date"),
            }
            file["timeseries"] = links[how]
    with refuses("hdf5.link" if "link" in how else "hdf5.external_values", path, "/timeseries"):
        read_points(path)


def test_arrays_of_a_suspect_size_are_refused_before_they_are_read(tmp_path):
    path = Stack().write(tmp_path / "t.h5")
    for shape, chunks in (((4, 100_000, 100_000), (1, 1000, 1000)), ((4, 20_000, 20_000), (1, 20_000, 20_000))):
        with h5py.File(path, "a") as file:
            del file["timeseries"]
            file.create_dataset("timeseries", shape, "f4", chunks=chunks, compression="gzip")
        with refuses("hdf5.too_large", "t.h5, /timeseries", "0 stored"):
            read_points(path)
    with h5py.File(path, "a") as file:
        del file["timeseries"]
        file.create_group("timeseries")
    with refuses("hdf5.group", "t.h5, /timeseries"):
        read_points(path)


@given(
    share=st.floats(0, 1, exclude_max=True), which=st.sampled_from(["t.h5", "geometryGeo.h5", "temporalCoherence.h5"])
)
def test_a_file_cut_anywhere_is_refused(tmp_path, share, which):
    path = Stack().write(tmp_path / "t.h5")
    content = (tmp_path / which).read_bytes()
    (tmp_path / which).write_bytes(content[: int(share * len(content))])
    with pytest.raises(InputError, match=r"\.h5"):
        read_points(path)


@given(data=st.data())
def test_any_numbers_are_refused_or_read(tmp_path, data):
    stack = Stack() if data.draw(st.booleans()) else Stack().to_radar()
    name = data.draw(st.sampled_from(["series", "coherence", *stack.geometry]))
    strange = data.draw(st.sampled_from([np.nan, np.inf, -np.inf, 1e38, -1e38, 0.0, 1e-40, -1.0]) | st.floats(width=32))
    target = getattr(stack, name) if name in ("series", "coherence") else stack.geometry[name]
    target[tuple(data.draw(st.integers(0, side - 1)) for side in target.shape)] = strange
    geometry = "geometryGeo.h5" if "X_FIRST" in stack.attrs else "geometryRadar.h5"
    path = stack.write(tmp_path / "t.h5", geometry)
    (tmp_path / ({"geometryGeo.h5", "geometryRadar.h5"} - {geometry}).pop()).unlink(missing_ok=True)
    track = unless_refused(lambda: read_points(path), tmp_path)
    if track is not None:
        assert np.isfinite(np.stack([track.easting, track.northing, track.height])).all()
        assert not np.isinf(track.displacement).any()
        np.testing.assert_allclose(np.linalg.norm(track.los, axis=1), 1)
        assert set(track.point_id) <= {f"y{r}x{c}" for r, c in np.ndindex(SHAPE)}


@pytest.mark.parametrize("radar", [False, True])
def test_all_in_one_hdf_eos5_file_reads_as_the_files_that_it_was_made_of(tmp_path, radar):
    stack = Stack().to_radar() if radar else Stack()
    (tmp_path / "apart").mkdir()
    wanted = read_points(stack.write(tmp_path / "apart" / "S1.h5"))
    path = stack.write_eos(tmp_path / "S1.he5")
    assert is_product(path)
    track = read_points(path)
    assert_track(track, wanted)
    np.testing.assert_array_equal(track.coherence, wanted.coherence)


def test_a_link_on_the_way_within_hdf_eos5_is_refused(tmp_path):
    path = Stack().write_eos(tmp_path / "S1.he5")
    with h5py.File(path, "a") as file:
        grid = file["HDFEOS/GRIDS/timeseries"]
        grid.move("observation", "kept")
        grid["observation"] = h5py.SoftLink("/HDFEOS/GRIDS/timeseries/kept")
    with refuses("hdf5.link", path):
        read_points(path)


def test_missing_is_of_the_geometry_file_too(tmp_path):
    """A pixel each without height, angles and coherence, by a code of somebody's own and by one of rasters."""
    stack = Stack()
    stack.geometry["height"][0, 0] = -77
    stack.geometry["incidenceAngle"][0, 1] = -3.4028235e38
    stack.geometry["azimuthAngle"][0, 2] = -77
    stack.coherence[1, 0] = -77
    path = stack.write(tmp_path / "t.h5")
    track = read_points(path, {"*": Product(missing=[-77])})
    assert track.dropped["no_height"] == 1
    assert len(track) == len(read_points(Stack().write(tmp_path / "whole" / "t.h5"))) - 3
    assert np.isnan(track.coherence).sum() == 1
