"""C2: what a module, class, function or method uses, by name, as its own file says it.

Which symbol of the session a name leads to is not known here: another file may change it. Names are qualified as far
as the file goes (imports, its own definitions, `self`, annotated parameters and fields), so that the links can be
joined when asked. A name that a function binds itself hides an imported one.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from strata.indexing.code.names import IMPORTS, Import, ModuleNames, dotted, imported, is_standard
from strata.indexing.code.symbols import DEFINITIONS, DefinedSymbol, Definition
from strata.indexing.parsed import ParsedDocument
from strata.indexing.reading import clean_text
from strata.model.corpus import Document, Layer, Link, LinkKind, Span

_MOST_NAMES = 60
"""Of one kind in one document."""
_BUILT_IN = frozenset(name for name in dir(builtins) if name.islower())
"""`len` and its like say nothing about a symbol; the exceptions that it raises do."""
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_NAME, _LOAD, _CALL, _PARAMETER = ast.Name, ast.Load, ast.Call, ast.arg


_LEAVES = frozenset({"arg", "attr", "conversion", "ctx", "id", "op", "ops", "type_comment"})
"""Fields that hold no name which is used."""


class _NodesIn(dict[type, tuple[str, ...]]):
    """By a node's class, those of its fields that may hold nodes; a text or a number has none."""

    def __missing__(self, kind: type) -> tuple[str, ...]:
        fields = () if kind is ast.Constant else getattr(kind, "_fields", ())
        self[kind] = tuple(name for name in fields if name not in _LEAVES)
        return self[kind]


_NODES_IN = _NodesIn()


class Call(NamedTuple):
    """`name` as it stands in the source; `target` is the qualified name, None where the file does not say."""

    name: str
    target: str | None
    node: ast.Call


@dataclass(frozen=True, slots=True, kw_only=True)
class Uses:
    """What one symbol uses; `item` is None for the module's own statements."""

    item: DefinedSymbol | None
    qualified_name: str
    span: Span
    imports: tuple[Import, ...] = ()
    calls: tuple[Call, ...] = ()
    """Each, in source order."""
    bases: tuple[tuple[str, str | None], ...] = ()
    """As they stand in the source, and qualified."""

    @property
    def kind(self) -> str:
        return self.item.kind if self.item else "module"


def uses(module: ast.Module, symbols: Sequence[DefinedSymbol], names: ModuleNames, span: Span) -> list[Uses]:
    """The module's first, then those of the symbols in order; without any use the module's is `span`."""
    classes = {item.symbol.qualified_name: _class_names(item, names) for item in symbols if item.kind == "class"}
    calls = _Walk(names).of(module.body)
    lines = [*(item.line for item in names.imports), *(call.node.lineno for call in calls)]
    found = [
        Uses(
            item=None,
            qualified_name=names.module,
            span=Span(start=min(lines), end=max(lines)) if lines else span,
            imports=names.imports,
            calls=calls,
        )
    ]
    for item in symbols:
        node = item.node
        qualified_name = f"{names.module}.{item.symbol.qualified_name}"
        if isinstance(node, ast.ClassDef):
            walk = _Walk(names)
            calls = walk.of([*node.decorator_list, *node.bases, *node.keywords, *node.body])
            bases = classes[item.symbol.qualified_name].bases
        else:
            around = classes.get(item.symbol.qualified_name.rpartition(".")[0]) if item.kind == "method" else None
            walk = _Walk(names, around=around)
            calls = walk.of([node])
            bases = ()
        found.append(
            Uses(
                item=item,
                qualified_name=qualified_name,
                span=item.symbol.span,
                imports=tuple(walk.imports),
                calls=calls,
                bases=bases,
            )
        )
    return found


def dependency_documents(found: Sequence[Uses]) -> Iterator[ParsedDocument]:
    """A document for each symbol that uses anything."""
    for used in found:
        rows: list[str] = []
        if used.bases:
            rows.append(f"inherits: {_listed(target or name for name, target in used.bases)}")
        if used.imports:
            rows.append(f"imports: {_listed(item.target for item in used.imports)}")
        if used.calls:
            rows.append(f"calls: {_listed(call.target or call.name for call in used.calls)}")
        if rows:
            content = "\n".join((f"{used.kind} {used.qualified_name} uses", *rows))
            yield ParsedDocument(
                document=Document(
                    layer=Layer.C2_DEPENDENCY_GRAPH,
                    title=used.item.symbol.qualified_name if used.item else used.qualified_name,
                    content=clean_text(content),
                    span=used.span,
                    metadata={
                        "artifact_type": "python",
                        "symbol_kind": used.kind,
                        "qualified_name": used.qualified_name,
                    },
                ),
                verbatim=False,
            )


def dependency_links(found: Sequence[Uses], names: ModuleNames) -> Iterator[Link]:
    """Imports, calls and bases whose names are known, but for those of Python's standard library.

    An import's symbol is the name that it binds in the module: whoever uses that name means the target.
    """
    for used in found:
        for item in used.imports:
            if not is_standard(item.target):
                symbol = used.qualified_name
                if used.item is None and not item.is_whole:
                    symbol = f"{names.module}.{item.bound or '*'}"
                yield Link(kind=LinkKind.IMPORTS, symbol=symbol, target=item.target, line=item.line)
        for _, target in used.bases:
            if target and not is_standard(target):
                line = used.item.node.lineno if used.item else used.span.start
                yield Link(kind=LinkKind.INHERITS, symbol=used.qualified_name, target=target, line=line)
        called = {call.target: call.node.lineno for call in reversed(used.calls) if call.target}
        for target, line in sorted(called.items(), key=lambda item: (item[1], item[0])):
            if not is_standard(target):
                yield Link(kind=LinkKind.CALLS, symbol=used.qualified_name, target=target, line=line)


