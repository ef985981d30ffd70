"""A Strata API on a loopback port that says what a test has written for it, and remembers what it was asked."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.parser import BytesParser
from email.policy import HTTP
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs


@dataclass(frozen=True, kw_only=True)
class Request:
    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)

    def form(self) -> dict[str, bytes]:
        """The parts of a multipart/form-data body, in order."""
        head = f"Content-Type: {self.headers['content-type']}\r\n\r\n".encode()
        message = BytesParser(policy=HTTP).parsebytes(head + self.body)
        parts = {}
        for part in message.iter_parts():
            parts[str(part.get_param("name", header="content-disposition"))] = part.get_payload(decode=True)
        return parts  # type: ignore[return-value]


@dataclass(frozen=True, kw_only=True)
class Reply:
    """`chunks` are sent one by one, `pause_s` apart; `cut` closes the connection without the end of the body."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    chunks: Sequence[bytes] = ()
    pause_s: float = 0.0
    cut: bool = False


def json_reply(value: object, status: int = 200, **headers: str) -> Reply:
    return Reply(
        status=status, headers={"content-type": "application/json", **headers}, chunks=[json.dumps(value).encode()]
    )


def error_reply(status: int, code: str, message: str, **headers: str) -> Reply:
    return json_reply({"error": {"code": code, "message": message}}, status, **headers)


def sse_reply(*chunks: bytes, **options: Any) -> Reply:
    return Reply(headers={"content-type": "text/event-stream"}, chunks=chunks, **options)


def sse(name: str, data: object, id: int | None = None) -> bytes:
    """One event in its frame."""
    head = "" if id is None else f"id: {id}\n"
    return f"{head}event: {name}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


DROP = Reply(status=0)
"""Close the connection without a word."""


