"""What models have answered, kept between runs, with the time that it took: nothing is paid for twice."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from strata.model.chat import Completion, ModelUsage, Prompt
from strata.ports.embedding import TokenCounter
from strata.ports.generation import ChatModel
from strata.ports.reranking import PassageScorer


class ReplyCache:
    """A SQLite file: the hash of a request → the reply as JSON, and its seconds. For any number of threads."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._connection = sqlite3.connect(path, timeout=60.0, check_same_thread=False)
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute(
            "CREATE TABLE IF NOT EXISTS replies (key BLOB PRIMARY KEY, reply TEXT NOT NULL, seconds REAL NOT NULL)"
        )

    def reply(self, request: object, ask: Callable[[], str]) -> tuple[str, float]:
        """The reply, asked for only the first time, and the seconds that this call saved; a failure is not kept."""
        key = hashlib.sha256(json.dumps(request).encode()).digest()
        with self._lock:
            found = self._connection.execute("SELECT reply, seconds FROM replies WHERE key = ?", (key,)).fetchone()
        if found is not None:
            return str(found[0]), float(found[1])
        started = time.perf_counter()
        text = ask()
        seconds = time.perf_counter() - started
        with self._lock, self._connection:
            self._connection.execute("INSERT OR REPLACE INTO replies VALUES (?, ?, ?)", (key, text, seconds))
        return text, 0.0

    def close(self) -> None:
        self._connection.close()


@dataclass(slots=True)
class Meter:
    """What models have used since it was read last. `saved_s` are seconds that a stored reply did not take."""

    usage: ModelUsage = field(default_factory=ModelUsage)
    saved_s: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, usage: ModelUsage, saved_s: float) -> None:
        with self._lock:
            self.usage += usage
            self.saved_s += saved_s

    def read_usage(self) -> ModelUsage:
        with self._lock:
            usage, self.usage = self.usage, ModelUsage()
        return usage

    def read_saved_s(self) -> float:
        with self._lock:
            saved_s, self.saved_s = self.saved_s, 0.0
        return saved_s


@dataclass(frozen=True, slots=True, kw_only=True)
class MeteredChat:
    """A `ChatModel`; `fingerprint` says which one of those of its name it is. A stored reply counts as a paid one."""

    chat: ChatModel
    cache: ReplyCache
    meter: Meter
    fingerprint: str

    @property
    def model_id(self) -> str:
        return self.chat.model_id

    def complete(self, prompt: Prompt) -> Completion:
        def ask() -> str:
            said = self.chat.complete(prompt)
            return json.dumps([said.text, said.usage.input_tokens, said.usage.output_tokens])

        request = ["chat", self.fingerprint, prompt.system, prompt.user, prompt.max_tokens]
        reply, saved_s = self.cache.reply(request, ask)
        text, input_tokens, output_tokens = json.loads(reply)
        usage = ModelUsage(calls=1, input_tokens=input_tokens, output_tokens=output_tokens)
        self.meter.add(usage, saved_s)
        return Completion(text=text, usage=usage)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeteredScorer:
    """A `PassageScorer`; its tokens are those of question and passages as the embedder counts them."""

    scorer: PassageScorer
    cache: ReplyCache
    meter: Meter
    fingerprint: str
    counter: TokenCounter

    @property
    def model_id(self) -> str:
        return self.scorer.model_id

    def scores(self, question: str, passages: Sequence[str]) -> list[float]:
        def ask() -> str:
            return json.dumps(self.scorer.scores(question, passages))

        reply, saved_s = self.cache.reply(["scores", self.fingerprint, question, list(passages)], ask)
        scores: list[float] = json.loads(reply)
        asked, *read = self.counter.count([question, *passages])
        self.meter.add(ModelUsage(calls=1, input_tokens=asked * len(passages) + sum(read)), saved_s)
        return scores
