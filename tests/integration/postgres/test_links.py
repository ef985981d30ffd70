from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from strata.errors import SessionNotFound
from strata.model.access import Identity
from strata.model.links import Links
from strata.storage.postgres.connection import Database
from strata.storage.postgres.links import PostgresLinks
from tests.support.factories import identity
from tests.support.indexing import IndexedSession
from tests.support.postgres import TestDatabase

SHOP = {
    "src/shop/__init__.py": "from .orders import Order\nfrom .prices import *\n",
    "src/shop/orders.py": (
        "from .stock import Stock\nfrom . import json\n\n\nclass Order(Stock):\n    stock: Stock\n\n"
        "    def place(self):\n        self.stock.take()\n        self.check()\n\n"
        "    def check(self):\n        from .stock import LIMIT\n        return LIMIT\n"
    ),
    "src/shop/stock.py": "LIMIT = 3\n\n\nclass Stock:\n    def take(self):\n        pass\n",
    "src/shop/json.py": "def dumps():\n    pass\n",
    "src/shop/prices.py": "def price():\n    pass\n",
    "app.py": (
        "import json\nimport requests\nfrom shop import Order\n\n\n"
        "def main():\n    Order().place()\n    requests.get('/x')\n"
    ),
    "docs/guide.md": (
        "# Guide\n\nThe `Order` of `shop.orders.Order`; see [stock](../src/shop/stock.py) and `orders.py`.\n"
    ),
}


@pytest.fixture
def session(postgres: TestDatabase) -> Iterator[IndexedSession]:
    database = Database(postgres.index_url)
    yield IndexedSession(database).open(readers=["user:bob"])
    database.close()


@pytest.fixture
def reader(postgres: TestDatabase) -> Iterator[PostgresLinks]:
    database = Database(postgres.query_url)
    yield PostgresLinks(database)
    database.close()


def outgoing(links: Links) -> set[tuple[str, str, str | None]]:
    return {(link.kind.value, link.target, link.leads_to and link.leads_to.name) for link in links.outgoing}


def incoming(links: Links) -> set[tuple[str, str, str]]:
    return {(link.kind.value, link.path, link.target) for link in links.incoming}


def test_a_symbols_links_are_joined_over_files(session: IndexedSession, reader: PostgresLinks) -> None:
    session.commit(SHOP)
    found = reader.links("shop", identity(), symbol="shop.orders.Order", limit=50)
    assert outgoing(found) == {
        ("inherits", "src.shop.stock.Stock", "src.shop.stock.Stock"),
        ("calls", "src.shop.stock.Stock.take", "src.shop.stock.Stock.take"),
        ("calls", "src.shop.orders.Order.check", "src.shop.orders.Order.check"),
        ("imports", "src.shop.stock.LIMIT", "src.shop.stock.LIMIT"),
    }
    assert incoming(found) == {
        ("imports", "src/shop/__init__.py", "src.shop.orders.Order"),
        ("imports", "app.py", "shop.Order"),
        ("calls", "app.py", "shop.Order"),
        ("mentions", "docs/guide.md", "shop.orders.Order"),
    }


def test_a_files_links_are_those_of_all_that_it_defines(session: IndexedSession, reader: PostgresLinks) -> None:
    session.commit(SHOP)
    found = reader.links("shop", identity(), path="src/shop/stock.py", limit=50)
    assert outgoing(found) == set()
    assert incoming(found) == {
        ("imports", "src/shop/orders.py", "src.shop.stock.Stock"),
        ("inherits", "src/shop/orders.py", "src.shop.stock.Stock"),
        ("calls", "src/shop/orders.py", "src.shop.stock.Stock.take"),
        ("imports", "src/shop/orders.py", "src.shop.stock.LIMIT"),
        ("documents", "docs/guide.md", "/src/shop/stock.py"),
    }
    document = reader.links("shop", identity(), path="docs/guide.md", limit=50)
    assert outgoing(document) == {
        ("mentions", "shop.orders.Order", "src.shop.orders.Order"),
        ("documents", "/src/shop/stock.py", "src/shop/stock.py"),
        ("mentions", "orders.py", "src/shop/orders.py"),
    }


