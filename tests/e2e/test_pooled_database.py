"""The whole local cloud on a database behind PgBouncer in transaction mode, migrations included."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from strata_client.client import StrataClient
from strata_local.up import LocalCloud
from tests.support.courier import FILES, paths_found, snapshot, tar_gz
from tests.support.pooler import WHY_NOT, pgbouncer, transaction_pooler
from tests.support.postgres import PostgresServer

pytestmark = [pytest.mark.e2e, pytest.mark.skipif(pgbouncer() is None, reason=WHY_NOT)]


@pytest.fixture
def client(postgres_server: PostgresServer) -> Iterator[StrataClient]:
    """The cloud sets the roles' passwords, which belong to the whole server."""
    with (
        tempfile.TemporaryDirectory() as folder,
        postgres_server.fresh_database(migrated=False) as database,
        postgres_server.roles_put_back(),
        transaction_pooler(database.owner_url) as pooler,
        LocalCloud(
            Path(folder),
            port=0,
            environment={"STRATA_EMBEDDER": "hashed"},
            database_url=pooler.before(database.owner_url),
        ) as cloud,
        StrataClient(cloud.api_url) as made,
    ):
        yield made


def test_jobs_questions_and_a_roll_back_through_the_pooler(client: StrataClient) -> None:
    job = snapshot(client, "courier", tar_gz(FILES))
    assert (job["status"], job["counters"]["indexed_files"]) == ("done", len(FILES))
    changes = [{"op": "delete", "path": "README.md"}, {"op": "upsert", "path": "new.md", "content": "# Zebra\n"}]
    assert client.wait_for(client.changes("courier", changes)["job_id"], timeout_s=60)["status"] == "done"
    assert "new.md" in paths_found(client, "courier", "zebra")
    answer = client.answer("courier", "How do I reset the webhook secret?")["answer"]
    assert (answer["abstained"], bool(answer["citations"])) == (False, True)
    opened = client.create_session("courier", reindex=True, files=[{"path": "one.md", "content": "# One\n"}])
    assert client.wait_for(opened["job"]["job_id"], timeout_s=60)["status"] == "done"
    assert set(paths_found(client, "courier", "zebra one")) == {"one.md"}
    assert client.wait_for(client.roll_back("courier")["job_id"], timeout_s=60)["status"] == "done"
    assert "new.md" in paths_found(client, "courier", "zebra")
