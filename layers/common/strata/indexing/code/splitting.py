"""C0: the whole source as one document, with the places where Python can be cut.

The best place is before a top-level definition, its comments and decorators included; then before a method, then
between statements, the shallower the better. Inside a statement is the last resort.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from strata.indexing.code.symbols import BLOCKS_OF, DEFINITIONS, DefinedSymbol, Definition, first_line, module_symbol
from strata.indexing.parsed import ParsedDocument, Whole
from strata.indexing.reading import text_of
from strata.model.corpus import Document, Layer, Span

_AFTER_HEAD = 0.85
"""Between a block's head and its first statement."""
_AFTER_BLANK = 0.7
"""Inside a statement, say a long docstring or table, where its author left a line free."""


def source_document(
    path: str, module: ast.Module, symbols: Sequence[DefinedSymbol], lines: Sequence[str], span: Span
) -> ParsedDocument:
    """`span` is the source without blank lines at its ends."""
    borders = _Borders(lines)
    borders.walk(module)
    return ParsedDocument(
        document=Document(
            layer=Layer.C0_SOURCE_CHUNKS,
            title=module_symbol(path),
            content=text_of(lines, span),
            span=span,
            metadata={"artifact_type": "python"},
        ),
        verbatim=True,
        prices=borders.prices,
        wholes=tuple(
            Whole(
                span=Span(
                    start=borders.starts.get(item.symbol.span.start, item.symbol.span.start), end=item.symbol.span.end
                ),
                price=10.0,
            )
            for item in symbols
        ),
        symbols=tuple(item.symbol for item in symbols),
    )


@dataclass(slots=True)
class _Block:
    """Statements of one block: `after` is the last line before it that belongs to something else."""

    statements: Sequence[ast.stmt]
    depth: int
    after: int
    in_class: bool = False


@dataclass(slots=True)
class _Borders:
    """Prices by line; `starts` leads from a statement's first line to the first comment line above it."""

    lines: Sequence[str]
    prices: dict[int, float] = field(default_factory=dict)
    starts: dict[int, int] = field(default_factory=dict)

    def walk(self, module: ast.Module) -> None:
        waiting = [_Block(statements=module.body, depth=0, after=0)]
        while waiting:
            block = waiting.pop()
            after = block.after
            for position, node in enumerate(block.statements):
                is_definition = node.__class__ in DEFINITIONS
                start = first_line(node) if is_definition and isinstance(node, Definition) else node.lineno
                if start > after:
                    border = self._with_comments(start, after)
                    self.starts[start] = border
                    first = position == 0 and block.depth > 0
                    self.prices[border] = _AFTER_HEAD if first else self._price(block, border, is_definition)
                end = node.end_lineno or start
                if BLOCKS_OF[node.__class__]:
                    waiting.extend(self._blocks_of(node, block.depth))
                else:
                    for line in range(start + 2, end + 1):
                        if not self.lines[line - 2].strip():
                            self.prices[line] = _AFTER_BLANK
                after = max(after, end)

    def _price(self, block: _Block, border: int, is_definition: bool) -> float:
        if is_definition and (block.depth == 0 or block.in_class):
            return min(0.4, 0.1 * block.depth)
        after_blank = border > 1 and not self.lines[border - 2].strip()
        return min(0.8, 0.15 + 0.1 * block.depth - (0.1 if after_blank else 0.0))

    def _with_comments(self, start: int, after: int) -> int:
        while start - 1 > after and self.lines[start - 2].lstrip().startswith("#"):
            start -= 1
        return start

    def _blocks_of(self, node: ast.stmt, depth: int) -> Iterator[_Block]:
        """The blocks inside a statement; a cut before `else`, `except` and their like is priced on the way."""
        price = min(0.8, 0.3 + 0.1 * depth)
        in_class = isinstance(node, ast.ClassDef)
        last = node.lineno
        for name in BLOCKS_OF[node.__class__]:
            children = getattr(node, name)
            if not children:
                continue
            if name not in ("handlers", "cases"):
                statements: list[ast.stmt] = children
                head = statements[0].lineno
                if name in ("orelse", "finalbody"):
                    head = self._keyword(head, last)
                    self.prices[head] = price
                yield _Block(statements=statements, depth=depth + 1, after=max(head, node.lineno), in_class=in_class)
                last = statements[-1].end_lineno or last
            else:  # exception handlers, cases
                for child in children:
                    head = child.lineno if isinstance(child, ast.ExceptHandler) else child.pattern.lineno
                    self.prices[head] = price
                    yield _Block(statements=child.body, depth=depth + 1, after=head)
                    last = child.body[-1].end_lineno or last

    def _keyword(self, head: int, last: int) -> int:
        """The line of the `else` or `finally` above a block's first statement."""
        for line in range(head, last, -1):
            if self.lines[line - 1].lstrip().startswith(("else", "finally", "elif")):
                return line
        return head