def test_another_project_of_that_name_is_not_taken_for_ours(session: IndexedSession, reader: PostgresLinks) -> None:
    session.commit(SHOP)
    found = reader.links("shop", identity(), path="app.py", limit=50)
    assert ("imports", "requests", None) in outgoing(found)
    assert not any(target.endswith("json") for _, target, _ in outgoing(found))  # the standard library's
    inner = reader.links("shop", identity(), path="src/shop/json.py", limit=50)
    assert incoming(inner) == {("imports", "src/shop/orders.py", "src.shop.json")}


@pytest.mark.parametrize("content", ["", "\n", "# nothing\n"])
def test_an_empty_package_is_one(session: IndexedSession, reader: PostgresLinks, content: str) -> None:
    session.commit({**SHOP, "src/shop/__init__.py": content, "docs/a.md": "# A\n\n`shop.stock.Basket`\n"})
    assert [item.name for item in reader.drift("shop", identity(), limit=50)] == ["shop.stock.Basket"]
    found = reader.links("shop", identity(), path="app.py", limit=50)
    assert not any(target.endswith("json") for _, target, _ in outgoing(found))


def test_links_go_and_change_with_their_file(session: IndexedSession, reader: PostgresLinks) -> None:
    session.commit(SHOP)
    session.commit({"app.py": "from shop.stock import Stock\n"}, deletes=["docs/guide.md", "src/shop/orders.py"])
    assert reader.links("shop", identity(), symbol="Order", limit=50) == Links(outgoing=(), incoming=())
    found = reader.links("shop", identity(), symbol="shop.stock.Stock", limit=50)
    assert incoming(found) == {("imports", "app.py", "shop.stock.Stock")}


def test_both_ends_are_files_that_the_caller_may_read(session: IndexedSession, reader: PostgresLinks) -> None:
    session.commit(SHOP, acl={"src/shop/stock.py": ["user:ann"], "app.py": ["user:ann"]})
    bob = identity("bob")
    found = reader.links("shop", bob, symbol="shop.orders.Order", limit=50)
    assert ("inherits", "src.shop.stock.Stock", None) in outgoing(found)
    assert {path for _, path, _ in incoming(found)} == {"src/shop/__init__.py", "docs/guide.md"}
    assert reader.links("shop", bob, path="src/shop/stock.py", limit=50) == Links(outgoing=(), incoming=())
    session.commit({}, rights={"src/shop/stock.py": ["user:ann", "user:bob"], "docs/guide.md": ["user:ann"]})
    found = reader.links("shop", bob, symbol="shop.orders.Order", limit=50)
    assert ("inherits", "src.shop.stock.Stock", "src.shop.stock.Stock") in outgoing(found)
    assert {path for _, path, _ in incoming(found)} == {"src/shop/__init__.py"}


@pytest.mark.parametrize(
    "caller", [identity("eve"), identity("ann", tenant="other")], ids=["another user", "another tenant"]
)
def test_a_session_that_is_not_the_callers_is_not_found(
    session: IndexedSession, reader: PostgresLinks, caller: Identity
) -> None:
    session.commit(SHOP)
    with pytest.raises(SessionNotFound):
        reader.links("shop", caller, path="app.py", limit=50)
    with pytest.raises(SessionNotFound):
        reader.drift("shop", caller, limit=50)


def test_the_wall_holds_without_the_filter(session: IndexedSession, postgres: TestDatabase) -> None:
    session.commit(SHOP, acl={"app.py": ["user:ann"]})
    with psycopg.connect(postgres.query_url) as connection:
        count = "SELECT count(*) FROM rag_links WHERE path = 'app.py'"
        assert connection.execute(count).fetchone() == (0,)
        for principals, is_seen in (('["user:bob"]', False), ('["user:ann"]', True)):
            connection.execute("SELECT set_config('strata.tenant', 'acme', true)")
            connection.execute("SELECT set_config('strata.principals', %s, true)", (principals,))
            row = connection.execute(count).fetchone()
            assert row is not None
            assert (row[0] > 0) is is_seen


# --- drift ---------------------------------------------------------------------------------------------------------


def drift(session: IndexedSession, reader: PostgresLinks, document: str, path: str = "docs/drift.md") -> list[str]:
    session.commit({**SHOP, path: document})
    return [drifted.name for drifted in reader.drift("shop", identity(), limit=50)]


