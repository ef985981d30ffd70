"""C3: where the outside comes in: HTTP routes, commands, Lambda and task handlers, event consumers, `__main__`.

Seen by the shape of decorators and calls, whatever the variable is called: FastAPI, Flask, Starlette, aiohttp, Django,
Powertools; click, typer, argparse; Celery, Dramatiq and their like. A route's path must be a literal.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from strata.indexing.code.dependencies import Call, Uses
from strata.indexing.code.names import ModuleNames, dotted
from strata.indexing.code.symbols import docstring_of, shown_signature
from strata.indexing.parsed import ParsedDocument
from strata.indexing.reading import clean_text
from strata.model.corpus import Document, Layer, Span

_VERBS = ("get", "post", "put", "delete", "patch", "head", "options", "trace")
_DECORATED_TASKS = ("task", "shared_task", "actor", "periodic_task", "db_task", "job", "scheduled_job")
_DECORATED_CONSUMERS = (
    "receiver", "subscriber", "agent", "consumer", "listen", "listens_for", "listener", "event_handler", "on",
    "on_event", "on_message", "event", "message_handler", "exception_handler",
)  # fmt: skip
_ROUTE_CALLS = ("add_url_rule", "add_api_route", "add_route", "add_api_websocket_route", "Route", "WebSocketRoute")
_DJANGO_CALLS = ("path", "re_path", "url")
_MOST_SHOWN = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryPoint:
    """`shown` is what the outside calls it: `HTTP GET /users`, `command sync`."""

    kind: str
    shown: str
    target: str | None
    span: Span
    route: str | None = None
    methods: tuple[str, ...] = ()


def entrypoint_documents(
    path: str, module: ast.Module, found: Sequence[Uses], names: ModuleNames
) -> Iterator[ParsedDocument]:
    by_name = {used.qualified_name: used for used in found}
    for point in _points(path, module, found, names):
        used = by_name.get(point.target or "")
        rows = [f"{point.shown} → {point.target}" if point.target else point.shown]
        if used and used.item:
            rows.append(shown_signature(used.item.node))
            if docstring := docstring_of(used.item.node):
                rows.append(docstring.partition("\n\n")[0])
        metadata: dict[str, object] = {"artifact_type": "python", "entry_kind": point.kind}
        if point.target:
            metadata["qualified_name"] = point.target
        if used:
            metadata["symbol_kind"] = used.kind
        if point.route is not None:
            metadata["route"] = point.route
        if point.methods:
            metadata["methods"] = list(point.methods)
        yield ParsedDocument(
            document=Document(
                layer=Layer.C3_ENTRYPOINTS,
                title=clean_text(point.shown),
                content=clean_text("\n".join(rows)),
                span=point.span,
                metadata=metadata,
            ),
            verbatim=False,
        )


def _points(path: str, module: ast.Module, found: Sequence[Uses], names: ModuleNames) -> Iterator[EntryPoint]:
    for used in found:
        if used.item is not None:
            yield from _decorated(used)
            yield from _by_shape(path, used)
        for call in used.calls:
            if point := _called(call, used, names):
                yield point
    for node in module.body:
        if isinstance(node, ast.If) and _is_main(node.test):
            span = Span(start=node.lineno, end=node.end_lineno or node.lineno)
            name = names.module.removesuffix(".__main__")
            shown = f"python -m {name}" if path.endswith("/__main__.py") else f"python {path}"
            yield EntryPoint(kind="main", shown=shown[:_MOST_SHOWN], target=names.module, span=span)


def _decorated(used: Uses) -> Iterator[EntryPoint]:
    assert used.item is not None  # noqa: S101 - the caller has looked
    for decorator in used.item.node.decorator_list:
        call = decorator if isinstance(decorator, ast.Call) else None
        name = dotted(call.func if call else decorator)
        if name is None:
            continue
        owner, _, last = name.rpartition(".")
        point = _route(call, owner, last) if call else None
        if point is None:
            point = _command(used, call, owner, last) or _background(used, call, owner, last)
        if point:
            kind, shown, route, methods = point
            yield EntryPoint(
                kind=kind,
                shown=shown[:_MOST_SHOWN],
                target=used.qualified_name,
                span=used.span,
                route=route,
                methods=methods,
            )


_Point = tuple[str, str, str | None, tuple[str, ...]]


def _route(call: ast.Call, owner: str, last: str) -> _Point | None:
    route = _text(call.args[0]) if call.args else _keyword_text(call, "path") or _keyword_text(call, "rule")
    if last == "api_view":
        methods = _methods(call, positional=True)
        return "http_route", f"HTTP {' '.join(methods)} (api_view)", None, methods
    if not owner or route is None or not (route.startswith("/") or not route):
        return None
    if last in _VERBS:
        methods = (last.upper(),)
    elif last in ("route", "api_route"):
        methods = _methods(call) or ("GET",)
    elif last in ("websocket", "websocket_route"):
        return "http_route", f"WebSocket {route or '/'}", route, ()
    else:
        return None
    return "http_route", f"HTTP {' '.join(methods)} {route or '/'}", route, methods


def _command(used: Uses, call: ast.Call | None, owner: str, last: str) -> _Point | None:
    if last not in ("command", "group") or not (owner or call):
        return None
    if call is None and owner not in ("click", "typer"):
        return None
    given = _text(call.args[0]) if call and call.args else None
    name = given or (_keyword_text(call, "name") if call else None)
    item = used.item
    own = item.node.name.replace("_", "-") if item else ""
    return "cli_command", f"command {name or own}", None, ()


def _background(used: Uses, call: ast.Call | None, owner: str, last: str) -> _Point | None:
    shown = used.qualified_name.rpartition(".")[2]
    first = _text(call.args[0]) if call and call.args else None
    if last in _DECORATED_TASKS and (owner or last in ("shared_task", "actor", "job")):
        name = (_keyword_text(call, "name") or _keyword_text(call, "actor_name")) if call else None
        return "task", f"task {name or shown}", None, ()
    if last in ("inject_lambda_context", "event_source", "capture_lambda_handler"):
        return "lambda_handler", f"Lambda handler {shown}", None, ()
    if last in _DECORATED_CONSUMERS and call and (owner or last == "receiver") and call.args:
        what = first or dotted(call.args[-1] if last == "listens_for" else call.args[0]) or "?"
        if last == "listens_for" and len(call.args) > 1:
            what = f"{_text(call.args[1]) or '?'} of {dotted(call.args[0]) or '?'}"
        if last in ("on", "event") and first is None:
            return None
        return "event_consumer", f"consumer of {what}", None, ()
    return None


def _by_shape(path: str, used: Uses) -> Iterator[EntryPoint]:
    """Lambda handlers by name and parameters; management commands by their place."""
    assert used.item is not None  # noqa: S101 - the caller has looked
    node = used.item.node
    if isinstance(node, ast.ClassDef):
        if node.name == "Command" and "/management/commands/" in f"/{path}":
            command = path.rpartition("/")[2].partition(".")[0]
            yield EntryPoint(
                kind="cli_command", shown=f"command manage.py {command}", target=used.qualified_name, span=used.span
            )
        return
    if used.kind != "function" or not (
        node.name == "handler" or node.name.endswith("_handler") or node.name.startswith("on_")
    ):
        return
    parameters = [parameter.arg for parameter in (*node.args.posonlyargs, *node.args.args)]
    if parameters in (["event", "context"], ["event", "_context"]):
        yield EntryPoint(
            kind="lambda_handler",
            shown=f"Lambda handler {node.name}",
            target=used.qualified_name,
            span=used.span,
        )


def _called(call: Call, used: Uses, names: ModuleNames) -> EntryPoint | None:
    node = call.node
    first = _text(node.args[0]) if node.args else None
    if first is None:
        return None
    owner, _, last = call.name.rpartition(".")
    span = Span(start=node.lineno, end=node.end_lineno or node.lineno)
    if last == "add_parser" and owner and first:
        return EntryPoint(kind="cli_command", shown=f"command {first}"[:_MOST_SHOWN], target=None, span=span)
    is_django = last in _DJANGO_CALLS and (call.target or "").startswith(("django.urls.", "django.conf.urls."))
    if is_django and len(node.args) > 1:
        return _http(f"/{first.lstrip('/')}", (), _view(node, used, names), span)
    if not first.startswith("/"):
        return None
    if last in _ROUTE_CALLS:
        return _http(first, _methods(node), _view(node, used, names), span)
    verb = last.removeprefix("add_")
    is_aiohttp = (last.startswith("add_") and owner) or call.target == f"aiohttp.web.{last}"
    if verb in _VERBS and is_aiohttp:
        return _http(first, (verb.upper(),), _view(node, used, names), span)
    return None


def _http(route: str, methods: tuple[str, ...], view: str | None, span: Span) -> EntryPoint | None:
    if not view:
        return None
    shown = " ".join(("HTTP", *methods, route))[:_MOST_SHOWN]
    return EntryPoint(kind="http_route", shown=shown, target=view, span=span, route=route[:500], methods=methods)


def _view(call: ast.Call, used: Uses, names: ModuleNames) -> str | None:
    """The qualified name of the handler: `views.home`, `Home.as_view()`, `self.index`, `include("shop.urls")`."""
    views = ("view_func", "view", "endpoint", "handler")
    given = next((item.value for item in call.keywords if item.arg in views), None)
    node = given or (call.args[-1] if len(call.args) > 1 else None)
    while isinstance(node, ast.Call):
        name = dotted(node.func) or ""
        if name.rpartition(".")[2] == "include" and node.args:
            return _text(node.args[0]) or dotted(node.args[0])
        if name.endswith(".as_view"):
            node = node.func.value if isinstance(node.func, ast.Attribute) else None
        else:
            node = node.args[0] if node.args else None
    view = dotted(node) if node is not None else None
    if view and view.startswith("self.") and used.kind == "method":
        return f"{used.qualified_name.rpartition('.')[0]}.{view.removeprefix('self.')}"
    if not view:
        return None
    also = {item.bound: item.target for item in used.imports if item.bound and not item.is_whole}
    return names.qualified(view, also=also) or view


def _is_main(test: ast.expr) -> bool:
    return (
        isinstance(test, ast.Compare)
        and len(test.comparators) == 1
        and {dotted(test.left), _text(test.left), dotted(test.comparators[0]), _text(test.comparators[0])}
        >= {"__name__", "__main__"}
    )


def _methods(call: ast.Call, *, positional: bool = False) -> tuple[str, ...]:
    given = next((item.value for item in call.keywords if item.arg in ("methods", "http_method_names")), None)
    if positional and given is None and call.args:
        given = call.args[0]
    if not isinstance(given, ast.List | ast.Tuple | ast.Set):
        return ()
    return tuple(text.upper() for item in given.elts if (text := _text(item)))


def _keyword_text(call: ast.Call, name: str) -> str | None:
    return next((_text(item.value) for item in call.keywords if item.arg == name), None)


def _text(node: ast.AST) -> str | None:
    return node.value if type(node) is ast.Constant and isinstance(node.value, str) else None
