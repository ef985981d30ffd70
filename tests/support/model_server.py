"""A server on this machine that speaks the APIs of model providers: chat completions, and reranking."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Reply = tuple[int, Any]
Answer = Callable[[str, dict[str, Any]], Reply]


@dataclass
class ModelServer:
    """`url` is where it answers; every request's path, body and headers are on record.

    `answer` makes status and body of a path and a request; bytes go out as they are. `delay_s` passes before each
    reply, and `trickle_s` between its bytes.
    """

    answer: Answer
    url: str = ""
    delay_s: float = 0.0
    trickle_s: float = 0.0
    requests: list[tuple[str, dict[str, Any], dict[str, str]]] = field(default_factory=list)
    most_at_once: int = 0
    _now: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [body for _, body, _ in self.requests]

    def take(self, path: str, body: dict[str, Any], headers: dict[str, str]) -> Reply:
        with self._lock:
            self.requests.append((path, body, headers))
            self._now += 1
            self.most_at_once = max(self.most_at_once, self._now)
        try:
            time.sleep(self.delay_s)
            return self.answer(path, body)
        finally:
            with self._lock:
                self._now -= 1


@contextmanager
def model_server(answer: Answer, *, delay_s: float = 0.0, trickle_s: float = 0.0) -> Iterator[ModelServer]:
    state = ModelServer(answer=answer, delay_s=delay_s, trickle_s=trickle_s)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status, reply = state.take(self.path, body, dict(self.headers))
            content = reply if isinstance(reply, bytes) else json.dumps(reply).encode()
            try:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                if status in (301, 302, 307, 308):
                    self.send_header("Location", "http://127.0.0.1:9/elsewhere")
                self.end_headers()
                for start in range(len(content)) if state.trickle_s else ():
                    self.wfile.write(content[start : start + 1])
                    self.wfile.flush()
                    time.sleep(state.trickle_s)
                if not state.trickle_s:
                    self.wfile.write(content)
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True  # the caller's time was over

        def log_message(self, format: str, *args: Any) -> None:
            """Nobody reads it."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    state.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def completion(text: str, *, prompt_tokens: int = 100, completion_tokens: int = 10) -> Reply:
    return 200, {
        "id": "chat-1",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens},
    }


def asked(body: dict[str, Any]) -> str:
    """The user's part of a chat completion's request."""
    return next(str(message["content"]) for message in body["messages"] if message["role"] == "user")


def word_overlap(question: str, passage: str) -> float:
    """A score that a reranker could give: the share of the question's words that the passage holds."""
    words = set(question.lower().split())
    return len(words & set(passage.lower().split())) / max(1, len(words))
