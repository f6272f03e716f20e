"""Warn of tables that are as large as their medium allows: the rest may have been cut off."""

from __future__ import annotations

from plumbline.core.console import warn

COLUMN_LIMITS = {
    255: "a Shapefile (dBASE)",
    256: "an .xls spreadsheet",
    1_600: "a PostgreSQL table",
    16_384: "an .xlsx spreadsheet",
}
"""Largest number of columns -> the medium that holds no more."""
ROW_LIMITS = {65_536: "an .xls spreadsheet", 1_048_576: "an .xlsx spreadsheet"}
"""Largest number of rows, the header's among them -> the medium that holds no more."""


def warn_of_limits(source: object, n_columns: int = 0, n_rows: int = 0) -> None:
    """Warn if a table has exactly as many columns or rows as a usual medium holds.

    Args:
        source: names the table.
        n_columns: number of its columns; 0: they are not checked.
        n_rows: number of its rows without the header; 0: they are not checked.
    """
    # A table without a header, as a layer, may fill its medium by one row more.
    row_limit = ROW_LIMITS.get(n_rows + 1) or ROW_LIMITS.get(n_rows)
    for count, unit, medium in (
        (n_columns, "columns", COLUMN_LIMITS.get(n_columns)),
        (n_rows, "rows", row_limit),
    ):
        if medium is not None:
            warn(
                "%s: %d %s, exactly as many as %s holds: the last ones, as later epochs or "
                "other places, may have been cut off. Compare with the original table; if that has "
                "more, export it as GeoPackage or csv.",
                source,
                count,
                unit,
                medium,
                key="table.at_limit",
            )
