"""The only place where adapters meet use cases: one cached factory a use case.

Nothing is built, read or connected at import; a function's first call pays for what it uses, later calls find it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from strata import __version__, choosing
from strata.errors import ConfigurationError
from strata.indexing import pipeline_version
from strata.jobs.controlling import JobControl
from strata.jobs.dispatch import Dispatcher
from strata.jobs.events import EventFeed
from strata.jobs.execution import JobExecution
from strata.jobs.keeping import SessionKeeper
from strata.jobs.lifecycle import Lifecycle
from strata.jobs.mailbox import Mailbox
from strata.jobs.reading import JobReader
from strata.jobs.retrying import RetryPolicy
from strata.jobs.running import JobRunner, Stages
from strata.jobs.sweeping import Sweep
from strata.jobs.worker import UploadWorker
from strata.ports.blobs import BlobCache
from strata.ports.clock import Clock
from strata.ports.embedding import Embedder
from strata.ports.generation import Expander, Generator, Preambler
from strata.ports.jobs import JobStore
from strata.ports.locking import SessionLock
from strata.ports.objects import ObjectStore
from strata.ports.reranking import Reranker
from strata.ports.search import ChunkSearch, LinkReader
from strata.ports.sessions import SessionStore
from strata.ports.workers import WorkerCalls
from strata.settings.load import load_settings
from strata.settings.model import Settings

if TYPE_CHECKING:
    from strata.answering.answer import Answerer
    from strata.answering.cache_gate import CacheGate
    from strata.indexing.drift import DriftReporter
    from strata.retrieval.retrieve import Retriever
    from strata.storage.dynamodb.client import Table
    from strata.storage.dynamodb.query_cache import DynamoQueryCache
    from strata.storage.postgres.connection import Database


@cache
def settings() -> Settings:
    """The settings of this process; raises `ConfigurationError` that names every fault."""
    return load_settings()


@cache
def clock() -> Clock:
    from strata.storage.clock import SystemClock

    return SystemClock()


# --- the embedder --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingModel:
    """What a session records of its embedder."""

    model_id: str
    dimension: int


@cache
def embedding_model() -> EmbeddingModel:
    """The embedder's model without loading it: functions that only take requests ask this."""
    if settings().embedder.name == "hashed":
        from strata.providers.hashed.embedder import HashedEmbedder

        return EmbeddingModel(model_id=HashedEmbedder.model_id, dimension=HashedEmbedder.dimension)
    from strata.providers.onnx.description import MODEL_FILE, describe
    from strata.providers.static.embedder import TABLE_FILE

    static = settings().embedder.name == "static"
    description = describe(
        _model_directory(), model_file=TABLE_FILE if static else MODEL_FILE, name=_model_directory().name
    )
    return EmbeddingModel(model_id=description.model_id, dimension=description.dimension)


@cache
def embedder() -> Embedder:
    """Loads the model at the first call: a fraction of a second, and about 140 MB."""
    if settings().embedder.name == "hashed":
        from strata.providers.hashed.embedder import HashedEmbedder

        return HashedEmbedder()
    if settings().embedder.name == "static":
        from strata.providers.static.embedder import StaticEmbedder

        return StaticEmbedder.load(_model_directory())
    from strata.providers.onnx.embedder import OnnxEmbedder

    return OnnxEmbedder.load(_model_directory(), threads=settings().embedder.threads)


def _model_directory() -> Path:
    chosen = settings().embedder
    if chosen.name not in ("onnx", "static"):
        raise ConfigurationError("STRATA_EMBEDDER must be `onnx`, `static` or `hashed`.")
    if not chosen.model_directory:
        raise ConfigurationError("STRATA_MODEL_DIRECTORY is not set.")
    return Path(chosen.model_directory) / (chosen.model or _DEFAULT_MODELS[chosen.name])


_DEFAULT_MODELS = {"onnx": "minilm", "static": "wordllama"}


# --- the chat model ------------------------------------------------------------------------------------------------


@cache
def _pipeline() -> str:
    """The version of what is made of a file, known without any model."""
    return pipeline_version(choosing.version_of_preambles(settings().models))


@cache
def preambler() -> Preambler | None:
    """None where chunks get no preamble."""
    models = settings().models
    if not choosing.writes_preambles(models.preamble):
        return None
    from strata.providers.persistence import PATIENT, PersistentChat

    chat = PersistentChat(chat=choosing.chat_model(models.chat), policy=PATIENT)
    return choosing.preambler(chat, models.preamble, embedder(), chunk_tokens=settings().indexing.chunk_tokens)


@cache
def expander() -> Expander | None:
    """None where the plain question is searched."""
    models = settings().models
    if models.rewrite.name == "none":
        return None
    from strata.providers.persistence import BRIEF, PersistentChat

    chat = PersistentChat(chat=choosing.chat_model(models.chat, timeout_s=models.rewrite.timeout_s), policy=BRIEF)
    return choosing.expander(chat, models.rewrite, _query_cache())


