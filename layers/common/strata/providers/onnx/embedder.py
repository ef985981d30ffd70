"""`OnnxEmbedder`: a BERT-like sentence embedder from a local directory, on the CPU, in this process."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from strata.errors import ConfigurationError, EmbedderUnavailable
from strata.model.corpus import Vector, Vectors
from strata.providers.onnx.counting import WordCounter, cuts_at_every_mark
from strata.providers.onnx.description import MODEL_FILE, TOKENIZER_FILE, describe
from strata.providers.vectors import checked_vectors

if TYPE_CHECKING:
    from onnxruntime import InferenceSession
    from tokenizers import Encoding, Tokenizer

T = TypeVar("T")
R = TypeVar("R")
Tokens = NDArray[np.int64]

BATCH_TOKENS = 512
"""Padded tokens of one run of the graph: more leave the processor's cache and are slower (docs/measurements.md)."""
SLICE_TEXTS = 64
"""Texts that one thread tokenises at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OnnxEmbedder:
    """Texts → unit vectors by one ONNX graph that pools and normalises.

    Work is spread over `threads` threads, one batch each, and the graph itself runs on one: on two cores that is
    as fast as two threads in the graph, and no pool outlives a call, so a process may fork. A text's vector does not
    depend on what else is in the call.
    """

    model_id: str
    dimension: int
    max_tokens: int
    languages: frozenset[str]
    threads: int
    session: InferenceSession = field(repr=False)
    tokenizer: Tokenizer = field(repr=False)
    special_tokens: tuple[int, int, int]
    """The ids of the first, the last and the padding."""
    before_queries: tuple[int, ...] = ()
    before_documents: tuple[int, ...] = ()
    """What the model was trained to see first, as ids: it tells a question from a text that may answer one."""

    @classmethod
    def load(cls, model_directory: Path, *, threads: int = 0) -> OnnxEmbedder:
        """Load `model.onnx` and `tokenizer.json`; `threads` = 0 takes every core that this process may use.

        Raises `ConfigurationError` when the directory holds no model, or a broken one.
        """
        again = f"run `strata model pull {model_directory.name}` again."
        description = describe(model_directory, name=model_directory.name)
        # The tokenizer's own threads hang in a forked process; ours end with the call.
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
        import onnxruntime
        from tokenizers import Tokenizer

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        if not _multiplies_bytes_exactly():
            options.add_session_config_entry("session.x64quantprecision", "1")
        try:
            session = onnxruntime.InferenceSession(
                str(model_directory / MODEL_FILE), options, providers=["CPUExecutionProvider"]
            )
            tokenizer = Tokenizer.from_file(str(model_directory / TOKENIZER_FILE))
        except Exception as error:  # both libraries raise classes of their own, straight under Exception
            raise ConfigurationError(f"The model in {model_directory} can't be loaded; {again}") from error
        tokenizer.no_truncation()
        tokenizer.no_padding()
        first, last, padding = (tokenizer.token_to_id(token) for token in description.special_tokens)
        dimension = session.get_outputs()[0].shape[-1]
        if first is None or last is None or padding is None or dimension != description.dimension:
            raise ConfigurationError(f"The files in {model_directory} do not belong together; {again}")

        def before(prefix: str) -> tuple[int, ...]:
            return tuple(tokenizer.encode(prefix, add_special_tokens=False).ids)

        return cls(
            model_id=description.model_id,
            dimension=description.dimension,
            max_tokens=description.max_tokens,
            languages=frozenset(description.languages),
            threads=threads or _usable_cores(),
            session=session,
            tokenizer=tokenizer,
            special_tokens=(first, last, padding),
            before_queries=before(description.query_prefix),
            before_documents=before(description.document_prefix),
        )

    words: WordCounter | None = field(init=False, repr=False, default=None)
    """Counts faster, where the tokenizer is of a kind that allows it."""

    def __post_init__(self) -> None:
        if cuts_at_every_mark(self.tokenizer):
            special = [token.content for token in self.tokenizer.get_added_tokens_decoder().values()]
            object.__setattr__(self, "words", WordCounter(count_whole=self._count_whole, special=special))

    def count(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text, in order, whole, without the special ones."""
        return self._count_whole(texts) if self.words is None else self.words.count(texts)

    def _count_whole(self, texts: Sequence[str]) -> list[int]:
        def lengths(part: Sequence[str]) -> list[int]:
            return [len(encoding) for encoding in self._encode(part)]

        return [length for part in self._spread(lengths, _slices(texts)) for length in part]

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors in the order of the texts, each cut to `max_tokens`. A blank text is a `ValueError`."""
        return self._embed(texts, self.before_documents)

    def embed_query(self, text: str) -> Vector:
        """Where the model is symmetric, a query is embedded like a document."""
        vector: Vector = self._embed([text], self.before_queries)[0]
        return vector

    def _embed(self, texts: Sequence[str], before: tuple[int, ...]) -> Vectors:
        for number, text in enumerate(texts, start=1):
            if not text.strip():
                raise ValueError(f"Text {number} of {len(texts)} is blank: it has no vector.")
        vectors = np.zeros((len(texts), self.dimension), dtype=np.float32)
        cut = partial(self._sequences, before=before)
        sequences = [sequence for part in self._spread(cut, _slices(texts)) for sequence in part]
        batches = list(_batches([len(sequence) for sequence in sequences]))

        def fill(batch: list[int]) -> None:
            vectors[batch] = self._run([sequences[index] for index in batch])

        self._spread(fill, batches)
        return checked_vectors(vectors, texts=len(texts), dimension=self.dimension)

    def _encode(self, texts: Sequence[str]) -> list[Encoding]:
        # Half of a surrogate pair is no text for the tokenizer; a JSON body may hold one.
        valid = [text.encode("utf-8", "replace").decode("utf-8") for text in texts]
        return self.tokenizer.encode_batch_fast(valid, add_special_tokens=False)

    def _sequences(self, texts: Sequence[str], before: tuple[int, ...] = ()) -> list[Tokens]:
        first, last, _ = self.special_tokens
        return [
            np.array([first, *before, *encoding.ids[: self.max_tokens], last], dtype=np.int64)
            for encoding in self._encode(texts)
        ]

    def _run(self, sequences: Sequence[Tokens]) -> Vectors:
        width = max(len(sequence) for sequence in sequences)
        tokens = np.full((len(sequences), width), self.special_tokens[2], dtype=np.int64)
        mask = np.zeros((len(sequences), width), dtype=np.int64)
        for row, sequence in enumerate(sequences):
            tokens[row, : len(sequence)] = sequence
            mask[row, : len(sequence)] = 1
        try:
            answer: Vectors = self.session.run(None, {"input_ids": tokens, "attention_mask": mask})[0]
        except Exception as error:  # onnxruntime's classes stand straight under Exception
            raise EmbedderUnavailable(f"The embedding model failed on {len(sequences)} texts.") from error
        return answer

    def _spread(self, work: Callable[[T], R], parts: Sequence[T]) -> list[R]:
        """The results in the order of the parts; one part, or one thread, needs no pool."""
        threads = min(self.threads, len(parts))
        if threads <= 1:
            return [work(part) for part in parts]
        with ThreadPoolExecutor(threads, thread_name_prefix="embed") as pool:
            return list(pool.map(work, parts))


def _slices(texts: Sequence[str]) -> list[Sequence[str]]:
    return [texts[start : start + SLICE_TEXTS] for start in range(0, len(texts), SLICE_TEXTS)]


def _batches(lengths: Sequence[int], *, batch_tokens: int = BATCH_TOKENS) -> Iterator[list[int]]:
    """Indexes in batches of similar length, longest first, at most `batch_tokens` each when padded (or one text).

    >>> list(_batches([3, 9, 4, 10], batch_tokens=20))
    [[3, 1], [2, 0]]
    """
    batch: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda index: (-lengths[index], index)):
        if batch and (len(batch) + 1) * lengths[batch[0]] > batch_tokens:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


def _usable_cores() -> int:
    """The cores that this process may run on, where the system tells; else all of them."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _multiplies_bytes_exactly(cpu_description: Path = Path("/proc/cpuinfo")) -> bool:
    """Whether the processor has VNNI. Without it, x86's product of unsigned and signed bytes is cut to 16 bits,
    and onnxruntime must be told to take its slower, exact one (elsewhere the option changes nothing).
    """
    try:
        return "vnni" in cpu_description.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
