"""Options of a command that are the fields of a model."""

from __future__ import annotations

from typing import Annotated

import pytest
from pydantic import BaseModel, Field
from typer.testing import CliRunner

from plumbline.cli.options import Commands, Without
from plumbline.params import JudgingOptions, ReadingOptions
from plumbline.serve.options import make_options, make_reading


class Asked(BaseModel):
    town: str = Field(description="Name of the town.")
    share: float = Field(default=0.5, ge=0, le=1, description="Share of the town.")
    depth_m: int = 3


app = Commands()


@app.command()
def show(asked: Annotated[Asked, Without({"depth_m"})], times: int = 1) -> None:
    print(asked.town, asked.share, asked.depth_m, times)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("--town Utrecht --share 0.25 --times 2", 0, "Utrecht 0.25 3 2"),
        ("--town Utrecht", 0, "Utrecht 0.5 3 1"),
        ("--share 0.25", 2, "Missing option '--town'"),
        ("--town Utrecht --share 1.25", 2, "Invalid value for '--share'"),
        ("--town Utrecht --depth-m 4", 2, "No such option: --depth-m"),
        ("--help", 0, "Name of the town."),
    ],
)
def test_a_command_takes_the_fields_of_a_model(words, code, said):
    ended = CliRunner().invoke(app, words.split(), env={"NO_COLOR": "1"})
    assert ended.exit_code == code
    assert said in ended.output


def test_options_say_how_a_city_is_read_and_judged(tmp_path):
    (tmp_path / "p.yaml").write_text("ingest: {min_coherence: 0.4}\n")
    asked = JudgingOptions(layer="town", since="2022-01-31", damage_rate="0.02", damage_rate_by="city")
    options = make_options(asked, tmp_path / "p.yaml")
    assert (options.damage_rate, options.by_place, options.min_quadrant_confidence) == (0.02, False, None)
    assert options.reading == make_reading(ReadingOptions(layer="town", since="2022-01-31"), tmp_path / "p.yaml")
    assert (options.reading.layer, options.reading.ingest.min_coherence) == ("town", 0.4)