# --- stores --------------------------------------------------------------------------------------------------------


@cache
def session_store() -> SessionStore:
    from strata.storage.postgres.sessions import PostgresSessionStore

    return PostgresSessionStore(_database())


@cache
def blob_cache() -> BlobCache:
    from strata.storage.postgres.cache import PostgresBlobCache

    return PostgresBlobCache(_database())


@cache
def link_reader() -> LinkReader:
    from strata.storage.postgres.links import PostgresLinks

    return PostgresLinks(_database())


@cache
def job_store() -> JobStore:
    from strata.storage.dynamodb.jobs import DynamoJobStore

    return DynamoJobStore(table=_jobs_table(), clock=clock())


@cache
def session_lock() -> SessionLock:
    from strata.storage.dynamodb.lock import DynamoSessionLock

    return DynamoSessionLock(table=_jobs_table(), clock=clock())


@cache
def object_store() -> ObjectStore:
    from strata.storage.aws import aws_client
    from strata.storage.s3.objects import S3ObjectStore

    return S3ObjectStore(client=aws_client("s3"), bucket=settings().storage.bucket)


@cache
def worker_calls() -> WorkerCalls:
    from strata.storage.aws import aws_client
    from strata.storage.lambda_calls import LambdaWorkerCalls

    function = settings().storage.worker_function or os.environ.get("AWS_LAMBDA_FUNCTION_NAME", "")
    if not function:
        raise ConfigurationError("STRATA_WORKER_FUNCTION is not set.")
    return LambdaWorkerCalls(client=aws_client("lambda"), function=function)


@cache
def _database() -> Database:
    from strata.storage.postgres.connection import Database

    if not settings().storage.database_url:
        raise ConfigurationError("STRATA_DATABASE_URL is not set.")
    return Database(settings().storage.database_url)


@cache
def _dynamodb() -> Any:
    from strata.storage.aws import aws_client

    return aws_client("dynamodb")


@cache
def _jobs_table() -> Table:
    from strata.storage.dynamodb.client import Table

    return Table(client=_dynamodb(), name=settings().storage.jobs_table)


# --- jobs ----------------------------------------------------------------------------------------------------------


@cache
def lifecycle() -> Lifecycle:
    """Opens jobs and accepts their content."""
    limits = settings().indexing.limits
    return Lifecycle(
        sessions=session_store(),
        jobs=job_store(),
        objects=object_store(),
        clock=clock(),
        embedding_model=embedding_model().model_id,
        dimension=embedding_model().dimension,
        pipeline_version=_pipeline(),
        max_archive_bytes=limits.max_archive_bytes,
        max_inline_bytes=limits.max_inline_bytes,
        upload_expires_in_s=limits.upload_expires_in_s,
    )


@cache
def job_reader() -> JobReader:
    return JobReader(sessions=session_store(), jobs=job_store())


@cache
def job_control() -> JobControl:
    """Cancels jobs and puts failed ones back."""
    return JobControl(
        sessions=session_store(),
        jobs=job_store(),
        objects=object_store(),
        lifecycle=lifecycle(),
        calls=worker_calls(),
        clock=clock(),
    )


@cache
def session_keeper() -> SessionKeeper:
    """Changes a session's readers and deletes sessions."""
    return SessionKeeper(
        sessions=session_store(),
        jobs=job_store(),
        lock=session_lock(),
        objects=object_store(),
        calls=worker_calls(),
        clock=clock(),
        lease=timedelta(seconds=settings().indexing.lease_s),
    )


@cache
def sweep() -> Sweep:
    """Looks after work that nobody is doing; asks DynamoDB and S3 only."""
    return Sweep(jobs=job_store(), objects=object_store(), calls=worker_calls(), clock=clock())


@cache
def drift_reporter() -> DriftReporter:
    from strata.indexing.drift import DriftReporter

    return DriftReporter(links=link_reader())


@cache
def event_feed() -> EventFeed:
    return EventFeed(jobs=job_store())


@cache
def mailbox() -> Mailbox:
    """Works through a session's jobs; the embedder is loaded for the first of them."""
    return Mailbox(
        sessions=session_store(),
        jobs=job_store(),
        lock=session_lock(),
        keeper=session_keeper(),
        runner=indexer,
        clock=clock(),
        lease=timedelta(seconds=settings().indexing.lease_s),
        dispatcher=_dispatcher(),
    )


def _dispatcher() -> Dispatcher | None:
    indexing = settings().indexing
    if not indexing.reindex_state_machine:
        return None
    from strata.storage.aws import aws_client
    from strata.storage.stepfunctions.executions import StepFunctionsExecutions

    return Dispatcher(
        sessions=session_store(),
        objects=object_store(),
        executions=StepFunctionsExecutions(
            client=aws_client("stepfunctions"), state_machine=indexing.reindex_state_machine
        ),
        least_archive_bytes=indexing.reindex_archive_bytes,
        embedding_model=embedding_model().model_id,
        dimension=embedding_model().dimension,
        pipeline_version=_pipeline(),
    )


