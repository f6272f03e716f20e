"""EGMS L3: motion up or east in cells of 100 m; the same columns for both."""

from tests.sources.make import L3, rows

LETTER = {"up": "U", "east": "E"}
OLDER = [{"height_ortho": "height", "rmse_ts": "rmse"}.get(name, name) for name in L3 if not name.startswith("gnss")]


def cells(count: int = 6, header: list[str] = L3) -> list[dict[str, str]]:
    """Cells of `count` grid cells in a row."""
    return [
        {name: value for name, value in row.items() if name in header or name.isdigit()}
        | {"easting": f"{4_597_550 + 100 * number}", "northing": "1739750"}
        for number, row in enumerate(rows(count, header))
    ]
