"""Open what a command judges: check its files, open the model and read the city."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from plumbline.serve.judgement import JudgedCity, OpenModel, answer, open_model
from plumbline.serve.options import AS_RELEASED, Options
from plumbline.serve.predictions import Outputs, check_inputs, check_outputs
from plumbline.sources.city.in_memory import CityInMemory, Say, read_city_files
from plumbline.sources.files.opened import AnyFile, as_file


@dataclass(frozen=True)
class Request:
    """A city to judge, the model that judges it, and how."""

    points: Sequence[AnyFile]
    """Product files, each one track."""
    buildings: Path
    """Footprints."""
    package: Path
    """Folder of a model package."""
    options: Options = AS_RELEASED
    """Settings for reading the files and judging the answers."""
    artifact: str | None = None
    """Model of the package; None: its default one."""

    @property
    def title(self) -> str:
        """Return the title of a page about the city."""
        return f"Plumbline: {self.buildings.stem}"


class OpenCity(NamedTuple):
    """A city in memory, and the model that judges it."""

    city: CityInMemory
    model: OpenModel
    options: Options

    def answer(self, areas: bool = False) -> JudgedCity:
        """Judge the city, see `judgement.answer`."""
        return answer(self.city, self.model, self.options, areas)


def open_city(
    request: Request, outputs: Outputs, also_read: Sequence[Path] = (), say: Say = Say.ALL
) -> OpenCity:
    """Check the files that a command reads and writes, open the model and read the city.

    Args:
        request: what is judged. outputs: files that the command writes.
        also_read: files that it reads besides. say: checks of the city that the user hears of.

    Raises:
        InputError: anything given is missing, damaged or does not fit together, or an
            output cannot be written.
    """
    options = request.options
    inputs = [
        *(as_file(file).path for file in request.points),
        request.buildings,
        *also_read,
        *options.files,
    ]
    check_inputs(inputs)
    check_outputs(outputs, inputs, request.package)
    model = open_model(request.package, request.artifact)
    folder = outputs.table.absolute().parent
    return OpenCity(
        read_city_files(request.points, request.buildings, options.reading, say, folder),
        model,
        options,
    )
