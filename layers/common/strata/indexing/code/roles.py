"""C4: the part that a class or a module plays, and what in the file says so.

The signs, from the strongest: what a class inherits from, its decorators, its name's last word, its module's place.
A class or module without a sign has no document: a guess would only be noise.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence

from strata.indexing.code.dependencies import Uses
from strata.indexing.code.names import dotted
from strata.indexing.parsed import ParsedDocument
from strata.indexing.reading import clean_text
from strata.model.corpus import Document, Layer, Span

_ROLE_OF_BASE: Mapping[str, str] = {
    **dict.fromkeys(("TestCase", "SimpleTestCase", "TransactionTestCase", "IsolatedAsyncioTestCase"), "test"),
    **dict.fromkeys(("BaseModel", "Model", "DeclarativeBase", "Document", "SQLModel", "RootModel"), "model"),
    **dict.fromkeys(("BaseSettings", "AppConfig"), "config"),
    **dict.fromkeys(("Protocol", "ABC"), "interface"),
    **dict.fromkeys(("Enum", "StrEnum", "IntEnum", "Flag", "IntFlag", "TextChoices", "IntegerChoices"), "enumeration"),
    **dict.fromkeys(("Exception", "BaseException", "ValueError", "RuntimeError", "KeyError", "TypeError"), "error"),
    **dict.fromkeys(("APIView", "View", "TemplateView", "ViewSet", "ModelViewSet", "RequestHandler"), "handler"),
    **dict.fromkeys(("BaseCommand", "Command"), "command"),
    **dict.fromkeys(("Migration",), "migration"),
    **dict.fromkeys(("Serializer", "ModelSerializer", "Schema"), "serializer"),
    **dict.fromkeys(("Form", "ModelForm"), "form"),
    **dict.fromkeys(("ModelAdmin",), "admin"),
    **dict.fromkeys(("Middleware", "MiddlewareMixin", "BaseHTTPMiddleware"), "middleware"),
    **dict.fromkeys(("NamedTuple", "TypedDict"), "value"),
}
_ROLE_OF_WORD: Mapping[str, str] = {
    "Service": "service", "UseCase": "service", "Interactor": "service", "Manager": "service",
    "Repository": "repository", "Repo": "repository", "Store": "repository", "Dao": "repository", "DAO": "repository",
    "Handler": "handler", "Controller": "handler", "View": "handler", "ViewSet": "handler", "Endpoint": "handler",
    "Resource": "handler", "Adapter": "adapter", "Client": "adapter", "Gateway": "adapter", "Connector": "adapter",
    "Driver": "adapter", "Backend": "adapter", "Wrapper": "adapter", "Config": "config", "Settings": "config",
    "Options": "config", "Model": "model", "Entity": "model", "Factory": "factory", "Builder": "factory",
    "Provider": "factory", "Middleware": "middleware", "Serializer": "serializer", "Schema": "serializer",
    "Encoder": "serializer", "Decoder": "serializer", "Parser": "parser", "Lexer": "parser", "Error": "error",
    "Exception": "error", "Warning": "error", "Mixin": "mixin", "Form": "form", "Admin": "admin", "Command": "command",
    "Task": "task", "Worker": "worker", "Consumer": "consumer", "Listener": "consumer", "Subscriber": "consumer",
    "Publisher": "producer", "Producer": "producer", "Validator": "validator", "Migration": "migration",
    "Test": "test", "Tests": "test", "TestCase": "test", "Fake": "test", "Mock": "test", "Stub": "test",
    "Event": "event", "Request": "message", "Response": "message", "Router": "router", "Cache": "cache",
}  # fmt: skip
_ROLE_OF_DECORATOR: Mapping[str, str] = {
    "dataclass": "value", "dataclasses.dataclass": "value", "attr.s": "value", "attrs.define": "value",
    "define": "value", "frozen": "value", "runtime_checkable": "interface",
}  # fmt: skip
_ROLE_OF_MODULE: Mapping[str, str] = {
    "models": "model", "model": "model", "views": "handler", "handlers": "handler", "controllers": "handler",
    "routes": "router", "urls": "router", "routers": "router", "services": "service", "service": "service",
    "repositories": "repository", "repository": "repository", "settings": "config", "config": "config",
    "conf": "config", "migrations": "migration", "adapters": "adapter", "serializers": "serializer",
    "schemas": "serializer", "tasks": "task", "middleware": "middleware", "admin": "admin", "forms": "form",
    "exceptions": "error", "errors": "error", "commands": "command", "cli": "command", "conftest": "test",
    "tests": "test", "test": "test", "fixtures": "test", "signals": "event", "events": "event", "consumers": "consumer",
    "validators": "validator", "constants": "config", "ports": "interface", "interfaces": "interface",
    "factories": "factory", "bootstrap": "factory", "api": "handler",
}  # fmt: skip
_WORDS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z0-9]+|[A-Z]+")


def role_documents(path: str, found: Sequence[Uses], first_line: int) -> Iterator[ParsedDocument]:
    """`first_line` is the module's first one with text."""
    for used in found:
        signs = _module_signs(path) if used.item is None else _class_signs(path, used)
        if not signs:
            continue
        role = signs[0][0]
        evidence = [sign for known, sign in signs if known == role]
        name = used.item.symbol.qualified_name if used.item else used.qualified_name
        content = f"{used.kind} {used.qualified_name}, role {role}: {'; '.join(dict.fromkeys(evidence))}"
        yield ParsedDocument(
            document=Document(
                layer=Layer.C4_SEMANTIC_ROLES,
                title=name,
                content=clean_text(content),
                span=_head(used, first_line),
                metadata={
                    "artifact_type": "python",
                    "symbol_kind": used.kind,
                    "qualified_name": used.qualified_name,
                    "role": role,
                    "evidence": list(dict.fromkeys(evidence)),
                },
            ),
            verbatim=False,
        )


