"""A judged set made from Python sources: a docstring's first sentence asks for the definition that it was taken from.

It needs no data from elsewhere, so `make eval` runs on a fresh clone with this project's own code.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from strata_eval.dataset import JudgedDocument, JudgedQuery, JudgedSet, judged_set

MIN_SENTENCE_WORDS = 5
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def from_python_sources(root: Path, *, name: str = "own-code") -> JudgedSet:
    """Every documented definition under `root`; the docstring is taken out of the text that is searched."""
    documents: list[JudgedDocument] = []
    queries: list[JudgedQuery] = []
    judgements: dict[str, set[str]] = {}
    for file in sorted(root.rglob("*.py")):
        source = file.read_text(encoding="utf-8")
        for qualified_name, definition in _definitions(ast.parse(source), ()):
            path = f"{file.relative_to(root).as_posix()}::{qualified_name}"
            text, sentence = _apart(source.splitlines(), definition)
            if len(sentence.split()) < MIN_SENTENCE_WORDS or path in judgements:
                continue
            documents.append(JudgedDocument(path=path, title=qualified_name, text=text))
            queries.append(JudgedQuery(query_id=path, text=sentence))
            judgements[path] = {path}
    return judged_set(name, tuple(documents), tuple(queries), judgements)


def _definitions(node: ast.AST, outer: tuple[str, ...]) -> Iterator[tuple[str, Definition]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = (*outer, child.name)
            yield ".".join(name), child
            yield from _definitions(child, name)


def _apart(lines: list[str], definition: Definition) -> tuple[str, str]:
    """The definition's source without its docstring, and the docstring's first sentence ("" without one)."""
    first, last = definition.lineno, definition.end_lineno or definition.lineno
    docstring = ast.get_docstring(definition)
    statement = definition.body[0]
    if not docstring or statement.end_lineno is None:
        return "\n".join(lines[first - 1 : last]), ""
    kept = [*lines[first - 1 : statement.lineno - 1], *lines[statement.end_lineno : last]]
    return "\n".join(kept), docstring.split("\n\n")[0].replace("\n", " ").split(". ")[0].rstrip(".")
