"""Write pages and pictures of the site from the notebooks in docs/notebooks, as they were saved."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parents[1]
NOTEBOOKS = {
    f"notebooks/{path.stem}.md": path for path in sorted((DOCS / "notebooks").glob("*.ipynb"))
}
"""Each notebook, by the path of its page."""


def code(path: Path) -> list[str]:
    """Return the code cells of a notebook."""
    return ["".join(cell["source"]) for cell in _cells(path) if cell["cell_type"] == "code"]


def files(place: str) -> Iterator[tuple[str, str | bytes]]:
    """Yield path and content of the page of a notebook, and of each picture on it."""
    path = NOTEBOOKS[place]
    parts = []
    for cell in _cells(path):
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        for output in cell.get("outputs", []):
            if picture := output.get("data", {}).get("image/png"):
                name = f"{path.stem}-{len(parts)}.png"
                parts.append(f"![What the lines above draw]({name})")
                yield f"notebooks/{name}", base64.b64decode(picture)
            else:
                parts.append(f"```text\n{''.join(output['text']).rstrip()}\n```")
    title, _, rest = "\n\n".join(parts).partition("\n")
    yield place, f"{title}\n\n[Download the notebook]({path.name}).\n{rest}"


def _cells(path: Path) -> list[dict[str, Any]]:
    cells: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return cells
