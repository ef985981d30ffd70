from __future__ import annotations

import pytest

from strata.model.access import Identity, Session

SESSION = Session(
    session_id="docs", tenant="acme", project_id="p", repo_id="p", owner="user:ann", readers=("group:devs",),
    generation=1, applied_seq=1, fence=1, embedding_model="m", dimension=3, pipeline_version="1",
)  # fmt: skip


@pytest.mark.parametrize(
    ("identity", "reads", "writes"),
    [
        pytest.param(Identity(subject="ann", tenant="acme"), True, True, id="the owner"),
        pytest.param(Identity(subject="bob", tenant="acme", groups=("devs",)), True, False, id="a reader by group"),
        pytest.param(Identity(subject="bob", tenant="acme"), False, False, id="a stranger of the tenant"),
        pytest.param(Identity(subject="ann", tenant="other"), False, False, id="the same name in another tenant"),
        pytest.param(Identity(subject="devs", tenant="acme"), False, False, id="a user named like the group"),
    ],
)
def test_a_session_is_read_by_owner_and_readers_and_written_by_its_owner(
    identity: Identity, reads: bool, writes: bool
) -> None:
    assert (SESSION.readable_by(identity), SESSION.writable_by(identity)) == (reads, writes)


def test_principals_are_sorted_so_that_one_caller_has_one_cache_key() -> None:
    identity = Identity(subject="ann", tenant="t", groups=("z", "a", "a"))
    assert identity.principals == ("group:a", "group:z", "user:ann")
