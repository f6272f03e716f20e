"""Declare each column of the predictions once: its type, unit, title, sentence and
decimals, and the rules that it has.

The types of the table, the names and descriptions in a GeoPackage, the decimals of the
map's data, and the table of `docs/answers.md` are made from these declarations.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from plumbline.core.compass import QUADRANTS
from plumbline.core.strain import CATEGORY_BOUNDS_PERMILLE, MECHANISMS
from plumbline.export.interface import CATEGORIES, PROBABILITIES, SURE_DAMAGE
from plumbline.prepare.abstention import ABSTENTIONS, OK, STATUSES, UNSURE_WHERE
from plumbline.reporting.colours import CATEGORY_NAMES

ANSWERED_REASONS = (OK, UNSURE_WHERE)
"""Reasons of the buildings that have all columns of the judgement: where damage is may be
unknown, but not whether."""

VERTICAL, LINE_OF_SIGHT = "vertical", "line of sight"
"""Values of `settlement_direction`."""

JSON_TYPES = {"str": "string", "int64": "integer", "Int64": "integer", "float64": "number"}
"""Type of a column -> type of its values in JSON."""

Group = Literal["building", "judgement", "when", "whole"]


class AnswerColumn(NamedTuple):
    """Declaration of a column."""

    name: str
    dtype: str
    group: Group
    title: str
    """Short name, as programs show it; the unit follows in brackets."""
    sentence: str
    """Meaning in plain text, as the documentation and a GeoPackage give it."""
    unit: str = ""
    decimals: int = 3
    """Decimals in the map's data; files have all of them."""
    is_optional: bool = False
    """True if an answered building may lack a value."""

    @property
    def alias(self) -> str:
        """Title with the unit."""
        return f"{self.title} ({self.unit})" if self.unit else self.title


