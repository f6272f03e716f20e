"""The slices: which buildings they hold, and that nothing falls between them."""

import numpy as np

from plumbline.params.validate import SLICES
from plumbline.prepare.features.definition import DISTANCE, GEOMETRY, SLOPE, names
from plumbline.prepare.features.sequences import Sequences
from plumbline.validate.measure import slices


def buildings(*, length, severity, city, difficulty, area_m2, mechanism, accepted):
    count, points = len(length), int(np.sum(length))
    geometry = np.zeros((count, len(GEOMETRY)), np.float32)
    geometry[:, names(GEOMETRY).index("log_area")] = np.log(area_m2)
    return Sequences(
        building_id=np.array([f"b{i}" for i in range(count)]),
        city=np.array(city),
        offsets=np.r_[0, np.cumsum(length)].astype(np.int64),
        distance=np.zeros((points, len(DISTANCE)), np.float32),
        slope=np.zeros((points, len(SLOPE)), np.float32),
        geometry=geometry,
        severity=np.array(severity, np.float32),
        quadrant=np.full(count, -1, np.int64),
        accepted=np.arange(4) < np.array(accepted)[:, None],
        mechanism=np.array(mechanism, np.int8),
        difficulty=np.array(difficulty, np.int8),
    )


def test_each_building_stands_where_its_numbers_put_it():
    parts = slices(
        buildings(
            length=[9, 10, 19, 20, 49, 50],
            severity=[0.49, 0.5, 0.75, 1.5, 2.9, 3.0],
            city=["c", "c", "c", "x", "x", "x"],
            difficulty=[-1, 1, 0, 2, 2, -1],
            area_m2=[50, 101, 249, 251, 599, 601],
            mechanism=[-1, 0, 3, 3, 1, 5],
            accepted=[0, 1, 1, 2, 4, 3],
        ),
        max_strain_error_permille=0.1,
    )
    held = {name: np.flatnonzero(inside).tolist() for name, inside in parts.items()}
    assert held == {
        "all": [0, 1, 2, 3, 4, 5],
        "city:c": [0, 1, 2],
        "city:x": [3, 4, 5],
        "points:0-9": [0],
        "points:10-19": [1, 2],
        "points:20-49": [3, 4],
        "points:50+": [5],
        "area:0-100": [0],
        "area:100-250": [1, 2],
        "area:250-600": [3, 4],
        "area:600+": [5],
        "category:0": [0],
        "category:1": [1],
        "category:2": [2],
        "category:3": [3, 4],
        "category:4": [5],
        "resolved:yes": [0, 1, 2, 3, 4, 5],
        "resolved:no": [],
        "difficulty:easy": [2],
        "difficulty:medium": [1],
        "difficulty:hard": [3, 4],
        "mechanism:corner": [1],
        "mechanism:end": [4],
        "mechanism:step": [],
        "mechanism:bowl": [2, 3],
        "mechanism:bending": [],
        "mechanism:several": [5],
        "accepted:1": [1, 2],
        "accepted:2+": [3, 4, 5],
    }
    assert set(parts) <= set(SLICES) | {"city:c", "city:x"}
