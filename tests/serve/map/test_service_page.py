"""The page of the service in a real browser, with the real service behind it: files in, a map out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.service.proxied import proxied
from tests.service.served import ended, process
from tests.waiting import PATIENCE_S

pytest.importorskip("fastapi")
pytestmark = [pytest.mark.browser, pytest.mark.slow]
TOKEN = "a-token-of-many-letters"


@pytest.fixture(scope="module")
def address(package: Path, fields_package: Path, tmp_path_factory: Any) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("service") / "s"
    with process(folder, package, "--restoration-model", str(fields_package)) as (_, address):
        yield f"{address}/"


def send(window: Any, points: list[Path], buildings: Path) -> None:
    window.locator("input[name=points]").set_input_files(points)
    window.locator("input[name=buildings]").set_input_files(buildings)
    window.get_by_role("button", name="Judge the buildings").click()


def begun(window: Any) -> list[str]:
    """Addresses of the jobs that the window will have begun."""
    found: list[str] = []

    def heard(answer: Any) -> None:
        if answer.request.method == "POST" and answer.status == 202:
            found.append(answer.headers["location"])

    window.on("response", heard)
    return found


def test_files_are_judged_and_restored_and_the_map_is_shown(address: str, visit: Any, city: Any) -> None:
    window = visit(address)
    jobs = begun(window)
    window.get_by_text("Options").click()
    window.get_by_label("Share of damaged buildings").fill("0.1")
    window.get_by_label("Also restore a field").check()
    send(window, city.products(), city.footprints)
    window.locator(".viewer").wait_for()
    told = [httpx.get(address.rstrip("/") + job, timeout=PATIENCE_S).json() for job in jobs]
    assert [(job["kind"], job["status"]) for job in told] == [("predict", "done"), ("restore", "done")]
    asked = {"headers": {"accept": "text/csv"}, "timeout": PATIENCE_S}
    judged = httpx.get(f"{address.rstrip('/')}{jobs[0]}/result", **asked).text
    assert window.evaluate("window.plumbline.city.buildings.length") == len(judged.splitlines()) - 1
    assert window.get_by_label("Field", exact=True).locator("option").count() > 1  # none, and what was restored
    names = [job.rsplit("/", 1)[1] for job in jobs]
    assert f"{address}?job={names[0]}&job={names[1]}" == window.url.split("#")[0]
    window.reload()
    window.locator(".viewer").wait_for()
    with window.expect_download() as saved:
        window.get_by_role("button", name="Report as PDF").click()
    assert Path(saved.value.path()).read_bytes()[:5] == b"%PDF-"
    another = visit(address)
    listed = another.get_by_role("region", name="Your jobs").get_by_role("link")
    listed.first.wait_for()
    assert [one.get_attribute("href") for one in listed.all()][:2] == [f"?job={name}" for name in names[::-1]]
    listed.first.click()
    another.locator(".viewer.without-list").wait_for()  # the field alone
    window.get_by_text("Results", exact=True).click()
    with window.expect_download() as saved:
        window.get_by_role("button", name="Save the result as CSV").click()
    assert Path(saved.value.path()).read_text() == judged
    with window.expect_download() as saved:
        window.get_by_role("button", name="Save the result as GeoTIFF of the field").click()
    assert Path(saved.value.path()).read_bytes()[:2] in (b"II", b"MM")


@pytest.mark.parametrize(
    ("label", "value", "said"),
    [
        ("Share of damaged buildings", "lots", "\u201cShare of damaged buildings\u201d lots: "),
        ("Since", "2100-01-01", "2100-01-01"),
        (None, None, "cut.csv"),
    ],
    ids=["of the form", "of the job", "of a file"],
)
def test_a_problem_is_told(
    address: str, visit: Any, city: Any, tmp_path: Path, label: str | None, value: str, said: str
) -> None:
    cut = tmp_path / "cut.csv"
    cut.write_text("this is no table of points\n")
    window = visit(address, may_complain=label == "Share of damaged buildings")
    if label is not None:
        window.get_by_text("Options").click()
        window.get_by_label(label).fill(value)
    send(window, [cut] if label is None else city.products(), city.footprints)
    window.get_by_role("alert").filter(has_text=said).wait_for()
    assert window.get_by_role("button", name="Judge the buildings").is_visible()


def test_a_job_is_cancelled(address: str, visit: Any, city: Any) -> None:
    window = visit(address)
    with window.expect_response(lambda answer: answer.status == 202) as accepted:
        send(window, city.products(), city.footprints)
    job = accepted.value.headers["location"]
    window.get_by_role("button", name="Cancel").click()
    window.get_by_role("alert").filter(has_text="Cancelled").wait_for()
    with httpx.Client(timeout=PATIENCE_S) as client:
        left = ended(client, job.rsplit("/", 1)[1], address.rstrip("/")) if found(address, job) else None
    assert left is None or left["status"] == "cancelled"


def found(address: str, job: str) -> bool:
    """Whether the service knows a job: one that waited is forgotten as it is cancelled."""
    return httpx.get(address.rstrip("/") + job, timeout=PATIENCE_S).status_code == 200


def test_a_token_is_asked_for_first_and_a_proxy_may_show_the_page_under_a_path(
    visit: Any, city: Any, package: Path, tmp_path: Path
) -> None:
    secret = tmp_path / "token"
    secret.write_text(TOKEN)
    secret.chmod(0o600)
    with (
        process(tmp_path / "s", package, "--token-file", str(secret)) as (_, address),
        proxied(address, "/tools/plumbline") as shown,
    ):
        window = visit(f"{shown}/", may_complain=True)
        window.get_by_label("Token", exact=True).last.fill("not-the-token-at-all")
        window.get_by_role("button", name="Go on").click()
        window.get_by_role("alert").filter(has_text="does not know this token").wait_for()
        window.get_by_label("Token", exact=True).last.fill(TOKEN)
        window.get_by_role("button", name="Go on").click()
        window.get_by_text("None yet.").wait_for()
        send(window, city.products(), city.footprints)
        window.locator(".viewer").wait_for()
        window.reload()
        window.locator(".viewer").wait_for()
        assert window.evaluate("[localStorage.length, Object.values(sessionStorage)]") == [0, [TOKEN]]
        window.get_by_role("link", name="Your jobs").click()
        window.get_by_role("region", name="Your jobs").get_by_role("link").click()
        window.locator(".viewer").wait_for()
        window.goto(f"{shown}/docs")
        window.get_by_role("link", name="openapi.json").click()
        assert json.loads(window.inner_text("body"))["servers"] == [{"url": "/tools/plumbline"}]