@cache
def job_execution() -> JobExecution:
    """The states of an execution that works on one large job."""
    return JobExecution(
        sessions=session_store(),
        jobs=job_store(),
        lock=session_lock(),
        clock=clock(),
        lease=timedelta(seconds=settings().indexing.lease_s),
        mailbox=mailbox(),
        stages=_stages,
        retry=RetryPolicy(),
    )


@cache
def _stages() -> Stages:
    from strata.indexing.new_index import Built
    from strata.indexing.stages import IndexingStages

    return IndexingStages(
        sessions=session_store(),
        cache=blob_cache(),
        objects=object_store(),
        embedder=embedder,
        built=Built(
            embedding_model=embedding_model().model_id,
            dimension=embedding_model().dimension,
            pipeline_version=_pipeline(),
        ),
        settings=settings().indexing,
        preambler=_preambler if choosing.writes_preambles(settings().models.preamble) else None,
        prices=choosing.prices(settings().models.chat),
    )


def _preambler() -> Preambler:
    found = preambler()
    if found is None:
        raise ConfigurationError("STRATA_PREAMBLE is none.")
    return found


@cache
def upload_worker() -> UploadWorker:
    return UploadWorker(lifecycle=lifecycle(), jobs=job_store(), mailbox=mailbox(), calls=worker_calls())


@cache
def indexer() -> JobRunner:
    """Does the work of one job."""
    from strata.indexing.persistence import PersistentEmbedder
    from strata.indexing.pipeline import Indexer

    return Indexer(
        sessions=session_store(),
        cache=blob_cache(),
        objects=object_store(),
        embedder=PersistentEmbedder(embedder=embedder()),
        settings=settings().indexing,
        preambler=preambler(),
        prices=choosing.prices(settings().models.chat),
    )


# --- questions -----------------------------------------------------------------------------------------------------


@cache
def answerer() -> Answerer:
    """Answers questions from what is indexed."""
    from strata.answering.answer import Answerer

    return Answerer(
        gate=cache_gate(),
        retriever=retriever(),
        search=chunk_search(),
        generator=generator(),
        counter=embedder(),
        max_context_tokens=settings().answering.max_context_tokens,
    )


def warm_answering() -> None:
    """Build what a question needs and run the embedder once, so that the first question doesn't wait for it.

    No store is called: a paused database stays paused.
    """
    answerer()
    embedder().embed_query("warm")


@cache
def retriever() -> Retriever:
    from strata.retrieval.retrieve import Retriever

    return Retriever(
        search=chunk_search(),
        embedder=embedder(),
        depth=settings().answering.retrieval_depth,
        structural_weight=settings().answering.structural_weight,
        reranker=reranker(),
        expander=expander(),
    )


@cache
def reranker() -> Reranker | None:
    """The reranker that the settings name; None for the order of the fusion."""
    return choosing.reranker(settings().models.reranker, _features, threads=settings().embedder.threads)


def _features() -> Reranker:
    from strata.retrieval.features import FeatureReranker

    return FeatureReranker(languages=embedder().languages)


@cache
def chunk_search() -> ChunkSearch:
    from strata.storage.postgres.search import PostgresSearch

    return PostgresSearch(_database())


@cache
def cache_gate() -> CacheGate:
    from strata.answering.cache_gate import CacheGate

    return CacheGate(
        cache=_query_cache(),
        search=chunk_search(),
        retrieval_version=_retrieval_version(),
        ttl_s=settings().answering.cache_ttl_s,
    )


def _retrieval_version() -> str:
    chosen, expanded = settings().models.reranker, expander()
    parts = (
        __version__,
        _pipeline(),
        str(settings().answering.retrieval_depth),
        str(settings().answering.structural_weight),
        chosen.name,
        chosen.model,
        str(chosen.rows),
        "" if expanded is None else expanded.version,
    )
    return "/".join(parts)


@cache
def _query_cache() -> DynamoQueryCache:
    from strata.storage.aws import aws_client
    from strata.storage.dynamodb.client import Table
    from strata.storage.dynamodb.query_cache import DynamoQueryCache

    # A cache that is slower than the search is none: give up early.
    client = aws_client("dynamodb", connect_timeout_s=0.5, read_timeout_s=0.5, attempts=1)
    return DynamoQueryCache(table=Table(client=client, name=settings().storage.cache_table), clock=clock())


@cache
def generator() -> Generator:
    """The generator that the settings name."""
    name = settings().answering.generator
    if name not in _GENERATORS:
        raise ConfigurationError(f"STRATA_GENERATOR must be one of: {', '.join(sorted(_GENERATORS))}.")
    return _GENERATORS[name]()


def _extractive() -> Generator:
    from strata.providers.extractive.generator import ExtractiveGenerator

    return ExtractiveGenerator()


_GENERATORS: dict[str, Callable[[], Generator]] = {"extractive": _extractive}
"""Generators by name, imported on use."""
