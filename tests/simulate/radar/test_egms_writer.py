import io
import re
import zipfile
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest
from pyarrow import csv as arrow_csv

from plumbline.simulate.radar.egms_writer import (
    FIRST_COLUMNS,
    EgmsPoints,
    EgmsProduct,
    derived_columns,
    egms_rows,
    identifiers,
)

HEADER = (
    "pid,mp_type,latitude,longitude,easting,northing,height_ortho,height_ellipse,line,pixel,rmse_ts,temporal_coherence,"
    "amplitude_dispersion,incidence_angle,track_angle,los_east,los_north,los_up,mean_velocity,mean_velocity_std,"
    "acceleration,acceleration_std,seasonality,seasonality_std,gnss_velocity"
)
DECIMALS = dict(
    zip(HEADER.split(","), [None, 0, 6, 6, 2, 2, 1, 1, 0, 0, 1, 2, 2, 2, 2, 3, 3, 3, 1, 1, 2, 2, 1, 1, 1], strict=True)
)


DATES = np.datetime64("2019-11-20") + np.cumsum(np.r_[0, np.resize([6, 12, 6, 24], 79)])


def make_points(rng, count):
    los = rng.normal((0.5, -0.1, 0.8), 0.3, (count, 3))
    return EgmsPoints(
        number=np.arange(count) + 62**7,
        position=rng.normal((4321000.0, 3210000.0), 300, (count, 2)),
        height=rng.uniform(-20, 90, count),
        los=los / np.linalg.norm(los, axis=1, keepdims=True),
        incidence=rng.uniform(30, 46, count),
        track_angle=np.full(count, -9.1),
        line=np.floor(rng.uniform(0, 5000, count)),
        pixel=np.floor(rng.uniform(0, 70000, count)),
    )


@pytest.fixture(scope="module")
def written():
    rng = np.random.default_rng(11)
    product, points = EgmsProduct("EGMS.csv", DATES, 55.5, -0.74), make_points(rng, 500)
    displacement = rng.normal(0, 9, (500, len(DATES)))
    return product.header + egms_rows(rng, product, points, displacement), points, displacement


def test_the_header_is_that_of_the_service(written):
    text, _, _ = written
    header = text.decode().splitlines()[0]
    assert FIRST_COLUMNS == HEADER
    assert header == ",".join([HEADER, *(str(date).replace("-", "") for date in DATES)])


def test_every_cell_has_the_precision_of_the_product(written):
    text, _, _ = written
    assert b'"' not in text
    assert text.endswith(b"\n")
    assert not text.endswith(b",\n")
    names, *rows = (line.split(",") for line in text.decode().splitlines())
    assert len(rows) == 500
    for row in rows[:50]:
        assert len(row) == len(names)
        assert re.fullmatch(r"[0-9A-Za-z]{10}", row[0])
        for name, cell in zip(names[1:], row[1:], strict=True):
            decimals = DECIMALS.get(name, 1)
            assert re.fullmatch(r"-?\d+" + (rf"\.\d{{{decimals}}}" if decimals else ""), cell), (name, cell)


def test_values_come_back(written):
    text, points, displacement = written
    table = arrow_csv.read_csv(io.BytesIO(text))
    assert len(set(table["pid"].to_pylist())) == 500
    assert sum(column.null_count for column in table.columns) == 0
    read = np.stack([table[name].to_numpy() for name in ("easting", "northing")], axis=1)
    np.testing.assert_allclose(read, points.position, atol=0.0051)
    np.testing.assert_allclose(table["height_ortho"].to_numpy(), points.height, atol=0.051)
    series = np.stack([table[name].to_numpy() for name in table.column_names[25:]], axis=1)
    np.testing.assert_allclose(series, displacement, atol=0.051)
    los = np.stack([table[name].to_numpy() for name in ("los_east", "los_north", "los_up")], axis=1)
    np.testing.assert_allclose(los, points.los, atol=0.00051)


