"""What the states of the re-indexing state machine tell each other; the definition reads these names."""

from __future__ import annotations

from strata.contracts.jobs import View
from strata.jobs.execution import Planned


class Manifest(View):
    bucket: str
    key: str


class ExecutionPlanned(View):
    """What the state machine goes on with: the manifest's lines name the batches. `ended`: the job was over before."""

    job_id: str
    session_id: str
    ended: bool
    batches: int
    manifest: Manifest

    @classmethod
    def of(cls, planned: Planned, *, bucket: str) -> ExecutionPlanned:
        return cls(
            job_id=planned.job_id,
            session_id=planned.session_id,
            ended=planned.ended,
            batches=planned.batches,
            manifest=Manifest(bucket=bucket, key=planned.manifest_key),
        )
