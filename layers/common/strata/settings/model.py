"""What can be set, with its unit in its name and a sane default."""

from __future__ import annotations

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


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedderSettings:
    """`name` is `onnx` or `static` (a model directory under `model_directory`), or `hashed` (tests only).

    `model` is the directory's name: minilm for `onnx` and wordllama for `static` unless another is set.
    """

    name: str = "onnx"
    model: str = ""
    model_directory: str = ""
    threads: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AnsweringSettings:
    """`reranker` is `features` (a linear model over the ranking fields) or `none` (the order of the fusion)."""

    generator: str = "extractive"
    reranker: str = "features"
    max_context_tokens: int = 3_000
    retrieval_depth: int = 50
    cache_ttl_s: int = 3_600


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    storage: StorageSettings
    indexing: IndexingSettings = field(default_factory=IndexingSettings)
    embedder: EmbedderSettings = field(default_factory=EmbedderSettings)
    answering: AnsweringSettings = field(default_factory=AnsweringSettings)
