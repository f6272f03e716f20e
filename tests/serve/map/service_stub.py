"""A stand-in for the service: keeps what it is sent, and answers as its API does, a step a question."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Service:
    """One server on 127.0.0.1, in a thread; `page` is served at `/`, `document` is every job's map."""

    def __init__(self, page: str, document: dict[str, Any], token: str | None = None) -> None:
        self.page, self.document, self.token = page, document, token
        self.sent: list[tuple[str, bytes]] = []
        self.deleted: list[str] = []
        self.problem: dict[str, Any] | None = None
        self.endless = False
        self.asked = 0
        service = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, format: str, *args: object) -> None:
                """Stay quiet."""

            def answer(self, status: int, content: Any, kind: str = "application/json") -> None:
                body = content.encode() if isinstance(content, str) else json.dumps(content).encode()
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def refused(self) -> bool:
                if service.token is None or self.headers.get("Authorization") == f"Bearer {service.token}":
                    return False
                self.answer(401, {"title": "Token needed", "status": 401}, "application/problem+json")
                return True

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.refused():
                    return
                if service.problem:
                    self.answer(service.problem["status"], service.problem, "application/problem+json")
                    return
                service.sent.append((self.path, body))
                self.answer(202, {"id": f"j{len(service.sent)}", "status": "queued"})

            def do_DELETE(self) -> None:
                service.deleted.append(self.path)
                self.answer(202, {})

            def do_GET(self) -> None:
                if self.path == "/":
                    return self.answer(200, service.page, "text/html; charset=utf-8")
                if self.refused():
                    return None
                if self.path.endswith("/map"):
                    return self.answer(200, service.document)
                if self.path.startswith("/v1/jobs/"):
                    service.asked += 1
                    done = service.asked > 1 and not service.endless
                    progress = {"step": "points", "done": 3, "total": 10}
                    job = {"status": "done" if done else "running", "progress": progress, "problem": None}
                    return self.answer(200, {"id": "j1", "kind": "predict", **job})
                return self.answer(404, {"title": "Not found", "status": 404}, "application/problem+json")

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}/"

    def __enter__(self) -> Service:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()
