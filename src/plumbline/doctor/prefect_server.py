"""Check the Prefect server, where one is set: it answers, has this version, and has live workers."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any
from urllib.parse import quote

import yaml

from plumbline.core.extras import install, is_installed
from plumbline.doctor.finding import Finding, Place, fault, nothing, ok, warning
from plumbline.doctor.probes import ask, prefect_api

DEPLOYMENTS = Path("prefect.yaml")


def check_server(_: Place) -> Iterator[Finding]:
    """Check the server at PREFECT_API_URL, and that each pool in prefect.yaml has a worker."""
    api = prefect_api()
    if api is None:
        yield nothing("PREFECT_API_URL is not set: every run starts a server of its own, and there is no schedule")
        return
    if not is_installed("prefect"):
        yield nothing(f"PREFECT_API_URL is set and Prefect is not installed ({install('pipeline')})")
        return
    url, headers = api
    try:
        healthy = ask(f"{url}/health", headers=headers).content
        version = str(ask(f"{url}/admin/version", headers=headers).content)
        pools = ask(f"{url}/work_pools/filter", {}, headers).content
    except (OSError, ValueError) as error:
        yield fault(
            f"{url}: the Prefect server does not answer ({error})",
            "Start it (here: `make up`), or correct PREFECT_API_URL, which ends in /api; unset it to run "
            "without a server.",
        )
        return
    if healthy is not True or not isinstance(pools, list):
        yield fault(f"{url}: what answers is no Prefect server", "Correct PREFECT_API_URL, which ends in /api.")
        return
    own = metadata.version("prefect")
    if version == own:
        yield ok(f"{url}: Prefect {version} answers")
    else:
        yield warning(
            f"{url}: the server has Prefect {version}, and this machine {own}",
            f"Install Prefect {own} on the server first, then on every worker.",
        )
    named = {str(pool.get("name")): pool for pool in pools}
    for name in _wanted() or sorted(named):
        yield _pool(name, named.get(name), url, headers)
    if not named and not _wanted():
        yield warning("no work pool is there", "`prefect work-pool create --type process cpu`.")


def _pool(name: str, pool: Any, url: str, headers: dict[str, str]) -> Finding:
    if pool is None:
        return fault(
            f"{DEPLOYMENTS} sends runs to the work pool {name}, which the server does not have",
            f"`prefect work-pool create --type process {name}`.",
        )
    if pool.get("is_paused"):
        return warning(f"the work pool {name} is paused: no run of it starts", f"`prefect work-pool resume {name}`.")
    workers = ask(f"{url}/work_pools/{quote(name, safe='')}/workers/filter", {}, headers).content
    alive = [worker for worker in workers if worker.get("status") == "ONLINE"]
    if alive:
        return ok(f"work pool {name}: {len(alive)} workers alive ({', '.join(str(item['name']) for item in alive)})")
    heard = max((str(item.get("last_heartbeat_time") or "") for item in workers), default="")
    last = f", the last was heard of at {heard[:19]} UTC" if heard else ""
    return fault(
        f"the work pool {name} has no worker that is alive{last}: its runs stay late for ever",
        f"`PLUMBLINE_HOME=$PWD prefect worker start --pool {name}` on a machine of this pool.",
    )


def _wanted() -> list[str]:
    """List the pools that the deployments use."""
    try:
        content: Any = yaml.safe_load(DEPLOYMENTS.read_text(encoding="utf-8"))
        names = [item.get("work_pool", {}).get("name") for item in content["deployments"]]
    except (OSError, UnicodeDecodeError, yaml.YAMLError, TypeError, KeyError, AttributeError):
        return []
    return sorted({name for name in names if isinstance(name, str) and "{{" not in name})
