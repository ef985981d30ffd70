from __future__ import annotations

import pytest

from strata.errors import ConfigurationError
from strata.settings.load import load_settings

COMPLETE = {
    "STRATA_DATABASE_URL": "postgresql://strata_query:secret@localhost/strata",
    "STRATA_BUCKET": "bucket",
    "STRATA_JOBS_TABLE": "jobs",
    "STRATA_CACHE_TABLE": "cache",
}


def test_defaults_are_used_where_nothing_is_set() -> None:
    settings = load_settings(COMPLETE)
    assert settings.storage.bucket == "bucket"
    assert settings.indexing.chunk_tokens == 500
    assert settings.embedder.name == "onnx"


def test_every_section_reads_its_variables() -> None:
    settings = load_settings(
        COMPLETE
        | {"STRATA_LEASE_S": "1.5", "STRATA_MAX_ENTRIES": "7", "STRATA_EMBEDDER": "hashed", "STRATA_CACHE_TTL_S": "9"}
    )
    assert settings.indexing.lease_s == 1.5
    assert settings.indexing.limits.max_entries == 7
    assert settings.embedder.name == "hashed"
    assert settings.answering.cache_ttl_s == 9


def test_all_faults_are_named_at_once_and_no_value_is_shown() -> None:
    with pytest.raises(ConfigurationError) as refused:
        load_settings({"STRATA_BUCKET": "b", "STRATA_LEASE_S": "s3cret", "STRATA_MAX_ENTRIES": "many"})
    for variable in ("STRATA_CACHE_TABLE", "STRATA_JOBS_TABLE", "STRATA_LEASE_S", "STRATA_MAX_ENTRIES"):
        assert variable in refused.value.message
    assert "s3cret" not in refused.value.message
