"""Jobs, events and dead letters ↔ DynamoDB items: their keys, their attributes, and the lists that they are on."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from strata.model.chat import ModelUsage
from strata.model.corpus import ReportedFile
from strata.model.jobs import Counters, DeadLetter, Job, JobEvent, JobKind, JobReport, JobStatus
from strata.storage.dynamodb.client import Item

OPEN_UPLOADS = "open_uploads"
"""The list of jobs that await their upload, by the time when it is given up."""
_MAX_LIST_ENTRIES = 200
_MAX_LIST_BYTES = 30_000  # three lists a job, 50 jobs in a reply of at most 6 MB; an item may hold 400 KB
_MAX_TEXT_CHARACTERS = 1_000


def unchanged(job: Job) -> tuple[str, dict[str, Any]]:
    """The condition that nobody has changed the job since it was read."""
    values = {
        ":seen_status": job.status.value,
        ":seen_starts": job.starts,
        ":seen_cancel": job.cancel_requested,
        ":seen_committing": job.committing,
    }
    return (
        "#status = :seen_status AND starts = :seen_starts"
        " AND cancel_requested = :seen_cancel AND committing = :seen_committing"
    ), values


def job_key(job_id: str) -> dict[str, str]:
    return {"pk": f"job#{job_id}", "sk": "job"}


def job_item(job: Job) -> Item:
    return {
        "job_id": job.job_id,
        "session_id": job.session_id,
        "tenant": job.tenant,
        "kind": job.kind.value,
        "status": job.status.value,
        "object_key": job.object_key,
        "created_at": time_text(job.created_at),
        "updated_at": time_text(job.updated_at),
        "seq": job.seq,
        "fence": job.fence,
        "report": _report_text(job.report),
        "error_code": job.error_code,
        "error_message": None if job.error_message is None else job.error_message[:_MAX_TEXT_CHARACTERS],
        "error_about": None if job.error_about is None else json.dumps(capped([job.error_about]), ensure_ascii=False),
        "object_version": job.object_version,
        "starts": job.starts,
        "reindex": job.reindex,
        "upload_until": None if job.upload_until is None else time_text(job.upload_until),
        "cancel_requested": job.cancel_requested,
        "committing": job.committing,
        "retried_as": job.retried_as,
        **_listing(job),
    }


def _listing(job: Job) -> Item:
    """The list that the job is on, if somebody must look after it."""
    if job.status is JobStatus.AWAITING_UPLOAD and job.upload_until is not None:
        return {"list_name": OPEN_UPLOADS, "list_at_ms": epoch_ms(job.upload_until)}
    if job.status is JobStatus.ERROR and job.retried_as is None:
        return {"list_name": failed_list(job.tenant), "list_at_ms": epoch_ms(job.updated_at)}
    return {}


def failed_list(tenant: str) -> str:
    return f"failed#{tenant}"


def letter_list(tenant: str | None) -> str:
    return "dead_letters" if tenant is None else f"dead_letters#{tenant}"


def letter_key(letter_id: str) -> dict[str, str]:
    return {"pk": f"dead_letter#{letter_id}", "sk": "letter"}


def letter_of(item: Item) -> DeadLetter:
    return DeadLetter(
        letter_id=item["letter_id"],
        object_key=item["object_key"],
        object_version=item["object_version"],
        reason=item["reason"],
        created_at=datetime.fromisoformat(item["created_at"]),
        session_id=item["of_session"],
        tenant=item["tenant"],
    )


def key_of(item: Item) -> dict[str, str]:
    return {"pk": item["pk"], "sk": item["sk"]}


def job_of(item: Item) -> Job:
    report = json.loads(item["report"])
    return Job(
        job_id=item["job_id"],
        session_id=item["session_id"],
        tenant=item["tenant"],
        kind=JobKind(item["kind"]),
        status=JobStatus(item["status"]),
        object_key=item["object_key"],
        created_at=datetime.fromisoformat(item["created_at"]),
        updated_at=datetime.fromisoformat(item["updated_at"]),
        seq=item["seq"],
        fence=item["fence"],
        report=JobReport(
            counters=Counters(**report["counters"]),
            chunks=report["chunks"],
            generation=report["generation"],
            skipped=_reported(report["skipped"]),
            failed=_reported(report["failed"]),
            notes=_reported(report.get("notes", ())),
            note_count=report.get("note_count", 0),
            usage=None if report.get("usage") is None else ModelUsage(**report["usage"]),
        ),
        error_code=item["error_code"],
        error_message=item["error_message"],
        error_about=next(iter(_reported(json.loads(item.get("error_about") or "[]"))), None),
        object_version=item["object_version"],
        starts=item["starts"],
        reindex=item.get("reindex", False),
        upload_until=None if item["upload_until"] is None else datetime.fromisoformat(item["upload_until"]),
        cancel_requested=item["cancel_requested"],
        committing=item["committing"],
        retried_as=item["retried_as"],
    )


def event_of(item: Item) -> JobEvent:
    return JobEvent(seq=int(item["sk"].removeprefix("event#")), name=item["name"], data=json.loads(item["data"]))


def _report_text(report: JobReport) -> str:
    return json.dumps(
        {
            "counters": asdict(report.counters),
            "chunks": report.chunks,
            "generation": report.generation,
            "skipped": capped(report.skipped),
            "failed": capped(report.failed),
            "notes": capped(report.notes),
            "note_count": report.note_count,
            "usage": None if report.usage is None else asdict(report.usage),
        },
        ensure_ascii=False,
        separators=(",", ":"),
    )


def _reported(entries: Sequence[Mapping[str, Any]]) -> tuple[ReportedFile, ...]:
    return tuple(
        ReportedFile(
            path=entry["path"],
            reason=entry["reason"],
            line=entry.get("line"),
            acl=_acl(entry, "acl"),
            named=entry.get("named"),
            named_acl=_acl(entry, "named_acl"),
        )
        for entry in entries
    )


def _acl(entry: Mapping[str, Any], name: str) -> tuple[str, ...] | None:
    return None if entry.get(name) is None else tuple(entry[name])


def capped(files: Sequence[ReportedFile]) -> list[dict[str, Any]]:
    """The first files that fit into a job's item; the counters tell how many there were."""
    kept: list[dict[str, Any]] = []
    size_bytes = 0
    for file in files[:_MAX_LIST_ENTRIES]:
        entry: dict[str, Any] = {"path": _storable(file.path), "reason": _storable(file.reason)}
        if file.line is not None:
            entry["line"] = file.line
        if file.acl is not None:
            entry["acl"] = list(file.acl)
        if file.named is not None:
            entry["named"] = _storable(file.named)
        if file.named_acl is not None:
            entry["named_acl"] = list(file.named_acl)
        size_bytes += len(json.dumps(entry, ensure_ascii=False).encode())
        if size_bytes > _MAX_LIST_BYTES:
            break
        kept.append(entry)
    return kept


def _storable(text: str) -> str:
    """Cut to a sane length; broken surrogates, which no store takes, become question marks."""
    return text[:_MAX_TEXT_CHARACTERS].encode(errors="replace").decode()


def epoch_ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


def time_text(moment: datetime) -> str:
    """ISO 8601 in UTC with microseconds always: the texts sort as the times do."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds")
