import numpy as np
import pyproj

from plumbline.prepare.places import one_ground

CRS = "EPSG:3035"


def town(east: float, north: float) -> np.ndarray:
    return np.array([east, north]) + np.random.default_rng(0).uniform(0, 1000, (50, 2))


def test_cities_on_the_same_ground_are_one_place_in_one_crs():
    original = town(4_300_000, 3_200_000)
    to = pyproj.Transformer.from_crs(CRS, "EPSG:32632", always_xy=True)
    elsewhere = np.stack(to.transform(*original.T), axis=1)
    centre = {"a": original, "b": town(4_400_000, 3_200_000), "a--2": original.copy(), "in_utm": elsewhere}
    place, moved = one_ground(centre, {"a": CRS, "b": CRS, "a--2": CRS, "in_utm": "EPSG:32632"})
    assert place == {"a": "a", "b": "b", "a--2": "a", "in_utm": "a"}
    np.testing.assert_allclose(moved["in_utm"], original, atol=1e-3)
    np.testing.assert_array_equal(moved["b"], centre["b"])


def test_a_city_without_buildings_is_a_place_of_its_own():
    place, _ = one_ground({"empty": np.zeros((0, 2)), "b": town(0, 0)}, {"empty": CRS, "b": CRS})
    assert place == {"empty": "empty", "b": "b"}
