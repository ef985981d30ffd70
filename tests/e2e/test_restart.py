"""Stop and start of the local cloud: what is kept, and what goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from strata_client.client import StrataClient
from strata_local.up import LocalCloud
from tests.support.courier import FILES, paths_found, snapshot, tar_gz

pytestmark = pytest.mark.e2e


def test_a_cloud_that_stops_and_starts_again_goes_on(tmp_path: Path) -> None:
    """S3 and DynamoDB start empty while Postgres keeps its rows: the order is seeded from Postgres."""
    environment = {"STRATA_EMBEDDER": "hashed"}
    with (
        LocalCloud(tmp_path, port=0, environment=environment) as cloud,
        StrataClient(cloud.api_url) as client,
    ):
        snapshot(client, "kept", tar_gz(FILES))
        snapshot(client, "kept", tar_gz({**FILES, "more.md": "# More\n\nA second edition.\n"}))
    with (
        LocalCloud(tmp_path, port=0, environment=environment) as cloud,
        StrataClient(cloud.api_url) as client,
    ):
        assert "docs/webhooks.md" in paths_found(client, "kept", "webhook secret")
        job = snapshot(client, "kept", tar_gz({"README.md": "# Anew\n\nOnly a walrus is left.\n"}))
        assert (job["status"], job["seq"], job["counters"]["deleted_files"]) == ("done", 3, 3)
        assert set(paths_found(client, "kept", "walrus webhook secret")) == {"README.md"}