def test_a_missing_value_is_an_empty_cell_and_is_left_out_of_what_is_derived():
    rng, product = np.random.default_rng(12), EgmsProduct("EGMS.csv", DATES, 55.5)
    points = make_points(rng, 4)
    years = product.years
    displacement = np.tile(5 * (years - years.mean()), (4, 1))
    displacement[1, 10:30] = np.nan
    displacement[2] = np.nan
    displacement[3, 7] = 12_345.0  # no cell holds it
    names, *rows = (
        line.split(",")
        for line in (product.header + egms_rows(rng, product, points, displacement)).decode().splitlines()
    )
    table = [dict(zip(names, row, strict=True)) for row in rows]
    assert [cell == "" for cell in rows[1][25:]] == np.isnan(displacement[1]).tolist()
    assert rows[3][25 + 7] == ""
    assert [row["mean_velocity"] for row in table[:3]] == ["5.0", "5.0", "0.0"]
    assert [row["rmse_ts"] for row in table[:3]] == ["0.0", "0.0", "0.0"]


def test_identifiers_go_up_with_their_numbers():
    names = identifiers(np.array([0, 61, 62, 62**6 + 5, 62**10 - 1]))
    assert names.tolist() == [b"0" * 10, b"0" * 9 + b"z", b"0" * 8 + b"10", b"0001000005", b"z" * 10]


def test_derived_columns_of_a_known_history():
    years = np.arange(0, 4, 6 / 365.25)
    time = years - years.mean()
    steady = 5 - 7 * time + 3 * np.cos(2 * np.pi * years + 0.7)
    bent = 4 * time + 1.5 * time**2
    columns = {
        name: values
        for name, values, _ in derived_columns(np.random.default_rng(0), np.stack([steady, bent]), years, 55.5)
    }
    assert columns["mean_velocity"][0] == pytest.approx(-7, abs=1e-9)
    assert columns["seasonality"][0] == pytest.approx(3, abs=1e-9)
    assert columns["rmse_ts"] == pytest.approx([0, 0], abs=1e-6)
    assert columns["acceleration"] == pytest.approx([0, 3], abs=1e-9)
    assert columns["mean_velocity"][1] == pytest.approx(4, abs=0.1)


def test_derived_errors_and_coherence_of_white_noise():
    years, sigma = np.arange(0, 4, 6 / 365.25), 3.0
    noise = np.random.default_rng(1).normal(0, sigma, (4000, len(years)))
    columns = {name: values for name, values, _ in derived_columns(np.random.default_rng(0), noise, years, 55.5)}
    assert columns["rmse_ts"].mean() == pytest.approx(sigma, rel=0.03)
    for name in ("mean_velocity", "acceleration"):
        assert columns[name].std() == pytest.approx(columns[f"{name}_std"].mean(), rel=0.05)
    # Mean of a unit phasor with normal phase: exp(-sigma_phase^2 / 2).
    assert columns["temporal_coherence"].mean() == pytest.approx(
        np.exp(-((4 * np.pi / 55.5 * sigma) ** 2) / 2), abs=0.02
    )


@pytest.mark.realdata
def test_derived_columns_are_those_of_a_real_product():
    path = Path(__file__).parents[4] / "shared/data/ustica/EGMS_L2b_117_0227_IW2_VV_2020_2024_1.zip"
    if not path.exists():
        pytest.skip(f"{path.name} is not there: put the real products into ../shared/data/ustica")
    with zipfile.ZipFile(path) as archive:
        content = archive.read(next(name for name in archive.namelist() if name.endswith(".csv")))
    table = arrow_csv.read_csv(io.BytesIO(content))
    assert ",".join(table.column_names[:25]) == HEADER
    dates = [datetime.strptime(name, "%Y%m%d") for name in table.column_names[25:]]
    years = np.array([(date - dates[0]).days for date in dates]) / 365.25
    series = np.stack([table[name].to_numpy().astype(float) for name in table.column_names[25:]], axis=1)
    columns = {name: values for name, values, _ in derived_columns(np.random.default_rng(0), series, years, 55.465)}
    for name, tolerance in [("mean_velocity", 0.1), ("seasonality", 0.2), ("rmse_ts", 0.1), ("acceleration", 0.05)]:
        assert np.abs(columns[name] - table[name].to_numpy()).mean() < tolerance, name
    assert np.abs(columns["temporal_coherence"] - table["temporal_coherence"].to_numpy()).mean() < 0.01