def _head(used: Uses, first_line: int) -> Span:
    """The lines that say it: a class from its decorators to its bases, a module's first line."""
    if used.item is None:
        return Span(start=first_line, end=first_line)
    start = used.span.start
    return Span(start=start, end=max(start, used.item.node.body[0].lineno - 1, used.item.node.lineno))


def _class_signs(path: str, used: Uses) -> list[tuple[str, str]]:
    """(role, sign), the strongest first."""
    item = used.item
    if item is None or not isinstance(item.node, ast.ClassDef):
        return []
    signs: list[tuple[str, str]] = []
    name = item.node.name
    for base, target in used.bases:
        last = base.rpartition(".")[2]
        if role := _ROLE_OF_BASE.get(last) or _role_of_name(last):
            signs.append((role, f"it inherits from {target or base}"))
    if role := _role_of_name(name):
        signs.append((role, f"its name is {name}"))
    for decorator in item.node.decorator_list:
        shown = dotted(decorator.func if isinstance(decorator, ast.Call) else decorator) or ""
        if role := _ROLE_OF_DECORATOR.get(shown):
            signs.append((role, f"it is decorated with {shown}"))
    if signs or "." not in item.symbol.qualified_name:
        signs += _module_signs(path)
    return signs


def _module_signs(path: str) -> list[tuple[str, str]]:
    """The file's name counts before its folders, inner ones before outer ones."""
    *folders, name = path.rpartition(".")[0].split("/")
    if name.startswith("test_") or name.endswith("_test"):
        return [("test", f"it is in a file named {name}")]
    if role := _ROLE_OF_MODULE.get(name):
        return [(role, f"it is in a module named {name}")]
    for folder in reversed(folders):
        if role := _ROLE_OF_MODULE.get(folder):
            return [(role, f"it is in a folder named {folder}")]
    return []


def _role_of_name(name: str) -> str | None:
    """By the last word of a class name, or the first for tests and fakes.

    >>> _role_of_name("PostgresBlobStore"), _role_of_name("FakeClock"), _role_of_name("Apple")
    ('repository', 'test', None)
    """
    words = _WORDS.findall(name)
    if not words:
        return None
    if len(words) > 1 and words[0] in ("Test", "Fake", "Mock", "Stub"):
        return "test"
    return _ROLE_OF_WORD.get("".join(words[-2:])) or _ROLE_OF_WORD.get(words[-1])
