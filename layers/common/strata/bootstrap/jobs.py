"""What requests ask: sessions and their jobs. No model is loaded for any of them."""

from __future__ import annotations

from datetime import timedelta
from functools import cache

from strata.bootstrap import environment, models, stores
from strata.indexing.drift import DriftReporter
from strata.indexing.linked import LinkFinder
from strata.jobs.controlling import JobControl
from strata.jobs.events import EventFeed
from strata.jobs.keeping import SessionKeeper
from strata.jobs.lifecycle import Lifecycle
from strata.jobs.reading import JobReader


@cache
def lifecycle() -> Lifecycle:
    """Opens jobs and accepts their content."""
    limits = environment.settings().indexing.limits
    return Lifecycle(
        sessions=stores.session_store(),
        jobs=stores.job_store(),
        objects=stores.object_store(),
        clock=environment.clock(),
        embedding_model=models.embedding_model().model_id,
        dimension=models.embedding_model().dimension,
        pipeline_version=models.pipeline_version(),
        max_archive_bytes=limits.max_archive_bytes,
        max_inline_bytes=limits.max_inline_bytes,
        upload_expires_in_s=limits.upload_expires_in_s,
    )


@cache
def job_reader() -> JobReader:
    return JobReader(sessions=stores.session_store(), jobs=stores.job_store())


@cache
def job_control() -> JobControl:
    """Cancels jobs and puts failed ones back."""
    return JobControl(
        sessions=stores.session_store(),
        jobs=stores.job_store(),
        objects=stores.object_store(),
        lifecycle=lifecycle(),
        calls=stores.worker_calls(),
        clock=environment.clock(),
    )


@cache
def session_keeper() -> SessionKeeper:
    """Changes a session's readers and deletes sessions."""
    return SessionKeeper(
        sessions=stores.session_store(),
        jobs=stores.job_store(),
        lock=stores.session_lock(),
        objects=stores.object_store(),
        calls=stores.worker_calls(),
        clock=environment.clock(),
        lease=timedelta(seconds=environment.settings().indexing.lease_s),
    )


@cache
def drift_reporter() -> DriftReporter:
    return DriftReporter(links=stores.link_reader())


@cache
def link_finder() -> LinkFinder:
    return LinkFinder(links=stores.link_reader())


@cache
def event_feed() -> EventFeed:
    return EventFeed(jobs=stores.job_store())
