"""Fakes of the model ports."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from strata.errors import StoreUnavailable
from strata.model.chat import Completion, ModelUsage, Prompt


class FakeChat:
    """A `ChatModel` that answers what a function says; every prompt is on record."""

    def __init__(self, answer: Callable[[Prompt], str] | str = "A note.", model_id: str = "fake-chat") -> None:
        self.model_id = model_id
        self.prompts: list[Prompt] = []
        self._answer = answer
        self._lock = threading.Lock()

    def complete(self, prompt: Prompt) -> Completion:
        with self._lock:
            self.prompts.append(prompt)
        text = self._answer if isinstance(self._answer, str) else self._answer(prompt)
        return Completion(text=text, usage=ModelUsage(calls=1, input_tokens=100, output_tokens=10))


class FakeScorer:
    """A `PassageScorer` by a function of question and passage."""

    def __init__(self, score: Callable[[str, str], float], model_id: str = "fake-scorer") -> None:
        self.model_id = model_id
        self.calls: list[tuple[str, list[str]]] = []
        self._score = score

    def scores(self, question: str, passages: Sequence[str]) -> list[float]:
        self.calls.append((question, list(passages)))
        return [self._score(question, passage) for passage in passages]


class FakeTextCache:
    """A `TextCache` in a dict; `broken` makes every call fail."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.broken = False

    def get_text(self, key: str) -> str | None:
        self._check()
        return self.texts.get(key)

    def put_text(self, key: str, text: str, *, ttl_s: int) -> None:
        self._check()
        self.texts[key] = text

    def _check(self) -> None:
        if self.broken:
            raise StoreUnavailable
