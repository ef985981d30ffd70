"""C1: one document a module, class, function and method.

A definition counts where the module or a class holds it, also under an `if`, `try`, `with` or loop there. Functions
inside functions are part of their function's source.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from strata.indexing.parsed import ParsedDocument, Symbol
from strata.indexing.reading import clean_text
from strata.model.corpus import Document, Layer, Span

Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
DEFINITIONS = frozenset({ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef})
"""Compared with a node's class, which takes a tenth of what `isinstance` does for a node of another one."""
BLOCKS_OF: Mapping[type, tuple[str, ...]] = {
    kind: tuple(name for name in ("body", "handlers", "orelse", "finalbody", "cases") if name in kind._fields)
    for kind in ast.stmt.__subclasses__()
}
"""By a statement's class, its fields that hold statements, or `except` and `case` parts with them; most have none."""
SymbolKind = Literal["class", "function", "method"]
_MAX_SIGNATURE_CHARACTERS = 1_500


@dataclass(frozen=True, slots=True, kw_only=True)
class DefinedSymbol:
    """A definition with its place in the module."""

    node: Definition
    kind: SymbolKind
    symbol: Symbol


def definitions(module: ast.Module) -> list[DefinedSymbol]:
    """In source order, outer before inner; a name defined twice is there twice."""
    found: list[DefinedSymbol] = []
    waiting: list[tuple[ast.stmt, str, bool]] = [(node, "", False) for node in reversed(module.body)]
    while waiting:
        node, above, in_class = waiting.pop()
        if node.__class__ in DEFINITIONS and isinstance(node, Definition):
            name = f"{above}.{node.name}" if above else node.name
            kind: SymbolKind = "class" if isinstance(node, ast.ClassDef) else "method" if in_class else "function"
            found.append(
                DefinedSymbol(node=node, kind=kind, symbol=Symbol(qualified_name=name, span=definition_span(node)))
            )
            if isinstance(node, ast.ClassDef):
                waiting.extend((child, name, True) for child in reversed(node.body))
        else:
            waiting.extend((child, above, in_class) for child in reversed(nested(node)))
    return found


def definition_span(node: Definition) -> Span:
    """From the first decorator to the last line of the body."""
    return Span(start=first_line(node), end=node.end_lineno or node.lineno)


def first_line(node: Definition) -> int:
    """With its decorators."""
    return min(node.lineno, node.decorator_list[0].lineno) if node.decorator_list else node.lineno


def nested(node: ast.stmt) -> list[ast.stmt]:
    """The statements of a statement's blocks, in order."""
    found: list[ast.stmt] = []
    for block in BLOCKS_OF[node.__class__]:
        for child in getattr(node, block):
            if block in ("handlers", "cases"):
                found += child.body
            else:
                found.append(child)
    return found


def module_symbol(path: str) -> str:
    """The module's dotted name as its path says it.

    >>> module_symbol("django/db/models/__init__.py"), module_symbol("setup.py")
    ('django.db.models', 'setup')
    """
    parts = path.rpartition(".")[0].split("/")
    if parts[-1] == "__init__" and len(parts) > 1:
        parts.pop()
    return ".".join(parts)


def symbol_documents(
    path: str, module: ast.Module, symbols: Sequence[DefinedSymbol], start: int
) -> list[ParsedDocument]:
    """The catalogue's documents: the module first, from the line `start` on, its first with text.

    Raises `RecursionError` for an endless expression.
    """
    name = module_symbol(path)
    docstring = docstring_of(module)
    end = module.body[0].end_lineno if module.body and docstring else None
    contents = [f"module {name}"]
    if docstring:
        contents.append(docstring)
    if top := [item.symbol.qualified_name for item in symbols if "." not in item.symbol.qualified_name]:
        contents.append(f"Defines: {', '.join(dict.fromkeys(top))}")
    documents = [_document("\n".join(contents), name, name, "module", Span(start=start, end=max(end or 1, start)))]
    for item in symbols:
        qualified_name = item.symbol.qualified_name
        content = "\n".join(_rendered(item))
        documents.append(_document(content, qualified_name, f"{name}.{qualified_name}", item.kind, item.symbol.span))
    return documents


def _document(content: str, title: str, qualified_name: str, kind: str, span: Span) -> ParsedDocument:
    content = clean_text(content)
    metadata = {"artifact_type": "python", "symbol_kind": kind, "qualified_name": qualified_name}
    prices = dict.fromkeys(range(1, content.count("\n") + 2), 0.3)
    return ParsedDocument(
        document=Document(layer=Layer.C1_SYMBOL_CATALOG, title=title, content=content, span=span, metadata=metadata),
        verbatim=False,
        prices=prices,
    )


def _rendered(item: DefinedSymbol) -> Iterator[str]:
    yield f"{item.kind} {item.symbol.qualified_name}"
    for decorator in item.node.decorator_list:
        yield f"@{_shown(decorator)}"
    yield shown_signature(item.node)
    if docstring := docstring_of(item.node):
        yield docstring
    if isinstance(item.node, ast.ClassDef) and (
        members := [child.name for child in item.node.body if isinstance(child, Definition)]
    ):
        yield f"Members: {', '.join(dict.fromkeys(members))}"


def shown_signature(node: Definition) -> str:
    if isinstance(node, ast.ClassDef):
        bases = [_shown(base) for base in node.bases]
        bases += [f"{keyword.arg}={_shown(keyword.value)}" if keyword.arg else "**…" for keyword in node.keywords]
        signature = f"class {node.name}({', '.join(bases)})" if bases else f"class {node.name}"
    else:
        word = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
        returns = f" -> {_shown(node.returns)}" if node.returns else ""
        signature = f"{word} {node.name}({_shown_parameters(node.args)}){returns}"
    return _short(signature)


def _shown_parameters(parameters: ast.arguments) -> str:
    """As `ast.unparse` writes them, which takes ten times as long for mere names."""
    named = parameters.args
    if (
        parameters.posonlyargs
        or parameters.kwonlyargs
        or parameters.defaults
        or any(parameter.annotation for parameter in named)
        or (parameters.vararg and parameters.vararg.annotation)
        or (parameters.kwarg and parameters.kwarg.annotation)
    ):
        return _shown(parameters)
    shown = [parameter.arg for parameter in named]
    if parameters.vararg:
        shown.append(f"*{parameters.vararg.arg}")
    if parameters.kwarg:
        shown.append(f"**{parameters.kwarg.arg}")
    return _short(", ".join(shown))


def _shown(node: ast.AST) -> str:
    return _short(node.id if isinstance(node, ast.Name) else ast.unparse(node))


def _short(text: str) -> str:
    return text if len(text) <= _MAX_SIGNATURE_CHARACTERS else f"{text[:_MAX_SIGNATURE_CHARACTERS]}…"


def docstring_of(node: ast.Module | Definition) -> str | None:
    """The cleaned docstring; blank ones count as none."""
    first = node.body[0] if node.body else None
    if type(first) is not ast.Expr or type(first.value) is not ast.Constant or not isinstance(first.value.value, str):
        return None
    text = inspect.cleandoc(first.value.value)
    return text.replace("\r\n", "\n").replace("\r", "\n") if text and text.strip() else None
