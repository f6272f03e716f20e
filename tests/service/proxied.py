"""A reverse proxy that shows a service under a path, as nginx does with `proxy_pass` and `X-Forwarded-Prefix`."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx

from tests.waiting import PATIENCE_S

OWN = ("transfer-encoding", "connection", "content-length", "date", "server", "content-encoding", "host")
"""Headers that each connection has for itself."""


@contextmanager
def proxied(address: str, prefix: str) -> Iterator[str]:
    """Yield the address under which the service at `address` is shown."""

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            if not self.path.startswith(f"{prefix}/"):
                return self.send_error(404)
            headers = {name: value for name, value in self.headers.items() if name.lower() not in OWN}
            told = httpx.request(
                self.command,
                address + self.path.removeprefix(prefix),
                headers=headers | {"X-Forwarded-Prefix": prefix},
                content=self.rfile.read(int(self.headers.get("content-length", 0))),
                timeout=PATIENCE_S,
            )
            self.send_response(told.status_code)
            for name, value in told.headers.items():
                if name.lower() not in OWN:
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(told.content)))
            self.end_headers()
            self.wfile.write(told.content)
            return None

        do_GET = do_POST = do_DELETE = answer

        def log_message(self, *said: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}{prefix}"
    finally:
        server.shutdown()
        server.server_close()
