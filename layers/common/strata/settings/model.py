"""What can be set, with its unit in its name and a sane default."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageSettings:
    """`database_url` is a libpq URI without `options=`; the functions' role is in it, and the sweep has none.
    `worker_function` is the name of the function that works on sessions; a worker calls itself, so it needs none."""

    bucket: str
    jobs_table: str
    cache_table: str
    database_url: str = ""
    worker_function: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadLimits:
    """Caps on what one upload may hold. `ratio` is unpacked to packed bytes."""

    max_archive_bytes: int = 512 * 1024 * 1024
    max_total_bytes: int = 2 * 1024 * 1024 * 1024
    max_entries: int = 100_000
    max_ratio: int = 200
    max_file_bytes: int = 2 * 1024 * 1024
    max_inline_bytes: int = 5 * 1024 * 1024
    upload_expires_in_s: int = 3_600


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexingSettings:
    """`prepare_workers` is the number of processes that files are prepared in; 0: one a core.

    A lease is shorter than the minute after which Lambda delivers a failed event again, so that the second delivery
    finds the lock of a dead worker free. A snapshot that writes `new_index_files` or more goes into a new index.
    An upload of `reindex_archive_bytes` or more is worked on by `reindex_state_machine` (its ARN), where one is named.
    """

    chunk_tokens: int = 500
    overlap_tokens: int = 50
    new_index_files: int = 2_000
    prepare_workers: int = 0
    lease_s: float = 45.0
    reindex_state_machine: str = ""
    reindex_archive_bytes: int = 8 * 1024 * 1024
    limits: UploadLimits = field(default_factory=UploadLimits)


DEFAULT_MODELS: Mapping[str, str] = {"onnx": "minilm", "e5": "e5", "static": "wordllama"}
"""Embedders, and the directories of their models. `e5` is `onnx` with another model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedderSettings:
    """`name` is one of `DEFAULT_MODELS` (a model directory under `model_directory`), or `hashed` (tests only).

    `model` is the directory's name, where it is another than the default.
    """

    name: str = "onnx"
    model: str = ""
    model_directory: str = ""
    threads: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatSettings:
    """The chat model behind preambles and rewriting. `name` is `openai` (any server that speaks its API, at `url`),
    `bedrock`, `extractive` (no model: it answers with a line of what it is shown), or empty: there is none. Prices are
    for a million tokens, in any one currency; without them tokens alone are reported.
    """

    name: str = ""
    model: str = ""
    url: str = ""
    key: str = field(default="", repr=False)
    timeout_s: float = 30.0
    input_price: float = 0.0
    output_price: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PreambleSettings:
    """`name` is `chat` (the chat model writes a preamble for the chunks of `layers`) or `none`.

    A preamble takes at most `tokens` of a chunk's; the model sees at most `document_characters` of the file, and
    `parallel` calls run at the same time.
    """

    name: str = "none"
    layers: str = "D3,C0"
    tokens: int = 60
    document_characters: int = 24_000
    parallel: int = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteSettings:
    """`name` is `none`, `rewrite` (the question in other words), `hyde` (a passage that could answer it) or `both`.

    After `timeout_s` the plain question is searched. An expansion is kept for `cache_ttl_s`.
    """

    name: str = "none"
    timeout_s: float = 2.5
    cache_ttl_s: int = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class RerankerSettings:
    """`name` is `features` (a linear model over the ranking fields), `none` (the order of the fusion), or a
    cross-encoder that orders anew what `features` has put in front: `bedrock`, `cohere` and `tei` (servers, at `url`),
    `onnx` (a model directory under `model_directory`, `reranker` unless `model` is another). After `timeout_s` the
    order before stands. `price` is for a thousand questions.
    """

    name: str = "features"
    model: str = ""
    url: str = ""
    key: str = field(default="", repr=False)
    model_directory: str = ""
    timeout_s: float = 3.0
    rows: int = 50
    price: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """The models that are optional."""

    chat: ChatSettings = field(default_factory=ChatSettings)
    preamble: PreambleSettings = field(default_factory=PreambleSettings)
    rewrite: RewriteSettings = field(default_factory=RewriteSettings)
    reranker: RerankerSettings = field(default_factory=RerankerSettings)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnsweringSettings:
    """`structural_weight` is what a rank among the neighbours over links counts in the fusion; 0: they are not read."""

    generator: str = "extractive"
    max_context_tokens: int = 3_000
    retrieval_depth: int = 50
    structural_weight: float = 0.0
    cache_ttl_s: int = 3_600


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    storage: StorageSettings
    indexing: IndexingSettings = field(default_factory=IndexingSettings)
    embedder: EmbedderSettings = field(default_factory=EmbedderSettings)
    answering: AnsweringSettings = field(default_factory=AnsweringSettings)
    models: ModelSettings = field(default_factory=ModelSettings)
