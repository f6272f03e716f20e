"""One Chromium for the tests of the map, and a window in it that nobody else may be asked by."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.browser import BROWSER
from tests.waiting import PATIENCE_S

SOFTWARE_GL = ("--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--ignore-gpu-blocklist")

DRAWN = """async () => {
    while (!performance.getEntriesByName("map drawn").length) await new Promise(done => setTimeout(done, 20))
}"""


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    if BROWSER is None:
        pytest.skip("no Chromium found")
    with playwright.sync_playwright() as play:
        browser = play.chromium.launch(executable_path=BROWSER, args=list(SOFTWARE_GL), timeout=PATIENCE_S * 1000)
        yield browser
        browser.close()


@pytest.fixture
def visit(chromium: Any) -> Iterator[Callable[..., Any]]:
    """Open an address; in the end nothing may have been said on the console, and nobody else been asked."""
    heard: list[str] = []
    contexts = []

    def open_(address: str, width: int = 1200, height: int = 800, may_complain: bool = False) -> Any:
        context = chromium.new_context(viewport={"width": width, "height": height}, accept_downloads=True)
        context.set_default_timeout(PATIENCE_S * 1000)
        contexts.append(context)
        window = context.new_page()
        if not may_complain:
            window.on("console", lambda message: heard.append(f"{message.type}: {message.text}"))
        window.on("pageerror", lambda error: heard.append(str(error)))
        own = address.split("#")[0]
        window.on(
            "request",
            lambda request: (
                heard.append(request.url[:200]) if not request.url.startswith(("data:", "blob:", own)) else None
            ),
        )
        window.goto(address)
        if address.startswith("file:"):
            window.evaluate(DRAWN)
        return window

    yield open_
    for context in contexts:
        context.close()
    assert heard == []
