"""What a name in a module stands for: imports and definitions, as far as the file alone says it."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from strata.indexing.code.symbols import DEFINITIONS, DefinedSymbol, Definition, module_symbol, nested
from strata.model.corpus import Link, LinkKind

_MOST_PARTS = 12
IMPORTS = frozenset({ast.Import, ast.ImportFrom})


class Import(NamedTuple):
    """`bound` is the name that the file knows it by, None for `import *`; `target` is a module or a name in one."""

    bound: str | None
    target: str
    line: int
    is_whole: bool
    """`import a.b`: it binds `a`, not `a.b`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleNames:
    """The module's dotted name, and the qualified names behind those that its top level binds."""

    module: str
    package: str
    bound: Mapping[str, str]
    imports: tuple[Import, ...] = ()
    local: frozenset[str] = field(default_factory=frozenset)
    """Names that the module defines itself: classes, functions, variables."""

    def qualified(self, name: str, *, also: Mapping[str, str] | None = None) -> str | None:
        """The qualified name of a dotted one, or None where the file does not say what its first part is."""
        first, dot, rest = name.partition(".")
        known = (also or {}).get(first) or self.bound.get(first)
        return f"{known}{dot}{rest}" if known else None


def module_names(path: str, module: ast.Module) -> ModuleNames:
    name = module_symbol(path)
    is_package = path.rpartition("/")[2].partition(".")[0] == "__init__"
    package = name if is_package else name.rpartition(".")[0]
    bound: dict[str, str] = {}
    local: set[str] = set()
    imports: list[Import] = []
    for node in top_level(module):
        if node.__class__ in IMPORTS and isinstance(node, ast.Import | ast.ImportFrom):
            for item in imported(node, package):
                imports.append(item)
                if item.bound is not None:
                    bound[item.bound] = item.bound if item.is_whole else item.target
        else:
            for defined in _defined(node):
                local.add(defined)
                bound[defined] = f"{name}.{defined}"
    return ModuleNames(module=name, package=package, bound=bound, imports=tuple(imports), local=frozenset(local))


def imported(node: ast.Import | ast.ImportFrom, package: str) -> Iterator[Import]:
    """What an import statement binds; relative ones are seen from `package`."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            bound = alias.asname or alias.name.partition(".")[0]
            is_whole = alias.asname is None
            yield Import(bound=bound, target=alias.name, line=node.lineno, is_whole=is_whole)
        return
    source = node.module or ""
    if node.level:
        above = package.split(".") if package else []
        if node.level - 1 > len(above):
            return
        source = ".".join([*above[: len(above) - node.level + 1], *([source] if source else [])])
    for alias in node.names:
        if alias.name == "*":
            yield Import(bound=None, target=source, line=node.lineno, is_whole=False)
        else:
            target = f"{source}.{alias.name}" if source else alias.name
            yield Import(bound=alias.asname or alias.name, target=target, line=node.lineno, is_whole=False)


def definition_links(module: ast.Module, symbols: Sequence[DefinedSymbol], names: ModuleNames) -> Iterator[Link]:
    """The module, its classes, functions and methods, its variables, and the names that it imports from elsewhere."""
    yield Link(kind=LinkKind.DEFINES, symbol="", target=names.module, line=1)
    defined = {item.symbol.qualified_name: item.symbol.span.start for item in reversed(symbols)}
    defined = dict(reversed(defined.items()))
    for node in top_level(module):
        if node.__class__ not in DEFINITIONS:
            for name in _defined(node):
                defined.setdefault(name, node.lineno)
    for item in names.imports:
        if item.bound and not item.is_whole:
            defined.setdefault(item.bound, item.line)
    for name, line in defined.items():
        yield Link(kind=LinkKind.DEFINES, symbol=names.module, target=f"{names.module}.{name}", line=line)


def dotted(node: ast.AST) -> str | None:
    """`a.b.c` for a name with attributes, None for any other expression.

    >>> dotted(ast.parse("a.b.c", mode="eval").body), dotted(ast.parse("f().b", mode="eval").body)
    ('a.b.c', None)
    """
    parts: list[str] = []
    while type(node) is ast.Attribute:
        parts.append(node.attr)
        node = node.value
    if type(node) is not ast.Name or len(parts) >= _MOST_PARTS:
        return None
    return ".".join([node.id, *reversed(parts)])


def is_standard(name: str) -> bool:
    """Whether a qualified name lies in Python's standard library."""
    return name.partition(".")[0] in sys.stdlib_module_names


def top_level(module: ast.Module) -> Iterator[ast.stmt]:
    """The module's statements, also those under an `if`, `try`, `with` or loop, in order."""
    waiting: list[ast.stmt] = list(reversed(module.body))
    while waiting:
        node = waiting.pop()
        yield node
        if node.__class__ not in DEFINITIONS:
            waiting.extend(reversed(nested(node)))


def _defined(node: ast.stmt) -> Iterator[str]:
    targets: list[ast.expr] = []
    if node.__class__ in DEFINITIONS and isinstance(node, Definition):
        yield node.name
    elif type(node) is ast.Assign:
        targets = list(node.targets)
    elif type(node) is ast.AnnAssign or type(node) is ast.AugAssign:
        targets = [node.target]
    while targets:
        target = targets.pop()
        if isinstance(target, ast.Name):
            yield target.id
        elif isinstance(target, ast.Tuple | ast.List):
            targets.extend(target.elts)