DECLARED = (
    AnswerColumn(
        "building_id",
        "str",
        "building",
        "Building",
        "Identifier of the building in the file of footprints.",
    ),
    AnswerColumn(
        "status",
        "str",
        "building",
        "Status",
        f"Whether the building is judged: {', '.join(STATUSES)}.",
    ),
    AnswerColumn(
        "reason",
        "str",
        "building",
        "Reason",
        f"Why the building is not judged: {', '.join(ABSTENTIONS)}. ok if it is judged. "
        "noisy_points: or on one line. "
        "unsure_where: it has a severity and probabilities, but not one probable quadrant. For "
        "all other reasons "
        "severity and quadrants are empty.",
    ),
    AnswerColumn(
        "n_points",
        "int64",
        "building",
        "Usable scatterers",
        "Number of usable scatterers, all tracks together.",
    ),
    AnswerColumn(
        "quadrant",
        "str",
        "judgement",
        "Most probable quadrant",
        "Quarter of the building's own plan that most probably has the largest strain, if it is "
        "damaged; NE is the one "
        "with the walls that face most nearly north and east. "
        f"Read it where p_damaged is {SURE_DAMAGE} or more.",
    ),
    AnswerColumn(
        "quadrant_confidence",
        "float64",
        "judgement",
        "Probability that the quadrant is right, if damaged",
        "Probability, if the building is damaged, that quadrant is right: its strain is at least "
        "90 % of the largest.",
        unit="0-1",
        decimals=4,
    ),
    AnswerColumn(
        "quadrants",
        "str",
        "judgement",
        "Quadrants that hold 80 % of the probability",
        "Fewest quadrants that together hold 80 % of the probability, as NE|NW. If a whole end "
        "fails, two are right.",
    ),
    *(
        AnswerColumn(
            column,
            "float64",
            "judgement",
            f"Probability of quadrant {quadrant}",
            "Probability of each quadrant, if the building is damaged.",
            unit="0-1",
            decimals=4,
        )
        for column, quadrant in zip(PROBABILITIES, QUADRANTS, strict=True)
    ),
    AnswerColumn(
        "severity_permille",
        "float64",
        "judgement",
        "Severity",
        "Largest tensile strain of the building, permille (mm/m): the median, above and below "
        "which it is as probable. "
        "It is 0.5 or more exactly where p_damaged is.",
        unit="permille",
    ),
    *(
        AnswerColumn(
            f"severity_{end}",
            "float64",
            "judgement",
            f"Severity, {word} end of the 90 % interval",
            "90 % interval of severity_permille. severity_low is 0 exactly where p_damaged is "
            "below 0.9.",
            unit="permille",
        )
        for end, word in (("low", "lower"), ("high", "upper"))
    ),
    AnswerColumn(
        "burland_category",
        "Int64",  # nullable: an abstention has none, and 0 is a judgement
        "judgement",
        "Burland category",
        "Category of severity_permille, the median; another may be more probable. 0 below 0.5 "
        "permille, 1 below 0.75, "
        "2 below 1.5, 3 below 3, 4 from 3.",
        unit="0-4",
    ),
    AnswerColumn(
        "p_damaged",
        "float64",
        "judgement",
        "Probability of damage",
        "Probability of category 1 or above at the share damage_rate. Of ten buildings with 0.8, "
        "about eight should be damaged. Sort by it. Also of buildings that are not judged, where "
        "it is less sure; empty where too few points are on the building to ask.",
        unit="0-1",
        decimals=4,
    ),
    *(
        AnswerColumn(
            column,
            "float64",
            "judgement",
            f"Probability of category {number}, {CATEGORY_NAMES[number]}",
            "Probability of each category.",
            unit="0-1",
            decimals=4,
        )
        for number, column in enumerate(CATEGORIES)
    ),
    AnswerColumn(
        "mechanism",
        "str",
        "judgement",
        "Mechanism of failure",
        f"What fails: {', '.join(MECHANISMS)}. Empty if unsure, or if the building is probably "
        "sound.",
        is_optional=True,
    ),
    AnswerColumn(
        "damage_rate",
        "float64",
        "judgement",
        "Share of damaged buildings that is assumed",
        "Share of damaged buildings for which the probabilities hold, estimated or given; "
        "in clusters of damage, the share there.",
        unit="0-1",
        decimals=5,
    ),
    AnswerColumn(
        "cause",
        "str",
        "judgement",
        "Possible cause that is near",
        "Name of the possible cause that reaches the building. Empty without a file of causes, "
        "or if nothing does.",
        is_optional=True,
    ),
    AnswerColumn(
        "begins",
        "str",
        "when",
        "Damage began, most probable date",
        "Most probable date at which the damaging movement began; on the first day of the "
        "record: then or earlier. "
        "Empty where damage is not sure enough, or the interval wider than half of the record.",
        is_optional=True,
    ),
    *(
        AnswerColumn(
            f"begins_{end}",
            "str",
            "when",
            f"Damage began, {word} date of the 90 % interval",
            "90 % interval of begins.",
            is_optional=True,
        )
        for end, word in (("early", "earliest"), ("late", "latest"))
    ),
    AnswerColumn(
        "severity_rate",
        "float64",
        "when",
        "Growth of the severity in the last year",
        "Growth in the last year: severity_permille times the share of the movement that fell "
        "into it. If severity_low is 0, so is the lower end.",
        unit="permille a year",
        is_optional=True,
    ),
    *(
        AnswerColumn(
            f"severity_rate_{end}",
            "float64",
            "when",
            f"Growth, {word} end of the 90 % interval",
            "90 % interval of severity_rate.",
            unit="permille a year",
            is_optional=True,
        )
        for end, word in (("low", "lower"), ("high", "upper"))
    ),
    AnswerColumn(
        "p_accelerating",
        "float64",
        "when",
        "Probability of faster growth in the last year than before",
        "Probability that the strain grew faster in the last year than before.",
        is_optional=True,
        unit="0-1",
        decimals=4,
    ),
    AnswerColumn(
        "settlement_mm",
        "float64",
        "whole",
        "Settlement over the record, negative: down or away from the satellite",
        "Movement of the whole building over the record against the reference of the products; "
        "negative: down, or away "
        "from the satellite, see settlement_direction. against_neighbours_mm does not depend on "
        "the reference.",
        unit="mm",
    ),
    AnswerColumn(
        "settlement_std_mm",
        "float64",
        "whole",
        "Settlement, standard error",
        "Standard error of settlement_mm; 1.645 of it on either side hold 90 %.",
        unit="mm",
    ),
    AnswerColumn(
        "settlement_rate_mm_year",
        "float64",
        "whole",
        "Mean rate of settlement",
        "Mean settlement a year.",
        unit="mm a year",
    ),
    AnswerColumn(
        "settlement_direction",
        "str",
        "whole",
        "Axis of the settlement",
        f"Axis of settlement_mm: {VERTICAL}, or {LINE_OF_SIGHT} where only one side sees the "
        "building well.",
    ),
    AnswerColumn(
        "tilt_mm_m",
        "float64",
        "whole",
        "Tilt over the record",
        "Slope that the building as a whole has gained over the record; empty where its error is "
        "too large.",
        unit="mm/m",
    ),
    AnswerColumn(
        "tilt_std_mm_m",
        "float64",
        "whole",
        "Tilt, standard error",
        "Standard error of tilt_mm_m; 1.645 of it on either side hold 90 %.",
        unit="mm/m",
    ),
    AnswerColumn(
        "tilt_towards",
        "float64",
        "whole",
        "Side that sinks by the tilt",
        "Side that sinks: compass degrees, 0 is north, clockwise. Empty where tilt_mm_m is below "
        "2 standard errors.",
        unit="degrees from north, clockwise",
    ),
    AnswerColumn(
        "against_neighbours_mm",
        "float64",
        "whole",
        "Settlement less the median of the neighbours",
        "settlement_mm less the median of the buildings within 100 m; empty with fewer than 3 of "
        "them.",
        unit="mm",
    ),
    AnswerColumn(
        "against_neighbours_std_mm",
        "float64",
        "whole",
        "Settlement less the median of the neighbours, standard error",
        "Standard error of against_neighbours_mm; 1.645 of it on either side hold 90 %.",
        unit="mm",
    ),
    AnswerColumn(
        "strain_resolution_permille",
        "float64",
        "whole",
        "Smallest severity that its points could show",
        "Smallest severity that the points alone show in 9 of 10 cases at best. From 3 up, or "
        "where it is empty, "
        "category 0 shows little: "
        "smaller severities rest on the training alone.",
        unit="permille",
    ),
    AnswerColumn(
        "model_version", "str", "building", "Version of the model", "Hash of the model package."
    ),
)
"""Columns in the contract's order; the footprint comes last."""


