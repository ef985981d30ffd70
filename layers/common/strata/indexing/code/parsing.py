"""Which parser reads which language, and what happens when it refuses a file.

A file that its parser refuses still gets its source chunks, cut like plain text, and a note with the reason; it has
no symbols. A parser for another language is one more entry of `CODE_PARSERS`.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Mapping

from strata.indexing.code.dependencies import dependency_documents, dependency_links, uses
from strata.indexing.code.entrypoints import entrypoint_documents
from strata.indexing.code.names import definition_links, module_names
from strata.indexing.code.roles import role_documents
from strata.indexing.code.splitting import source_document
from strata.indexing.code.symbols import definitions, module_symbol, symbol_documents
from strata.indexing.parsed import ParsedDocument, ParsedSource, Parser
from strata.indexing.reading import source_lines, text_of
from strata.indexing.window_prices import window_prices
from strata.model.corpus import Document, Layer, Note, Span

MAX_PARSED_CHARACTERS = 500_000
"""A larger module is generated: a dense megabyte takes some seconds."""
MAX_PARSED_LINE = 200_000
"""Python's parser needs time that grows with the square of a line's length,"""
MAX_BRACES_TIMES_CHARACTERS = 4_000_000_000
"""and, up to 3.11, of an f-string's: two seconds here."""


def parse_python(path: str, text: str) -> ParsedSource:
    lines = source_lines(text)
    span = _filled(lines)
    if span is None:  # of a package's empty `__init__.py` the name is left
        empty = ast.parse("")
        return ParsedSource(documents=(), links=tuple(definition_links(empty, (), module_names(path, empty))))
    if (
        len(text) > MAX_PARSED_CHARACTERS
        or max(map(len, lines)) > MAX_PARSED_LINE
        or text.count("{") * len(text) > MAX_BRACES_TIMES_CHARACTERS
    ):
        return _unparsed(path, lines, span, "It is too large to be parsed")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a doubtful escape in their file is not our warning
            module = ast.parse(text)
    except SyntaxError as error:
        return _unparsed(path, lines, span, f"Python can't parse it ({error.msg})", line=error.lineno or None)
    except (RecursionError, MemoryError, ValueError) as error:
        return _unparsed(path, lines, span, f"Python can't parse it ({type(error).__name__}: nested too deeply?)")
    symbols = definitions(module)
    names = module_names(path, module)
    try:
        used = uses(module, symbols, names, span)
        catalogue = (
            *symbol_documents(path, module, symbols, span.start),
            *dependency_documents(used),
            *entrypoint_documents(path, module, used, names),
            *role_documents(path, used, span.start),
        )
    except RecursionError:
        return _unparsed(path, lines, span, "A signature in it is nested too deeply")
    source = source_document(path, module, symbols, lines, span)
    links = (*definition_links(module, symbols, names), *dependency_links(used, names))
    return ParsedSource(documents=(source, *catalogue), links=links)


def _unparsed(path: str, lines: list[str], span: Span, reason: str, *, line: int | None = None) -> ParsedSource:
    document = ParsedDocument(
        document=Document(
            layer=Layer.C0_SOURCE_CHUNKS,
            title=module_symbol(path),
            content=text_of(lines, span),
            span=span,
            metadata={"artifact_type": "python"},
        ),
        verbatim=True,
        prices=window_prices(lines),
    )
    note = Note(reason=f"{reason}: source chunks only, no symbols.", line=line)
    return ParsedSource(documents=(document,), notes=(note,))


def _filled(lines: list[str]) -> Span | None:
    start = next((number for number, line in enumerate(lines, start=1) if line.strip()), None)
    if start is None:
        return None
    end = next(number for number in range(len(lines), 0, -1) if lines[number - 1].strip())
    return Span(start=start, end=end)


CODE_PARSERS: Mapping[str, Parser] = {".py": parse_python, ".pyi": parse_python, ".pyw": parse_python}
"""By the file name's extension, lower case."""
