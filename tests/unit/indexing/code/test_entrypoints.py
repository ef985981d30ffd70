from __future__ import annotations

import pytest

from strata.model.corpus import Chunk, Layer
from tests.support.parsing import chunks_of


def points(content: str, path: str = "app/api.py") -> list[Chunk]:
    return chunks_of(path, content, Layer.C3_ENTRYPOINTS)


@pytest.mark.parametrize(
    ("content", "title", "name"),
    [
        pytest.param(
            '@router.get("/users/{id}")\nasync def one(id): ...\n', "HTTP GET /users/{id}", "one", id="FastAPI"
        ),
        pytest.param('@router.post("")\ndef add(): ...\n', "HTTP POST /", "add", id="FastAPI, empty path"),
        pytest.param(
            '@bp.route("/login", methods=["GET", "POST"])\ndef login(): ...\n',
            "HTTP GET POST /login",
            "login",
            id="Flask",
        ),
        pytest.param('@app.route("/")\ndef home(): ...\n', "HTTP GET /", "home", id="Flask, no methods"),
        pytest.param(
            'app.add_url_rule("/x", "x", view_func=show)\ndef show(): ...\n', "HTTP /x", "show", id="Flask, a call"
        ),
        pytest.param(
            '@routes.get("/health")\nasync def health(request): ...\n', "HTTP GET /health", "health", id="aiohttp"
        ),
        pytest.param(
            'def setup(app):\n    app.router.add_post("/jobs", create)\ndef create(r): ...\n',
            "HTTP POST /jobs",
            "create",
            id="aiohttp, a call",
        ),
        pytest.param(
            'from aiohttp import web\nasync def h(r): ...\napp.add_routes([web.get("/h", h)])\n',
            "HTTP GET /h",
            "h",
            id="aiohttp, a list",
        ),
        pytest.param('@app.websocket("/ws")\nasync def ws(s): ...\n', "WebSocket /ws", "ws", id="websocket"),
        pytest.param("@cli.command()\ndef sync_all(): ...\n", "command sync-all", "sync_all", id="click or typer"),
        pytest.param('@app.command("run")\ndef start(): ...\n', "command run", "start", id="typer, named"),
        pytest.param("@click.group\ndef cli(): ...\n", "command cli", "cli", id="a group"),
        pytest.param(
            "def lambda_handler(event, context): ...\n",
            "Lambda handler lambda_handler",
            "lambda_handler",
            id="Lambda by its shape",
        ),
        pytest.param(
            "@logger.inject_lambda_context\ndef go(event, context): ...\n", "Lambda handler go", "go", id="Powertools"
        ),
        pytest.param('@app.task(name="mail.send")\ndef send(): ...\n', "task mail.send", "send", id="Celery"),
        pytest.param("@shared_task\ndef clean(): ...\n", "task clean", "clean", id="Celery, shared"),
        pytest.param("@dramatiq.actor\ndef work(): ...\n", "task work", "work", id="Dramatiq"),
        pytest.param(
            "@receiver(post_save)\ndef saved(**kw): ...\n", "consumer of post_save", "saved", id="Django signal"
        ),
        pytest.param('@broker.subscriber("orders")\ndef take(o): ...\n', "consumer of orders", "take", id="FastStream"),
        pytest.param(
            '@event.listens_for(Engine, "connect")\ndef on(c): ...\n',
            "consumer of connect of Engine",
            "on",
            id="SQLAlchemy",
        ),
    ],
)
def test_what_the_outside_can_call_is_an_entry_point(content: str, title: str, name: str) -> None:
    (found,) = points(content)
    assert found.title == title
    assert found.metadata["qualified_name"] == f"app.api.{name}"


def test_django_routes_lead_to_their_views() -> None:
    found = points(
        "from django.urls import include, path, re_path\nfrom . import views\n\nurlpatterns = [\n"
        '    path("", views.home),\n    path("cart/<int:id>/", views.Cart.as_view(), name="cart"),\n'
        '    re_path(r"^old/$", views.old),\n    path("shop/", include("shop.urls")),\n]\n',
        "site/urls.py",
    )
    assert [(chunk.title, chunk.metadata["qualified_name"], chunk.span.start) for chunk in found] == [
        ("HTTP /", "site.views.home", 5),
        ("HTTP /cart/<int:id>/", "site.views.Cart", 6),
        ("HTTP /^old/$", "site.views.old", 7),
        ("HTTP /shop/", "shop.urls", 8),
    ]


def test_argparse_and_main_are_entry_points() -> None:
    found = points(
        "import argparse\n\ndef main():\n    p = argparse.ArgumentParser()\n    s = p.add_subparsers()\n"
        '    s.add_parser("sync")\n    s.add_parser("clean", help="x")\n\nif __name__ == "__main__":\n    main()\n',
        "tools/run.py",
    )
    assert [(chunk.title, chunk.metadata["entry_kind"], chunk.span.start, chunk.span.end) for chunk in found] == [
        ("command sync", "cli_command", 6, 6),
        ("command clean", "cli_command", 7, 7),
        ("python tools/run.py", "main", 9, 10),
    ]


def test_the_document_holds_signature_and_what_it_is_for() -> None:
    (found,) = points('@app.get("/a")\nasync def a(n: int) -> str:\n    """Says a.\n\n    Long.\n    """\n')
    assert found.content == "HTTP GET /a → app.api.a\nasync def a(n: int) -> str\nSays a."
    assert (found.span.start, found.span.end) == (1, 6)
    assert found.metadata["route"] == "/a"
    assert found.metadata["methods"] == ["GET"]


@pytest.mark.parametrize(
    "content",
    [
        pytest.param('@mock.patch("a.b")\ndef test_x(m): ...\n', id="a patched test"),
        pytest.param('response = client.get("/users", headers)\n', id="a client's call"),
        pytest.param("@cached\n@property\ndef p(self): ...\n", id="other decorators"),
        pytest.param("def path(a, b): ...\n\npath('x', y)\n", id="a function named path"),
        pytest.param("def handler(signum, frame): ...\n", id="another handler"),
        pytest.param("@pytest.mark.parametrize('a', [1])\ndef test(a): ...\n", id="parametrized"),
    ],
)
def test_what_only_looks_like_one_is_none(content: str) -> None:
    assert points(content) == []