def _names(*groups: Group) -> tuple[str, ...]:
    return tuple(column.name for column in DECLARED if column.group in groups)


DTYPES = {column.name: column.dtype for column in DECLARED}
COLUMNS = (*DTYPES, "geometry")
"""All columns, the footprint last."""
JUDGEMENT, WHEN, WHOLE = _names("judgement", "when"), _names("when"), _names("whole")
"""Columns of the judgement, which are empty where the reason is none of `ANSWERED_REASONS`
(except `DAMAGE_COLUMNS`); those of them on when damage began and how fast it grows; columns
of the whole building's motion, for any reason."""
DAMAGE_COLUMNS = ("p_damaged", "damage_rate")
"""Columns of the judgement of every building that the model was run on, judged or not."""
OPTIONAL = tuple(column.name for column in DECLARED if column.is_optional)
"""Columns of the judgement that an answered building may lack: the points do not show it,
or no cause is near."""
ALIASES = {column.name: column.alias for column in DECLARED}
"""Name -> title with unit."""
DECIMALS = {column.name: column.decimals for column in DECLARED if column.dtype == "float64"}
"""Decimals in the map's data."""


PERMILLE_DECIMALS = 2
"""Decimals of a strain, wherever one is read: with one, 0.49 of category 0 would read as
0.5, of category 1."""
STRAINS = tuple(column.name for column in DECLARED if column.unit == "permille")
"""Columns that hold a strain."""
LIST_ORDER = ("p_damaged", "severity_permille")
"""Columns by which every list of buildings is sorted, the largest first."""


def has_answer(table: pd.DataFrame) -> NDArray[np.bool_]:
    """Return which buildings (B,) have a severity and quadrants: the judged ones, and those
    unsure where."""
    return np.asarray(table["reason"].isin(ANSWERED_REASONS), bool)


def format_counts(table: pd.DataFrame) -> str:
    """Return how many buildings there are, how many are judged, and of how many the place
    of the damage is not sure."""
    unsure = int((table["reason"] == UNSURE_WHERE).sum())
    place = f"; of {unsure:,} of these the place of the damage is not sure" if unsure else ""
    return (
        f"{len(table):,} building{'' if len(table) == 1 else 's'}, "
        f"{int(has_answer(table).sum()):,} judged{place}"
    )


def format_share(share: float) -> str:
    """Return a probability in percent, never 0 or 100."""
    return "< 1 %" if share < 0.01 else "> 99 %" if share > 0.99 else f"{100 * share:.0f} %"


def round_strain(
    strain: float,
    decimals: int = PERMILLE_DECIMALS,
    bounds: Sequence[float] = CATEGORY_BOUNDS_PERMILLE,
) -> float:
    """Round a strain, permille; down where the nearest value is the next of `bounds`, as
    0.4996 to 0.49."""
    rounded = round(strain, decimals)
    step = 10**-decimals if strain < rounded and rounded in bounds else 0
    return round(rounded - step, decimals)


def format_permille(strain: float, bounds: Sequence[float] = CATEGORY_BOUNDS_PERMILLE) -> str:
    """Return a strain, permille, with its decimals, see `round_strain`."""
    return f"{round_strain(strain, bounds=bounds):.{PERMILLE_DECIMALS}f}"


def json_schema() -> dict[str, Any]:
    """Return the JSON schema of a building's properties in GeoJSON; `x-unit` is the unit,
    and null is an empty cell."""
    properties: dict[str, Any] = {}
    for column in DECLARED:
        kind = JSON_TYPES[column.dtype]
        properties[column.name] = {
            "type": kind if column.group == "building" else [kind, "null"],
            "title": column.title,
            "description": column.sentence,
            **({"x-unit": column.unit} if column.unit else {}),
        }
    return {
        "type": "object",
        "description": "Columns of the answer of `predict`.",
        "properties": properties,
    }


def markdown_table() -> str:
    """Return the columns as the table of `docs/answers.md`; columns with one sentence share a
    row."""
    lines = ["| column | unit | meaning |", "|---|---|---|"]
    for (sentence, unit), columns in groupby(
        DECLARED, key=lambda column: (column.sentence, column.unit)
    ):
        names = ", ".join(f"`{column.name}`" for column in columns)
        lines.append(f"| {names} | {unit} | {sentence.replace('|', chr(92) + '|')} |")
    return "\n".join(lines)
