"""A csv of somebody's own: names, units, sign, separator and decimal sign of their choice."""

from typing import Any

from plumbline.params import Product
from tests.sources.points.write_points import ANGLES, DAYS, degrees, series

IDS = [f"pt {number}" for number in range(6)]
COLUMNS = {"point_id": "CODE", "latitude": "Lat", "longitude": "Lon", "height": "H", "coherence": "COH"}
ABOUT: dict[str, Any] = {
    "columns": COLUMNS,
    "units": {"displacement": "cm"},
    "positive": "away",
    "epochs": "D%Y%m%d",
    **ANGLES,
}


def described(**changes: Any) -> Product:
    """The description that fits `rows`, changed."""
    return Product.model_validate({name: value for name, value in (ABOUT | changes).items() if value is not None})


def rows(count: int = 6, factor: float = -0.1, pattern: str = "D{}") -> list[dict[str, str]]:
    """Cells of `count` points; a displacement in mm times `factor` is what is written."""
    latitude, longitude = degrees(count)
    return [
        {
            "CODE": IDS[number],
            "Lat": latitude[number],
            "Lon": longitude[number],
            "H": f"{number}.5",
            "VEL": "-3.1",
            "COH": f"0.{number}",
            **{pattern.format(day): f"{series(count)[number, epoch] * factor:g}" for epoch, day in enumerate(DAYS)},
        }
        for number in range(count)
    ]
