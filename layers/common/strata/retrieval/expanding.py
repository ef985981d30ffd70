"""`ChatExpander`: what a chat model makes of a question before it is searched, within a time limit, once a question.

*Rewrite* says the question in other words. *HyDE* (Gao et al. 2022, "Precise Zero-Shot Dense Retrieval without
Relevance Labels") lets the model write a passage that could answer it; the search looks for real passages near that
one, and near the question itself.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import cache
from importlib import resources
from typing import TypeVar

from strata.errors import StrataError
from strata.model.asking import Expansion, Question
from strata.model.chat import Prompt, fenced
from strata.ports.caches import TextCache
from strata.ports.generation import ChatModel
from strata.retrieval.time_limits import within

T = TypeVar("T")

_log = logging.getLogger(__name__)

MAX_CHARACTERS = 2_000
"""Of a rewritten question or a passage; more is no answer to what was asked for."""
MAX_TOKENS = 300
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatExpander:
    """An `Expander`. `rewrite` and `hyde` say which is asked for; both are asked for at the same time.

    An expansion is kept for `ttl_s`, for its tenant: it depends on the question's words alone, not on the index.
    """

    chat: ChatModel
    cache: TextCache
    rewrite: bool
    hyde: bool
    timeout_s: float
    ttl_s: int

    @property
    def version(self) -> str:
        parts = [self.chat.model_id, *(f"{name}\0{_prompt(name)}" for name in self._asked)]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]

    @property
    def _asked(self) -> tuple[str, ...]:
        return tuple(name for name, asked in (("rewrite", self.rewrite), ("hyde", self.hyde)) if asked)

    def expand(self, question: Question) -> Expansion:
        try:
            return within(self.timeout_s, lambda: self._kept(question))
        except TimeoutError:
            return Expansion(note=_note(f"did not answer within {self.timeout_s:g} s"))
        except Exception as error:  # whatever it is: the plain question can be searched
            _log.warning("A question was not expanded.", exc_info=True)
            return Expansion(note=_note(f"failed ({error.code if isinstance(error, StrataError) else 'internal'})"))

    def _kept(self, question: Question) -> Expansion:
        words = " ".join(question.text.split())
        key = hashlib.sha256("\0".join([self.version, question.identity.tenant, words]).encode()).hexdigest()
        if (found := _silently(lambda: self.cache.get_text(key))) is not None:
            try:
                return Expansion(**json.loads(found))
            except (TypeError, ValueError):
                _log.warning("A kept expansion can't be read; it is made again.")
        expansion = self._made(question.text)
        _silently(lambda: self.cache.put_text(key, json.dumps(asdict(expansion)), ttl_s=self.ttl_s))
        return expansion

    def _made(self, text: str) -> Expansion:
        with ThreadPoolExecutor(2, thread_name_prefix="expand") as pool:
            written = dict(zip(self._asked, pool.map(lambda name: self._written(name, text), self._asked), strict=True))
        return Expansion(query=" ".join(written.get("rewrite", "").split()), passage=written.get("hyde", ""))

    def _written(self, name: str, text: str) -> str:
        prompt = Prompt(system=_prompt(name), user=fenced("question", text), max_tokens=MAX_TOKENS)
        return _UNPRINTABLE.sub(" ", self.chat.complete(prompt).text)[:MAX_CHARACTERS].strip()


def _note(reason: str) -> str:
    return f"The chat model that puts questions in other words {reason}: the question was searched as it is."


def _silently(call: Callable[[], T]) -> T | None:
    """A cache that fails is none, never a failed question."""
    try:
        return call()
    except StrataError:
        _log.warning("The cache of expansions can't be used.", exc_info=True)
        return None


@cache
def _prompt(name: str) -> str:
    return resources.files("strata.retrieval").joinpath(f"prompts/{name}.md").read_text(encoding="utf-8")
