"""What does the work of jobs: in turn, whole or as an execution's states, and what looks after it."""

from __future__ import annotations

from datetime import timedelta
from functools import cache

from strata import choosing
from strata.bootstrap import environment, jobs, models, stores
from strata.errors import ConfigurationError
from strata.jobs.dispatch import Dispatcher
from strata.jobs.execution import JobExecution
from strata.jobs.mailbox import Mailbox
from strata.jobs.retrying import RetryPolicy
from strata.jobs.running import JobRunner, Stages
from strata.jobs.sweeping import Sweep
from strata.jobs.worker import UploadWorker
from strata.ports.generation import Preambler


@cache
def mailbox() -> Mailbox:
    """Works through a session's jobs; the embedder is loaded for the first of them."""
    return Mailbox(
        sessions=stores.session_store(),
        jobs=stores.job_store(),
        lock=stores.session_lock(),
        keeper=jobs.session_keeper(),
        runner=indexer,
        clock=environment.clock(),
        lease=timedelta(seconds=environment.settings().indexing.lease_s),
        dispatcher=_dispatcher(),
    )


def _dispatcher() -> Dispatcher | None:
    indexing = environment.settings().indexing
    if not indexing.reindex_state_machine:
        return None
    from strata.storage.aws import aws_client
    from strata.storage.stepfunctions.executions import StepFunctionsExecutions

    return Dispatcher(
        sessions=stores.session_store(),
        objects=stores.object_store(),
        executions=StepFunctionsExecutions(
            client=aws_client("stepfunctions"), state_machine=indexing.reindex_state_machine
        ),
        least_archive_bytes=indexing.reindex_archive_bytes,
        embedding_model=models.embedding_model().model_id,
        dimension=models.embedding_model().dimension,
        pipeline_version=models.pipeline_version(),
    )


@cache
def job_execution() -> JobExecution:
    """The states of an execution that works on one large job."""
    return JobExecution(
        sessions=stores.session_store(),
        jobs=stores.job_store(),
        lock=stores.session_lock(),
        clock=environment.clock(),
        lease=timedelta(seconds=environment.settings().indexing.lease_s),
        mailbox=mailbox(),
        stages=_stages,
        retry=RetryPolicy(),
    )


@cache
def _stages() -> Stages:
    from strata.indexing.new_index import Built
    from strata.indexing.stages import IndexingStages

    return IndexingStages(
        sessions=stores.session_store(),
        cache=stores.blob_cache(),
        objects=stores.object_store(),
        embedder=models.embedder,
        built=Built(
            embedding_model=models.embedding_model().model_id,
            dimension=models.embedding_model().dimension,
            pipeline_version=models.pipeline_version(),
        ),
        settings=environment.settings().indexing,
        preambler=_preambler if choosing.writes_preambles(environment.settings().models.preamble) else None,
        prices=choosing.prices(environment.settings().models.chat),
    )


def _preambler() -> Preambler:
    found = models.preambler()
    if found is None:
        raise ConfigurationError("STRATA_PREAMBLE is none.")
    return found


@cache
def upload_worker() -> UploadWorker:
    return UploadWorker(
        lifecycle=jobs.lifecycle(), jobs=stores.job_store(), mailbox=mailbox(), calls=stores.worker_calls()
    )


@cache
def indexer() -> JobRunner:
    """Does the work of one job."""
    from strata.indexing.persistence import PersistentEmbedder
    from strata.indexing.pipeline import Indexer

    return Indexer(
        sessions=stores.session_store(),
        cache=stores.blob_cache(),
        objects=stores.object_store(),
        embedder=PersistentEmbedder(embedder=models.embedder()),
        settings=environment.settings().indexing,
        preambler=models.preambler(),
        prices=choosing.prices(environment.settings().models.chat),
    )


@cache
def sweep() -> Sweep:
    """Looks after work that nobody is doing; asks DynamoDB and S3 only."""
    return Sweep(
        jobs=stores.job_store(), objects=stores.object_store(), calls=stores.worker_calls(), clock=environment.clock()
    )
