import io
import re
import zipfile
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest
from pyarrow import csv as arrow_csv

from plumbline.simulate.acquisition import BANDS, draw_acquisitions
from plumbline.simulate.egms import Product, derived, write_egms

HEADER = (
    "pid,mp_type,latitude,longitude,easting,northing,height_ortho,height_ellipse,line,pixel,rmse_ts,temporal_coherence,"
    "amplitude_dispersion,incidence_angle,track_angle,los_east,los_north,los_up,mean_velocity,mean_velocity_std,"
    "acceleration,acceleration_std,seasonality,seasonality_std,gnss_velocity"
)
DECIMALS = dict(
    zip(HEADER.split(","), [None, 0, 6, 6, 2, 2, 1, 1, 0, 0, 1, 2, 2, 2, 2, 3, 3, 3, 1, 1, 2, 2, 1, 1, 1], strict=True)
)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    rng = np.random.default_rng(11)
    track = draw_acquisitions(rng, BANDS["C"], 4, 2.5)[0]
    product = Product(
        acquisition=track,
        start=np.datetime64("2019-11-20"),
        place=(4321000.0, 3210000.0),
        east_north=rng.uniform(-900, 900, (500, 2)),
        height=rng.uniform(-20, 90, 500),
        displacement=rng.normal(0, 9, (500, len(track.days))),
        gnss_velocity=-0.74,
    )
    path = write_egms(rng, tmp_path_factory.mktemp("egms"), product, BANDS["C"])
    return path, product


def test_the_file_is_named_and_headed_as_the_service_does(written):
    path, product = written
    assert re.fullmatch(r"EGMS_L2b_009_\d{4}_IW[123]_VV_2019_2022_1\.csv", path.name)
    header = path.read_text().splitlines()[0]
    dates = [str(date).replace("-", "") for date in product.dates]
    assert header == ",".join([HEADER, *dates])


def test_every_cell_has_the_precision_of_the_product(written):
    path, _ = written
    text = path.read_text()
    assert '"' not in text
    names, *rows = (line.split(",") for line in text.splitlines())
    for row in rows[:50]:
        assert re.fullmatch(r"[0-9A-Za-z]{10}", row[0])
        for name, cell in zip(names[1:], row[1:], strict=True):
            decimals = DECIMALS.get(name, 1)
            assert re.fullmatch(r"-?\d+" + (rf"\.\d{{{decimals}}}" if decimals else ""), cell), (name, cell)


def test_values_come_back(written):
    path, product = written
    table = arrow_csv.read_csv(path)
    assert table.num_rows == 500
    assert len(set(table["pid"].to_pylist())) == 500
    assert sum(column.null_count for column in table.columns) == 0
    read = np.stack([table[name].to_numpy() for name in ("easting", "northing")], axis=1) - product.place
    order = np.lexsort(read.T)
    expected = product.east_north[np.lexsort(np.round(product.east_north + product.place, 2).T)]
    np.testing.assert_allclose(read[order], expected, atol=0.0051)
    last = table[table.column_names[-1]].to_numpy()
    np.testing.assert_allclose(np.sort(last), np.sort(product.displacement[:, -1]), atol=0.051)
    los = np.stack([table[name].to_numpy() for name in ("los_east", "los_north", "los_up")], axis=1)
    np.testing.assert_allclose(np.linalg.norm(los, axis=1), 1, atol=2e-3)
    assert (np.diff(table["line"].to_numpy()) >= 0).all()


def test_small_negative_numbers_keep_their_sign_and_zero_has_none(tmp_path):
    rng = np.random.default_rng(12)
    track = draw_acquisitions(rng, BANDS["C"], 1, 0.6)[1]
    displacement = np.zeros((1, len(track.days)))
    displacement[0, :3] = -0.04, -0.06, 1234.56
    product = Product(track, np.datetime64("2020-01-01"), (4e6, 3e6), np.zeros((1, 2)), np.zeros(1), displacement, 0.0)
    cells = write_egms(rng, tmp_path, product, BANDS["C"]).read_text().splitlines()[1].split(",")
    assert cells[25:29] == ["0.0", "-0.1", "1234.6", "0.0"]


def test_derived_columns_of_a_known_history():
    years = np.arange(0, 4, 6 / 365.25)
    time = years - years.mean()
    steady = 5 - 7 * time + 3 * np.cos(2 * np.pi * years + 0.7)
    bent = 4 * time + 1.5 * time**2
    columns = {
        name: values for name, values, _ in derived(np.random.default_rng(0), np.stack([steady, bent]), years, 55.5)
    }
    assert columns["mean_velocity"][0] == pytest.approx(-7, abs=1e-9)
    assert columns["seasonality"][0] == pytest.approx(3, abs=1e-9)
    assert columns["rmse_ts"] == pytest.approx([0, 0], abs=1e-9)
    assert columns["acceleration"] == pytest.approx([0, 3], abs=1e-9)
    assert columns["mean_velocity"][1] == pytest.approx(4, abs=0.1)


def test_derived_errors_and_coherence_of_white_noise():
    years, sigma = np.arange(0, 4, 6 / 365.25), 3.0
    noise = np.random.default_rng(1).normal(0, sigma, (4000, len(years)))
    columns = {name: values for name, values, _ in derived(np.random.default_rng(0), noise, years, 55.5)}
    assert columns["rmse_ts"].mean() == pytest.approx(sigma, rel=0.03)
    for name in ("mean_velocity", "acceleration"):
        assert columns[name].std() == pytest.approx(columns[f"{name}_std"].mean(), rel=0.05)
    # Mean of a unit phasor with normal phase: exp(-sigma_phase^2 / 2).
    assert columns["temporal_coherence"].mean() == pytest.approx(
        np.exp(-((4 * np.pi / 55.5 * sigma) ** 2) / 2), abs=0.02
    )


@pytest.mark.realdata
def test_derived_columns_are_those_of_a_real_product():
    path = Path(__file__).parents[3] / "shared/data/ustica/EGMS_L2b_117_0227_IW2_VV_2020_2024_1.zip"
    if not path.exists():
        pytest.skip(f"{path.name} is not there: put the real products into ../shared/data/ustica")
    with zipfile.ZipFile(path) as archive:
        content = archive.read(next(name for name in archive.namelist() if name.endswith(".csv")))
    table = arrow_csv.read_csv(io.BytesIO(content))
    assert ",".join(table.column_names[:25]) == HEADER
    dates = [datetime.strptime(name, "%Y%m%d") for name in table.column_names[25:]]
    years = np.array([(date - dates[0]).days for date in dates]) / 365.25
    series = np.stack([table[name].to_numpy().astype(float) for name in table.column_names[25:]], axis=1)
    columns = {name: values for name, values, _ in derived(np.random.default_rng(0), series, years, 55.465)}
    for name, tolerance in [("mean_velocity", 0.1), ("seasonality", 0.2), ("rmse_ts", 0.1), ("acceleration", 0.05)]:
        assert np.abs(columns[name] - table[name].to_numpy()).mean() < tolerance, name
    assert np.abs(columns["temporal_coherence"] - table["temporal_coherence"].to_numpy()).mean() < 0.01