class FakeApi:
    """`on` scripts a route's replies, one a request, the last one for ever; a callable sees the request."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self._routes: dict[tuple[str, str], list[Reply | Callable[[Request], Reply]]] = {}
        self._lock = threading.Lock()
        self.url = ""

    def on(self, method: str, path: str, *replies: Reply | Callable[[Request], Reply]) -> None:
        self._routes[method, path] = list(replies)

    def asked(self, method: str, path: str) -> list[Request]:
        return [request for request in self.requests if (request.method, request.path) == (method, path)]

    def answer(self, request: Request) -> Reply:
        with self._lock:
            self.requests.append(request)
            script = self._routes.get((request.method, request.path))
            if not script:
                return error_reply(404, "route_not_found", f"There is no {request.method} {request.path}.")
            reply = script.pop(0) if len(script) > 1 else script[0]
        return reply(request) if callable(reply) else reply


@contextmanager
def fake_api() -> Iterator[FakeApi]:
    api = FakeApi()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _handle(self) -> None:
            path, _, query = self.path.partition("?")
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            reply = api.answer(Request(method=self.command, path=path, query=query, headers=headers, body=body))
            self.close_connection = True
            if reply.status == 0:
                return
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.send_header("transfer-encoding", "chunked")
            self.send_header("connection", "close")
            self.end_headers()
            for chunk in reply.chunks:
                self.wfile.write(f"{len(chunk):x}\r\n".encode() + chunk + b"\r\n")
                self.wfile.flush()
                if reply.pause_s:
                    time.sleep(reply.pause_s)
            if not reply.cut:
                self.wfile.write(b"0\r\n\r\n")

        do_GET = do_POST = do_HEAD = do_PATCH = do_DELETE = _handle  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: Any, client_address: Any) -> None:
            if not isinstance(sys.exception(), ConnectionError):  # a client may leave when it likes
                super().handle_error(request, client_address)

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    api.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield api
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


# --- what a well-behaved Strata says ----------------------------------------------------------------------------------

SESSION: dict[str, Any] = {
    "session_id": "shop",
    "project_id": "shop",
    "repo_id": "shop",
    "owner": "user:local",
    "readers": [],
    "generation": 3,
    "embedding_model": "minilm",
    "dimension": 384,
}


def job_view(status: str = "done", **changes: Any) -> dict[str, Any]:
    counters = {
        "indexed_files": 2,
        "failed_files": 0,
        "cache_hit_files": 1,
        "cache_miss_files": 1,
        "skipped_files": 1,
        "deleted_files": 0,
    }
    job = {
        "job_id": "job-1",
        "session_id": "shop",
        "kind": "snapshot",
        "status": status,
        "seq": 1,
        "created_at": "2026-01-02T03:04:05Z",
        "updated_at": "2026-01-02T03:04:06Z",
        "counters": counters,
        "chunks": 7,
        "generation": 3,
        "skipped": [{"path": "logo.png", "reason": "binary"}],
        "failed": [],
        "notes": [],
        "note_count": 0,
        "preambles": None,
        "error": None,
        "links": {"self": "/api/rag/jobs/job-1", "events": "/api/rag/jobs/job-1/events"},
    }
    return {**job, **changes}


QUERY = "/api/rag/sessions/shop/query"
EVENTS = "/api/rag/jobs/job-1/events"
ANSWER_TEXT = "Ретрай waits 2 s [1]. It gives up after five [2]."
SOURCES = [
    {
        "n": n,
        "path": path,
        "layer": "C0_SOURCE_CHUNKS",
        "title": "retry",
        "lines": [1, 9],
        "blob_sha": "0" * 64,
        "score": 0.03,
    }
    for n, path in ((1, "src/retry.py"), (2, "docs/retry.md"))
]
CITATIONS = [
    {"n": 1, "path": "src/retry.py", "lines": [4, 4], "quote": "DELAY_S = 2", "supported": True},
    {"n": 2, "path": "docs/retry.md", "lines": [2, 3], "quote": "It gives up after five.", "supported": True},
]


def answer_events() -> bytes:
    """A whole answer as the query function streams it."""
    done = {
        "answer": ANSWER_TEXT,
        "grounded": True,
        "abstained": False,
        "usage": {},
        "timings_ms": {"sources": 20, "first_delta": 30, "total": 40},
    }
    return b"".join(
        [
            sse(
                "meta",
                {
                    "query_id": "q-1",
                    "session_id": "shop",
                    "generation": 3,
                    "model": "extractive",
                    "cache": "miss",
                    "notes": [],
                },
            ),
            sse("sources", SOURCES),
            b": still here\n\n",
            *(sse("delta", {"text": text}) for text in (ANSWER_TEXT[:10], ANSWER_TEXT[10:])),
            *(sse("citation", citation) for citation in CITATIONS),
            sse("something_new", {"to": "pass over"}),
            sse("done", done),
        ]
    )


def row(path: str = "src/retry.py", **changes: Any) -> dict[str, Any]:
    found = {
        "path": path,
        "layer": "C0_SOURCE_CHUNKS",
        "title": "retry",
        "content": "DELAY_S = 2",
        "metadata": {},
        "span_start": 1,
        "span_end": 9,
        "score": 0.0325,
        "dense_rank": 1,
        "distance": 0.4,
        "lexical_rank": 2,
        "bm25": 3.5,
        "prefer_bonus": 0,
        "test_penalty": 0,
        "layer_rank": 0,
        "exact_rank": None,
        "structural_rank": None,
        "also": [],
        "explain": None,
        "blob_sha": "0" * 64,
        "chunk_id": 1,
    }
    return {**found, **changes}


LETTER = {
    "id": "letter-1",
    "session_id": None,
    "object_key": "uploads/nobody/a.zip",
    "reason": "There is no such session.",
    "created_at": "2026-11-30T12:00:00Z",
}


INDEXED = {
    "docs/a b.md": "# Guide\n\n## How a lease is renewed\n\nEvery third of it.\n",
    "lock.py": 'def release(owner):\n    """Give the lock back to whoever waits for it."""\n    table.remove(owner)\n',
    "z.txt": "z",
}


def file_page(request: Request) -> Reply:
    """Two files a page."""
    after = parse_qs(request.query).get("after", [""])[0]
    files = [{"path": path, "blob_sha": "0" * 64, "text": text} for path, text in INDEXED.items() if path > after][:2]
    return json_reply({"session_id": "shop", "files": files, "next": files[-1]["path"] if files else None})


def behave_well(api: FakeApi) -> None:
    """Every route of a Strata that has the session `shop` with one job, `job-1`."""
    fields = {"key": "uploads/shop/job-1.tar.gz", "Content-Type": "application/gzip", "policy": "p"}
    form = {"url": f"{api.url}/store", "fields": fields, "expires_in_s": 3600, "key": fields["key"]}
    waiting = job_view("awaiting_upload", seq=None)
    api.on("POST", "/api/rag/sessions", json_reply({"session": SESSION, "job": waiting, "upload": form}, 201))
    api.on("POST", "/store", Reply(status=204))
    api.on("GET", "/api/rag/sessions", json_reply({"sessions": [SESSION]}))
    api.on("GET", "/api/rag/sessions/shop", json_reply(SESSION))
    api.on("POST", "/api/rag/sessions/shop/changes", json_reply({"job": job_view("queued")}, 202))
    api.on("GET", "/api/rag/sessions/shop/jobs", json_reply({"jobs": [job_view()]}))
    api.on("PATCH", "/api/rag/sessions/shop", json_reply(SESSION))
    api.on("DELETE", "/api/rag/sessions/shop", Reply(status=204))
    api.on("GET", "/api/rag/jobs", json_reply({"jobs": [job_view("error")], "dead_letters": [LETTER]}))
    api.on("POST", "/api/rag/jobs/job-1/cancel", json_reply({"job": job_view("cancelled")}, 202))
    api.on("POST", "/api/rag/jobs/job-1/retry", json_reply({"job": job_view("queued")}, 202))
    api.on("GET", "/api/rag/sessions/shop/files", file_page)
    drifted = {"path": "docs/a.md", "line": 3, "kind": "symbol", "name": "shop.Gone", "known": "shop"}
    drift = {"session_id": "shop", "drift": [drifted], "truncated": False}
    api.on("GET", "/api/rag/sessions/shop/drift", json_reply(drift))
    place = {"path": "shop/orders.py", "name": "shop.orders.place", "line": 7}
    link = {"kind": "calls", "path": "shop/web.py", "line": 4, "symbol": "shop.web.post", "target": "shop.orders.place"}
    links = {"session_id": "shop", "uses": [], "used_by": [{**link, "leads_to": place}], "truncated": True}
    api.on("GET", "/api/rag/sessions/shop/links", json_reply(links))
    api.on("GET", "/api/rag/jobs/job-1", json_reply(job_view()))
    progress = {"status": "running", "phase": "preparing", "done_files": 1, "total_files": 2, "counters": {}}
    api.on(
        "GET",
        "/api/rag/jobs/job-1/events",
        sse_reply(sse("index_status", progress, 1) + b"retry: 50\n\n"),
        sse_reply(sse("terminal", job_view(), 2) + b"retry: 50\n\n"),
    )
    api.on("POST", "/api/rag/sessions/shop/query", sse_reply(answer_events()))
    retrieved = {"session_id": "shop", "generation": 3, "embedding_model": "minilm", "notes": [], "rows": [row()]}
    api.on("POST", "/api/rag/sessions/shop/retrieve", json_reply(retrieved))
    api.on("GET", "/health", json_reply({"status": "ok", "version": "0.1.0"}))
