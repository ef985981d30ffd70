"""The content-addressed cache of prepared files."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache
from itertools import accumulate, chain, islice
from typing import Any, NamedTuple

import numpy as np

from strata.errors import SessionNotFound
from strata.jobs.fault_points import reach
from strata.model.chat import ModelUsage
from strata.model.corpus import BlobKey, Link, Note, PreparedBlob, Vector
from strata.storage.postgres import copying
from strata.storage.postgres.connection import Connection, Database
from strata.storage.postgres.queries import queries
from strata.storage.postgres.storable import are_storable_terms, storable_json, storable_term, storable_text

MOST_REMEMBERED_TERMS = 100_000
"""Up to 25 MB in each process."""


class PostgresBlobCache:
    """Keeps the promise of `strata.ports.blobs.BlobCache`."""

    def __init__(self, database: Database, *, remembers_terms: bool = False) -> None:
        """`remembers_terms`: for one job; a database that is restored may give other ids to new words."""
        self._database = database
        self._sql = queries("cache")
        self._remembered: dict[str, int] | None = {} if remembers_terms else None

    def present(self, keys: Collection[BlobKey]) -> set[BlobKey]:
        wanted = list(keys)
        if not wanted:
            return set()
        rows = self._database.transact(lambda c: c.execute(self._sql["present"], _columns(wanted)).fetchall())
        return {wanted[place - 1] for (place,) in rows}

    def contents(self, keys: Collection[BlobKey]) -> dict[BlobKey, bytes]:
        wanted = list(keys)
        if not wanted:
            return {}
        rows = self._database.transact(lambda c: c.execute(self._sql["contents"], _columns(wanted)).fetchall())
        return {wanted[place - 1]: bytes(source) for place, source in rows}

    def notes(self, keys: Collection[BlobKey]) -> dict[str, tuple[Note, ...]]:
        if not keys:
            return {}
        rows = self._database.transact(lambda c: c.execute(self._sql["notes"], _columns(keys)).fetchall())
        return {path: tuple(map(_note, texts)) for path, texts in rows}

    def in_new_process(self) -> PostgresBlobCache:
        return PostgresBlobCache(self._database.in_new_process(), remembers_terms=True)

    def earlier_vectors(self, keys: Collection[BlobKey]) -> dict[bytes, Vector]:
        wanted = list(keys)
        if not wanted:
            return {}
        rows = self._database.transact(lambda c: c.execute(self._sql["earlier_vectors"], _columns(wanted)).fetchall())
        return {bytes(text_key): copying.vector(bytes(embedding)) for text_key, embedding in rows}

    def usage(self, keys: Collection[BlobKey], *, since: datetime) -> ModelUsage:
        if not keys:
            return ModelUsage()
        parameters = {**_columns(list(keys)), "since": since}
        ((calls, input_tokens, output_tokens),) = self._database.transact(
            lambda c: c.execute(self._sql["usage"], parameters).fetchall()
        )
        return ModelUsage(calls=calls, input_tokens=input_tokens, output_tokens=output_tokens)

    def keep(self, blobs: Sequence[PreparedBlob]) -> None:
        """The words go into the dictionary in a transaction of their own before: it is shared by everybody, so its
        rows are locked for as short as possible, and a word without a chunk does no harm.
        """
        new = {blob.key: blob for blob in reversed(blobs)}
        if not new:
            return
        words = _words(new.values())
        term_ids = self._term_ids(set(chain.from_iterable(words.values())))
        terms = _packed_terms(new, words, term_ids)
        reach("before_cache_write")
        self._database.transact(lambda connection: self._keep(connection, new, terms))
        reach("after_cache_write")

    def _term_ids(self, terms: Collection[str]) -> Mapping[str, int]:
        known = {} if self._remembered is None else self._remembered
        if len(known) > MOST_REMEMBERED_TERMS:
            known.clear()
        if missing := [term for term in terms if term not in known]:
            known.update(self._database.transact(lambda c: self._known(c, missing)))
        # A conflict would use up an id of the sequence, which ends at 1,000,000,000: only what is new is inserted.
        if missing := [term for term in terms if term not in known]:
            known.update(
                self._database.transact(lambda c: c.execute(self._sql["add_terms"], {"terms": missing}).fetchall())
            )
        # What somebody else has added meanwhile.
        if missing := [term for term in terms if term not in known]:
            known.update(self._database.transact(lambda c: self._known(c, missing)))
        return known

    def _known(self, connection: Connection, terms: list[str]) -> list[tuple[str, int]]:
        return connection.execute(self._sql["known_terms"], {"terms": terms}).fetchall()

    def _keep(
        self,
        connection: Connection,
        blobs: Mapping[BlobKey, PreparedBlob],
        terms: Mapping[BlobKey, Sequence[_PackedTerms]],
    ) -> None:
        self._refuse_deleted_repositories(connection, blobs)
        parameters = {
            **_columns(blobs),
            "sources": [blob.source for blob in blobs.values()],
            "notes": [json.dumps([storable_text(note.text) for note in blob.notes]) for blob in blobs.values()],
            "layer_lengths": [_layer_lengths(blob, terms[key]) for key, blob in blobs.items()],
            "calls": [blob.usage.calls for blob in blobs.values()],
            "input_tokens": [blob.usage.input_tokens for blob in blobs.values()],
            "output_tokens": [blob.usage.output_tokens for blob in blobs.values()],
        }
        added = connection.execute(self._sql["add_blobs"], parameters).fetchall()
        reach("in_cache_write")
        added_blobs = [(blob_id, blobs[BlobKey(**dict(zip(_KEY, key, strict=True)))]) for blob_id, *key in added]
        for statement, rows in (
            ("copy_chunks", _rows(added_blobs, terms)),
            ("copy_links", (row for blob_id, blob in added_blobs for row in _link_rows(blob_id, blob.links))),
        ):
            with connection.cursor().copy(self._sql[statement]) as copy:
                copy.write(copying.HEADER)
                while part := b"".join(islice(rows, _ROWS_AT_ONCE)):
                    copy.write(part)
                copy.write(copying.TRAILER)

    def _refuse_deleted_repositories(self, connection: Connection, keys: Collection[BlobKey]) -> None:
        repositories = sorted({(key.tenant, key.repo_id) for key in keys})
        parameters = {
            "tenants": [tenant for tenant, _ in repositories],
            "repo_ids": [repo_id for _, repo_id in repositories],
        }
        connection.execute(self._sql["hold_repositories"], parameters)
        # A statement of its own: after waiting for a deletion it must see what that has left.
        if connection.execute(self._sql["deleted_repository"], parameters).fetchone() is not None:
            raise SessionNotFound


def _columns(keys: Collection[BlobKey]) -> dict[str, Any]:
    return {
        "tenants": [key.tenant for key in keys],
        "repo_ids": [key.repo_id for key in keys],
        "paths": [key.path for key in keys],
        "blob_shas": [key.blob_sha for key in keys],
        "pipeline_versions": [key.pipeline_version for key in keys],
        "embedding_models": [key.embedding_model for key in keys],
    }


_ROWS_AT_ONCE = 500
_ID = (1 << 32) - 1
_KEY = ("tenant", "repo_id", "path", "blob_sha", "pipeline_version", "embedding_model")
_NOTED_LINE = re.compile(r"line (\d{1,9}): ")


def _note(text: str) -> Note:
    found = _NOTED_LINE.match(text)
    return Note(reason=text[found.end() :], line=int(found[1])) if found else Note(reason=text)


class _PackedTerms(NamedTuple):
    """Of a chunk: its terms as a field of its row, each an id and a count, by ascending id; the sum of the counts."""

    field: bytes
    length: int


def _words(blobs: Iterable[PreparedBlob]) -> dict[int, Sequence[str]]:
    """The words that chunks share, as the dictionary can hold them, by the identity of what they share."""
    shared = {id(embedded.terms.words): embedded.terms.words for blob in blobs for embedded in blob.chunks}
    return {
        identity: words if are_storable_terms(words) else list(map(storable_term, words))
        for identity, words in shared.items()
    }


def _packed_terms(
    blobs: Mapping[BlobKey, PreparedBlob], words: Mapping[int, Sequence[str]], term_ids: Mapping[str, int]
) -> dict[BlobKey, list[_PackedTerms]]:
    """Of each chunk of each file. Counts of terms that the dictionary holds as one add up."""
    terms = [embedded.terms for blob in blobs.values() for embedded in blob.chunks]
    if not terms:
        return {key: [] for key in blobs}
    starts = dict(zip(words, accumulate(map(len, words.values()), initial=0), strict=False))
    ids = np.array([term_ids[word] for shared in words.values() for word in shared], dtype=np.int64)
    sizes = [len(each.numbers) for each in terms]
    places = np.concatenate([each.numbers for each in terms]) + np.repeat(
        [starts[id(each.words)] for each in terms], sizes
    )
    counts = np.concatenate([each.counts for each in terms])
    keys = np.repeat(np.arange(len(terms)), sizes) << 32 | ids[places]
    ascending = np.argsort(keys)
    keys, counts = keys[ascending], counts[ascending]
    first = np.flatnonzero(np.diff(keys, prepend=-1))
    keys, counts = keys[first], np.add.reduceat(counts, first)
    sizes = np.bincount(keys >> 32, minlength=len(terms)).tolist()
    packed = map(
        _PackedTerms,
        copying.byte_pairs(keys & _ID, counts, sizes),
        np.bincount(keys >> 32, weights=counts, minlength=len(terms)).astype(np.int64).tolist(),
    )
    return {key: list(islice(packed, len(blob.chunks))) for key, blob in blobs.items()}


def _layer_lengths(blob: PreparedBlob, terms: Sequence[_PackedTerms]) -> str:
    chunks, lengths = Counter[str](), Counter[str]()
    for embedded, packed in zip(blob.chunks, terms, strict=True):
        layer = embedded.chunk.layer.value
        chunks[layer] += 1
        lengths[layer] += packed.length
    return json.dumps([{"layer": layer, "chunks": chunks[layer], "terms": lengths[layer]} for layer in chunks])


def _link_rows(blob_id: int, links: Sequence[Link]) -> Iterator[bytes]:
    first, text = copying.int8(blob_id), cache(lambda value: copying.text(storable_text(value)))
    for link in links:
        yield copying.row(
            (
                first,
                text(link.kind.value),
                text(link.symbol),
                text(link.target),
                text(link.key),
                copying.boolean(link.is_path),
                copying.int4(link.line),
            )
        )


def _rows(
    blobs: Sequence[tuple[int, PreparedBlob]], terms: Mapping[BlobKey, Sequence[_PackedTerms]]
) -> Iterator[bytes]:
    for blob_id, blob in blobs:
        first = copying.int8(blob_id)
        for embedded, packed in zip(blob.chunks, terms[blob.key], strict=True):
            chunk = embedded.chunk
            yield copying.row(
                (
                    first,
                    copying.text(chunk.layer.value),
                    copying.int4(chunk.ordinal),
                    copying.text(storable_text(chunk.title)),
                    copying.text(storable_text(chunk.content)),
                    copying.int4(chunk.span.start),
                    copying.int4(chunk.span.end),
                    copying.jsonb(storable_json(chunk.metadata)),
                    copying.NULL if embedded.embedding is None else copying.halfvec(embedded.embedding),
                    packed.field,
                    copying.int4(packed.length),
                    copying.bytea(embedded.text_key),
                )
            )
