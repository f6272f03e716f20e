"""Pages in a real browser, headless and with the network off."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
in_browser = pytest.mark.skipif(BROWSER is None, reason="no Chromium found")
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --hide-scrollbars --enable-logging=stderr --virtual-time-budget=10000"
)


def browse(page: Path, profile: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    """Open the page with the network off; what it writes to its console is in stderr."""
    offline = "--host-resolver-rules=MAP * ~NOTFOUND"
    command = [str(BROWSER), *FLAGS.split(), offline, f"--user-data-dir={profile}", *flags, page.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, check=True)


def complaints(stderr: str) -> list[str]:
    return [line for line in stderr.splitlines() if "CONSOLE" in line]


FRAME = """<!DOCTYPE html><iframe src="{}" width="{}" height="{}"></iframe><pre id="said"></pre>
<script>onmessage = ({{data}}) => document.getElementById("said").textContent = JSON.stringify(data)</script>"""


def framed(page: Path, folder: Path, look: str, width: int, height: int) -> dict[str, Any]:
    """What the script `look` posts to the page's parent: in a frame, as no window of a browser is narrow as a phone."""
    head, end, tail = page.read_text(encoding="utf-8").rpartition("</body>")
    (folder / "looked.html").write_text(f"{head}<script>{look}</script>{end}{tail}", encoding="utf-8")
    (folder / "frame.html").write_text(FRAME.format("looked.html", width, height), encoding="utf-8")
    done = browse(folder / "frame.html", folder / "profile", "--window-size=1400,900", "--dump-dom")
    assert complaints(done.stderr) == []
    found = re.search('<pre id="said">(.+?)</pre>', done.stdout, re.DOTALL)
    assert found
    said: dict[str, Any] = json.loads(found[1].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))
    return said


TEXTS = """
onload = () => {
    // Of each text in a drawing: the size of its letters and its ends, px of the page, and those of the drawing.
    const texts = [...document.querySelectorAll("svg text")].map(text => {
        const {left, right} = text.getBoundingClientRect(), svg = text.ownerSVGElement
        const box = svg.getBoundingClientRect(), scale = svg.getScreenCTM().a
        const size = parseFloat(getComputedStyle(text).fontSize) * scale
        return {text: text.textContent, size, left: left - box.left, right: box.right - right}
    })
    parent.postMessage({width: innerWidth, page: document.documentElement.scrollWidth, texts}, "*")
}
"""