def _listed(names: Iterator[str]) -> str:
    distinct = list(dict.fromkeys(names))
    more = [f"and {len(distinct) - _MOST_NAMES} more"] if len(distinct) > _MOST_NAMES else []
    return ", ".join([*distinct[:_MOST_NAMES], *more])


@dataclass(frozen=True, slots=True, kw_only=True)
class _ClassNames:
    """What `self.name` may mean inside a class."""

    qualified_name: str
    members: frozenset[str]
    types: Mapping[str, str]
    bases: tuple[tuple[str, str | None], ...]


def _class_names(item: DefinedSymbol, names: ModuleNames) -> _ClassNames:
    node = item.node
    assert isinstance(node, ast.ClassDef)  # noqa: S101 - says what the caller has looked at
    types: dict[str, str] = {}
    for statement in node.body:
        if (
            isinstance(statement, ast.AnnAssign)
            and isinstance(statement.target, ast.Name)
            and (type_name := _type(statement.annotation, names))
        ):
            types[statement.target.id] = type_name
    bases = [name for base in node.bases if (name := dotted(_unsubscripted(base)))]
    return _ClassNames(
        qualified_name=f"{names.module}.{item.symbol.qualified_name}",
        members=frozenset(
            child.name for child in node.body if child.__class__ in DEFINITIONS and isinstance(child, Definition)
        ),
        types=types,
        bases=tuple((name, names.qualified(name)) for name in bases),
    )


def _type(annotation: ast.expr | None, names: ModuleNames) -> str | None:
    """The class that an annotation names, also as `X | None` or in quotes."""
    if isinstance(annotation, ast.BinOp) and isinstance(annotation.op, ast.BitOr):
        sides = [side for side in (annotation.left, annotation.right) if not _is_none(side)]
        annotation = sides[0] if len(sides) == 1 else None
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        name = annotation.value.strip().removesuffix("| None").strip()
        return names.qualified(name) if name.replace(".", "").isidentifier() else None
    name_ = dotted(annotation) if annotation is not None else None
    return names.qualified(name_) if name_ else None


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _unsubscripted(node: ast.expr) -> ast.expr:
    return node.value if isinstance(node, ast.Subscript) else node


@dataclass(slots=True)
class _Walk:
    """Everything below some nodes, but for definitions that are symbols themselves."""

    names: ModuleNames
    around: _ClassNames | None = None
    imports: list[Import] = field(default_factory=list)
    _stored: set[str] = field(default_factory=set)
    _types: dict[str, str] = field(default_factory=dict)

    def of(self, nodes: Sequence[ast.AST]) -> tuple[Call, ...]:
        calls: list[ast.Call] = []
        own = nodes[0] if len(nodes) == 1 and isinstance(nodes[0], _FUNCTIONS) else None
        in_function = own is not None
        waiting = list(nodes)
        while waiting:
            node = waiting.pop()
            kind = node.__class__
            if kind is _NAME:
                if in_function and node.ctx.__class__ is not _LOAD:  # type: ignore[attr-defined]
                    self._stored.add(node.id)  # type: ignore[attr-defined]
                continue
            if not in_function and kind in DEFINITIONS:
                continue
            if kind is _CALL:
                calls.append(node)  # type: ignore[arg-type]
            elif kind is _PARAMETER:
                self._take_parameter(node)  # type: ignore[arg-type]
            elif in_function and kind in IMPORTS:
                self.imports.extend(imported(node, self.names.package))  # type: ignore[arg-type]
            for child in _NODES_IN[kind]:
                value = getattr(node, child)
                if value.__class__ is list:
                    waiting += value
                elif value is not None:
                    waiting.append(value)
        calls.sort(key=lambda call: (call.lineno, call.col_offset))
        self.imports.sort(key=lambda item: item.line)
        also = {item.bound: item.bound if item.is_whole else item.target for item in self.imports if item.bound}
        hidden = self._stored - also.keys() if in_function else set()
        found: list[Call] = []
        for call in calls:
            name, target = self._called(call.func, also, hidden)
            if name and (target or name not in _BUILT_IN):
                found.append(Call(name=name, target=target, node=call))
        return tuple(found)

    def _take_parameter(self, parameter: ast.arg) -> None:
        self._stored.add(parameter.arg)
        if type_name := _type(parameter.annotation, self.names):
            self._types[parameter.arg] = type_name

    def _called(self, function: ast.expr, also: Mapping[str, str], hidden: set[str]) -> tuple[str | None, str | None]:
        if name := dotted(function):
            first, _, rest = name.partition(".")
            if self.around and first in ("self", "cls") and rest:
                return name, self._on_self(self.around, rest)
            if first in self._types and rest:
                return name, f"{self._types[first]}.{rest}"
            return name, None if first in hidden else self.names.qualified(name, also=also)
        if (
            self.around
            and isinstance(function, ast.Attribute)
            and isinstance(function.value, ast.Call)
            and dotted(function.value.func) == "super"
        ):
            base = next((target for _, target in self.around.bases if target), None)
            return f"super().{function.attr}", f"{base}.{function.attr}" if base else None
        return None, None

    def _on_self(self, around: _ClassNames, rest: str) -> str | None:
        first, dot, more = rest.partition(".")
        if not dot:
            return f"{around.qualified_name}.{first}" if first in around.members else None
        type_name = around.types.get(first)
        return f"{type_name}.{more}" if type_name else None
