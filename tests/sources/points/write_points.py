"""A few points, as a track: what the writers of the formats write, and what the readers must give back."""

import numpy as np
from pyproj import Transformer

from plumbline.sources.points.track import Track

DAYS = ("20160327", "20160407", "20160418", "20160510")
LATITUDE, LONGITUDE = 52.3450, 4.9110
UTM = "EPSG:32631"
INCIDENCE, HEADING = 37.0, 349.0
ANGLES = {"incidence_deg": INCIDENCE, "heading_deg": HEADING}


def degrees(count: int = 6) -> tuple[list[str], list[str]]:
    """Latitudes and longitudes of `count` points some 11 m apart, as they are written."""
    return (
        [f"{LATITUDE + 1e-4 * number:.8f}" for number in range(count)],
        [f"{LONGITUDE - 1e-4 * number:.8f}" for number in range(count)],
    )


def series(count: int = 6, days: int = len(DAYS)) -> np.ndarray:
    """(N, T) mm, whole hundredths, both signs, the first epoch 0."""
    point, epoch = np.mgrid[:count, :days]
    return np.asarray((-1.0) ** point * epoch * (1 + point) * 0.25)


def line_of_sight(incidence: float = INCIDENCE, heading: float = HEADING) -> np.ndarray:
    """DESIGN's formula, written out once more."""
    t, a = np.radians(incidence), np.radians(heading)
    return np.array([-np.sin(t) * np.cos(a), np.sin(t) * np.sin(a), np.cos(t)])


def expected(ids: list[str], heights: list[float], name: str, crs: str = UTM) -> Track:
    """The track that a reader must give."""
    count = len(ids)
    latitude, longitude = (np.array(values, float) for values in degrees(count))
    east, north = Transformer.from_crs("EPSG:4326", crs, always_xy=True).transform(longitude, latitude)
    return Track(
        name=name,
        crs=crs,
        epochs=np.array([f"{day[:4]}-{day[4:6]}-{day[6:]}" for day in DAYS], "datetime64[D]"),
        point_id=np.array(ids, object),
        easting=east,
        northing=north,
        height=np.array(heights, float),
        los=np.tile(line_of_sight(), (count, 1)),
        displacement=series(count).astype(np.float32),
    )


def assert_track(track: Track, wanted: Track, order: bool = True) -> None:
    """One track is the other: places to a micrometre, displacements to a nanometre; without `order`, as a set."""
    if not order:
        track, wanted = (one.take(np.argsort(one.easting)) for one in (track, wanted))
    assert (track.name, track.crs) == (wanted.name, wanted.crs)
    assert track.epochs.tolist() == wanted.epochs.tolist()
    if order:
        assert track.point_id.tolist() == wanted.point_id.tolist()
    for name, tolerance in (("easting", 1e-6), ("northing", 1e-6), ("height", 0), ("los", 1e-12)):
        np.testing.assert_allclose(getattr(track, name), getattr(wanted, name), rtol=0, atol=tolerance, err_msg=name)
    np.testing.assert_allclose(track.displacement, wanted.displacement, rtol=1e-6, atol=1e-6)
    assert track.displacement.dtype == np.float32
