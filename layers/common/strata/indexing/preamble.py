"""A few words in front of a chunk that say what it is about within its file, written by a chat model.

After Anthropic, "Introducing Contextual Retrieval" (2024): a chunk out of its document has lost what "it" and "the
above" stand for. What the model answers is searched and never shown as an answer; the file that it was written from is
data to the model, and a chunk's preamble is made of nothing but its own file, so nobody reads by it what they may not.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import cache
from importlib import resources

from strata.errors import GeneratorRejected
from strata.indexing.reading import source_lines
from strata.model.chat import Completion, ModelUsage, Prompt, fenced
from strata.model.corpus import Chunk, Layer
from strata.ports.clock import Advanced
from strata.ports.embedding import TokenCounter
from strata.ports.generation import ChatModel, Preambles

VERSION_CHARACTERS = 12
_FORMAT = "1"
"""Of what is put around the prompt; raised when that changes."""
_BEGINNING_SHARE = 4
"""Of a file over the budget the model sees the beginning, a quarter, and the lines around the passage."""
_TICK_S = 1.0
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatPreambler:
    """A `Preambler` over a chat model: one call a chunk of `layers`, `parallel` of them at the same time.

    The other layers are rendered from the same lines and carry their context in themselves.
    """

    chat: ChatModel
    counter: TokenCounter
    layers: Collection[Layer]
    tokens: int
    document_characters: int
    parallel: int

    @property
    def version(self) -> str:
        return preamble_version(
            self.chat.model_id,
            layers=self.layers,
            tokens=self.tokens,
            document_characters=self.document_characters,
        )

    @property
    def reserved_tokens(self) -> int:
        return self.tokens

    def preambles(self, files: Sequence[tuple[str, Sequence[Chunk]]], advanced: Advanced) -> list[Preambles]:
        texts = [[""] * len(chunks) for _, chunks in files]
        usages = [ModelUsage() for _ in files]
        refusals: dict[int, GeneratorRejected] = {}
        pool = ThreadPoolExecutor(max(1, self.parallel), thread_name_prefix="preamble")
        try:
            waiting: dict[Future[Completion], tuple[int, int]] = {
                pool.submit(self._completion, text, chunk): (number, place)
                for number, (text, chunks) in enumerate(files)
                for place, chunk in enumerate(chunks)
                if chunk.layer in self.layers
            }
            while waiting:
                done, _ = wait(waiting, timeout=_TICK_S, return_when=FIRST_COMPLETED)
                for future in done:
                    number, place = waiting.pop(future)
                    try:
                        completion = future.result()
                    except GeneratorRejected as error:
                        refusals[number] = error
                        continue
                    usages[number] += completion.usage
                    texts[number][place] = self._fitted(completion.text)
                advanced()
        finally:
            # What is running ends by its own time limit; nobody waits for it.
            pool.shutdown(wait=False, cancel_futures=True)
        return [
            Preambles(usage=usages[number], refusal=refusals[number])
            if number in refusals
            else Preambles(texts=tuple(texts[number]), usage=usages[number])
            for number in range(len(files))
        ]

    def _completion(self, text: str, chunk: Chunk) -> Completion:
        document = shown_part(text, chunk, most=self.document_characters)
        # The document first: what is the same for every chunk of a file may come from the provider's prompt cache.
        parts = (fenced("document", f"{chunk.path}\n\n{document}"), fenced("passage", chunk.content))
        return self.chat.complete(Prompt(system=preamble_prompt(), user="\n\n".join(parts), max_tokens=2 * self.tokens))

    def _fitted(self, text: str) -> str:
        """One line of at most `tokens` tokens, cut behind a word."""
        words = _UNPRINTABLE.sub(" ", text).split()
        while words and self.counter.count([" ".join(words)])[0] > self.tokens:
            words = words[: min(len(words) - 1, len(words) * 9 // 10)]
        return " ".join(words)


def preamble_version(model_id: str, *, layers: Collection[Layer], tokens: int, document_characters: int) -> str:
    """What `Preambler.version` is, known without the model."""
    parts = [_FORMAT, model_id, preamble_prompt(), *sorted(layers), str(tokens), str(document_characters)]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:VERSION_CHARACTERS]


@cache
def preamble_prompt() -> str:
    return resources.files("strata.indexing").joinpath("prompts/preamble.md").read_text(encoding="utf-8")


def shown_part(text: str, chunk: Chunk, *, most: int) -> str:
    """The file, or of a longer one its beginning and the lines around the chunk, at most `most` characters."""
    if len(text) <= most:
        return text
    beginning = text[: most // _BEGINNING_SHARE]
    lines = source_lines(text)
    place = sum(len(line) + 1 for line in lines[: chunk.span.start - 1])
    length = sum(len(line) + 1 for line in lines[chunk.span.start - 1 : chunk.span.end])
    room = most - len(beginning)
    start = max(0, place - max(0, room - length) // 2)
    if start <= len(beginning):
        return f"{text[:most]}\n…"
    return f"{beginning}\n…\n{text[start : start + room]}" + ("\n…" if start + room < len(text) else "")
