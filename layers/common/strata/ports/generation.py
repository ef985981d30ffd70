"""What language models write: answers, preambles of chunks, expansions of questions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from strata.errors import GeneratorRejected
from strata.model.asking import Context, Expansion, Question
from strata.model.chat import Completion, ModelUsage, Prompt
from strata.model.corpus import Chunk
from strata.ports.clock import Advanced


class Generator(Protocol):
    @property
    def model_id(self) -> str: ...

    def generate(self, context: Context) -> Iterator[str]:
        """The answer's text in deltas, with `[n]` markers; nothing at all means "not found".

        A delta may cut a marker or a word anywhere; the caller joins them.
        """
        ...


class ChatModel(Protocol):
    """A prompt → a completion, in one call; a call is not repeated here."""

    @property
    def model_id(self) -> str: ...

    def complete(self, prompt: Prompt) -> Completion:
        """Raises `GeneratorUnavailable` (worth repeating), `GeneratorRejected` and `ConfigurationError`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Preambles:
    """One file's, in the order of its chunks, "" for a chunk that gets none; with a `refusal` there are none at all."""

    texts: tuple[str, ...] = ()
    usage: ModelUsage = field(default_factory=ModelUsage)
    refusal: GeneratorRejected | None = None


class Preambler(Protocol):
    """Says in a few words what each chunk is about within its file."""

    @property
    def version(self) -> str:
        """12 characters that stand for everything that the preambles depend on beside the file: model, prompt, limits.

        Part of the key of every prepared file.
        """
        ...

    @property
    def reserved_tokens(self) -> int:
        """What a preamble takes of a chunk's limit, by the embedder's count."""
        ...

    def preambles(self, files: Sequence[tuple[str, Sequence[Chunk]]], advanced: Advanced) -> list[Preambles]:
        """Those of each file, given as its text and its chunks, in order.

        Raises `GeneratorUnavailable` and `ConfigurationError`, for all of them, and what `advanced` raises.
        """
        ...


class Expander(Protocol):
    """What to search for beside a question: the question in other words, or a passage that could answer it."""

    @property
    def version(self) -> str:
        """Stands for model and prompt: part of the key under which what was found is kept."""
        ...

    def expand(self, question: Question) -> Expansion:
        """Within its time limit; whatever fails, the expansion is empty and says so in its `note`."""
        ...