@pytest.mark.parametrize(
    ("document", "names"),
    [
        pytest.param("It is in `src/shop/old.py`.", ["src/shop/old.py"], id="a file in a folder that exists"),
        pytest.param("See [it](gone.md).", ["docs/gone.md"], id="a link"),
        pytest.param("Call `shop.orders.cancel_all()`.", ["shop.orders.cancel_all"], id="a function of a module"),
        pytest.param("A `shop.Basket` holds it.", ["shop.Basket"], id="a class of a package with a star import"),
        pytest.param("In `shop.stock.Basket`.", ["shop.stock.Basket"], id="a class"),
        pytest.param("In `shop.baskets.Basket`.", ["shop.baskets.Basket"], id="a module"),
        pytest.param("---\nrelated_code: [shop.Gone]\n---\n# A\n", ["shop.Gone"], id="what the author lists"),
    ],
)
def test_a_name_that_leads_nowhere_has_drifted(
    session: IndexedSession, reader: PostgresLinks, document: str, names: list[str]
) -> None:
    opened = document.startswith("A `shop.Basket`") or document.startswith("In `shop.baskets")
    assert drift(session, reader, f"{document}\n") == ([] if opened else names)


def test_a_report_says_where_and_what_still_exists(session: IndexedSession, reader: PostgresLinks) -> None:
    session.commit({**SHOP, "docs/a.md": "# A\n\nOne.\n\n- `shop.stock.Basket`\n- `src/shop/old.py`\n"})
    found = reader.drift("shop", identity(), limit=50)
    assert [(item.path, item.line, item.name, item.is_path, item.known) for item in found] == [
        ("docs/a.md", 5, "shop.stock.Basket", False, "src.shop.stock"),
        ("docs/a.md", 6, "src/shop/old.py", True, None),
    ]


@pytest.mark.parametrize(
    "document",
    [
        pytest.param("`shop.orders.Order.place()`, `orders.Order`, `Order.place`", id="names that exist"),
        pytest.param("`src/shop/stock.py`, `shop/stock.py`, `stock.py`", id="files that exist"),
        pytest.param("`shop.orders.Order.total`", id="an attribute that a class may have"),
        pytest.param("`shop.stock.LIMIT.bit_length()`", id="an attribute of a value"),
        pytest.param("`os.path.joined`, `django.db.models.Gone`, `self.gone.now`", id="another project's names"),
        pytest.param("`shop.request`, `shop.toml`, `app.get`", id="what only looks dotted"),
        pytest.param("`settings.py`, `path/to/file.py`, `lib/x.py`", id="files of any project"),
        pytest.param("`GoneClass`, `gone_function()`, `gone()`", id="single words"),
        pytest.param("```\nshop.stock.Basket and src/shop/old.py\n```", id="a fence"),
        pytest.param("[a](https://x.org/gone.md) [b](#gone) [c](gone.png)", id="other links"),
    ],
)
def test_what_need_not_be_the_projects_is_no_drift(
    session: IndexedSession, reader: PostgresLinks, document: str
) -> None:
    assert drift(session, reader, f"# A\n\n{document}\n") == []


@pytest.mark.parametrize("path", ["CHANGELOG.md", "docs/changes.rst", "HISTORY.md", "docs/release-notes.md"])
def test_a_history_names_what_once_was(session: IndexedSession, reader: PostgresLinks, path: str) -> None:
    assert drift(session, reader, "`shop.stock.Basket` is gone\n", path) == []


def test_drift_comes_and_goes_with_the_code(session: IndexedSession, reader: PostgresLinks) -> None:
    session.commit(SHOP)
    assert reader.drift("shop", identity(), limit=50) == []
    session.commit({}, deletes=["src/shop/stock.py"])
    assert [item.name for item in reader.drift("shop", identity(), limit=50)] == ["src/shop/stock.py"]
    session.commit({"src/shop/stock.py": SHOP["src/shop/stock.py"]})
    assert reader.drift("shop", identity(), limit=50) == []


def test_drift_tells_nothing_of_files_that_the_caller_may_not_read(
    session: IndexedSession, reader: PostgresLinks
) -> None:
    files = {**SHOP, "docs/secret.md": "`src/shop/old.py`\n"}
    session.commit(files, acl={"docs/secret.md": ["user:ann"], "src/shop/stock.py": ["user:ann"]})
    assert [item.path for item in reader.drift("shop", identity(), limit=50)] == ["docs/secret.md"]
    # For Bob the file does not exist: he is told what anybody sees who has no other file.
    assert [(item.path, item.name) for item in reader.drift("shop", identity("bob"), limit=50)] == [
        ("docs/guide.md", "src/shop/stock.py")
    ]
