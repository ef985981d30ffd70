"""Sets of other kinds made from a judged set's own files, for training only: weights that have seen one kind of
question fail on the next one.

From files that hold code and prose come two sets: headings and docstrings that ask for their file (`synth`), and single
functions, each a document of its own, asked for by a few words of their docstring, as people ask a web search. From
files of several functions comes a third: the first sentence of a docstring asks for its function's lines (`described`).
It is there to judge by: learned from, it won at symbols less than it cost elsewhere.
"""

from __future__ import annotations

import ast
import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from strata.errors import ConfigurationError
from strata.indexing.code.symbols import docstring_of
from strata.model.corpus import Span
from strata_eval.dataset import JudgedDocument, JudgedQuery, JudgedSet, judged_set, read_set
from strata_eval.judgements import Golden
from strata_eval.synth import write_synthetic

DERIVED = "~"
"""Between a set's name and what was made of it."""
JUDGED_ONLY = f"{DERIVED}described"
"""Behind the name of a set that nothing is learned from."""
MOST_FUNCTIONS = 1_500
MOST_QUESTIONS = 300
LEAST_SENTENCE_WORDS = 4
LEAST_FUNCTIONS_OF_A_FILE = 3
LEAST_QUESTIONS = 30
_ASKED_SHARE = 0.7
_WORD = re.compile(r"[^\W_][\w'-]*")
_SMALL = """
a an the of to in on for and or is are be been was were this that these those it its if with as by from at into not can
will has have which when then than all any also used using return returns given
"""
_SMALL_WORDS = frozenset(_SMALL.split())
_ROLE = re.compile(r"(?::[\w:]+:)`[~!]?([^`<]+?)(?:\s*<[^`]*>)?`")
_MARKUP = re.compile(r"[`*]")
_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True, kw_only=True)
class Derived:
    """A made set; `golden` holds the lines that answer a query, where the set knows them."""

    judged: JudgedSet
    golden: Mapping[str, Sequence[Golden]] = field(default_factory=dict)


def derived_sets(judged: JudgedSet) -> list[Derived]:
    """The sets made of this one: those that its files give questions for.

    The same set gives the same sets.
    """
    names = [document.path for document in judged.documents]
    code = any(name.endswith(".py") for name in names)
    prose = any(name.endswith(".md") for name in names)
    made: list[Derived] = []
    for make in ((_synthetic, _functions) if code and prose else ()) + ((_described,) if code else ()):
        with suppress(ConfigurationError):  # nothing there makes a question
            made.append(make(judged))
    return made


def _synthetic(judged: JudgedSet) -> Derived:
    with TemporaryDirectory(prefix="strata-derived-") as name:
        folder = Path(name) / f"{judged.name}{DERIVED}synth"
        write_synthetic({document.path: document.text for document in judged.documents}, folder, most=MOST_QUESTIONS)
        return Derived(judged=read_set(folder))


@dataclass(frozen=True, slots=True)
class _Found:
    node: _Function
    lines: list[str]
    first: int
    """The function's first line, decorators included, counted from 1."""


def _functions(judged: JudgedSet) -> Derived:
    draws = random.Random(0)  # noqa: S311 - a sample, no secret
    found = [item for document in judged.documents for item in _found_in(document)]
    draws.shuffle(found)
    documents: list[JudgedDocument] = []
    queries: list[JudgedQuery] = []
    relevant: dict[str, set[str]] = {}
    asked: set[str] = set()
    for number, item in enumerate(found[:MOST_FUNCTIONS]):
        path = f"f{number:05}.py"
        lines = item.lines[item.first - 1 : item.node.end_lineno]
        indent = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
        sentence = _first_sentence(item.node)
        if sentence and len(queries) < MOST_QUESTIONS and sentence not in asked and draws.random() < _ASKED_SHARE:
            lines = _without_sentence(item, lines, indent, draws)
            words = _few_words(sentence, draws)
            if len(words.split()) >= 3:
                asked.add(sentence)
                query = JudgedQuery(query_id=f"q{len(queries):04}", text=words)
                queries.append(query)
                relevant[query.query_id] = {path}
        text = "\n".join(line[indent:] for line in lines) + "\n"
        documents.append(JudgedDocument(path=path, title=item.node.name, text=text))
    made = judged_set(f"{judged.name}{DERIVED}functions", tuple(documents), tuple(queries), relevant)
    return Derived(judged=made)


def _described(judged: JudgedSet) -> Derived:
    draws = random.Random(0)  # noqa: S311 - a sample, no secret
    described = [
        (document.path, item, sentence)
        for document in judged.documents
        if len(found := list(_found_in(document))) >= LEAST_FUNCTIONS_OF_A_FILE
        for item in found
        if (sentence := _plain(_first_sentence(item.node)))
    ]
    times = Counter(sentence.casefold() for _, _, sentence in described)
    once = [one for one in described if times[one[2].casefold()] == 1]
    if len(once) < LEAST_QUESTIONS:
        raise ConfigurationError(f"{judged.name}: too few docstrings there make a question.")
    chosen = draws.sample(once, min(MOST_QUESTIONS, len(once)))
    cut: dict[str, list[Span]] = {}
    for path, item, _ in chosen:
        statement = item.node.body[0]
        cut.setdefault(path, []).append(Span(start=statement.lineno, end=statement.end_lineno or statement.lineno))
    documents = tuple(
        JudgedDocument(path=one.path, title=one.title, text=_without_lines(one.text, cut.get(one.path, ())))
        for one in judged.documents
    )
    queries = tuple(
        JudgedQuery(query_id=f"q{number:04}", text=sentence) for number, (_, _, sentence) in enumerate(chosen)
    )
    golden = {
        query.query_id: (Golden(path=path, span=_moved(item, cut[path])),)
        for query, (path, item, _) in zip(queries, chosen, strict=True)
    }
    relevant = {query_id: {piece.path for piece in pieces} for query_id, pieces in golden.items()}
    return Derived(judged=judged_set(f"{judged.name}{JUDGED_ONLY}", documents, queries, relevant), golden=golden)


def _plain(sentence: str) -> str:
    """Without the mark-up of roles and literals."""
    return _MARKUP.sub("", _ROLE.sub(r"\1", sentence))


def _without_lines(text: str, spans: Sequence[Span]) -> str:
    away = {number for span in spans for number in range(span.start, span.end + 1)}
    return "\n".join(line for number, line in enumerate(text.split("\n"), start=1) if number not in away)


def _moved(item: _Found, spans: Sequence[Span]) -> Span:
    """The function's lines, once those of the spans are gone."""
    end = item.node.end_lineno or item.node.lineno
    before = sum(span.end - span.start + 1 for span in spans if span.end < item.first)
    within = sum(span.end - span.start + 1 for span in spans if item.first <= span.start <= end)
    return Span(start=item.first - before, end=end - before - within)


def _found_in(document: JudgedDocument) -> Iterator[_Found]:
    """The functions of at least three lines; of a file that is not Python, none."""
    if not document.path.endswith(".py"):
        return
    try:
        module = ast.parse(document.text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    lines = document.text.split("\n")
    for node in ast.walk(module):
        if isinstance(node, _Function) and (node.end_lineno or node.lineno) - node.lineno >= 2:
            yield _Found(node, lines, min([node.lineno, *(one.lineno for one in node.decorator_list)]))


def _first_sentence(node: _Function) -> str:
    """The docstring's first sentence, or nothing where it can't be cut out or is too short to ask with."""
    docstring, statement = docstring_of(node), node.body[0]
    if not docstring or len(node.body) < 2 or (statement.end_lineno or statement.lineno) >= node.body[1].lineno:
        return ""
    sentence = " ".join(docstring.split("\n\n")[0].split()).split(". ")[0].rstrip(".")
    return sentence if len(sentence.split()) >= LEAST_SENTENCE_WORDS else ""


def _without_sentence(item: _Found, lines: list[str], indent: int, draws: random.Random) -> list[str]:
    """The function without its docstring, or, half of the time, with what follows the first paragraph."""
    statement = item.node.body[0]
    before, after = statement.lineno - item.first, (statement.end_lineno or statement.lineno) - item.first + 1
    rest = "\n\n".join((docstring_of(item.node) or "").split("\n\n")[1:]).strip()
    kept: list[str] = []
    if rest and draws.random() < 0.5:
        margin = " " * (indent + 4)
        kept = [f'{margin}"""', *(margin + line for line in rest.split("\n")), f'{margin}"""']
    return [*lines[:before], *kept, *lines[after:]]


def _few_words(sentence: str, draws: random.Random) -> str:
    """Three to seven words of the sentence in their order; half of the time with the name of the language."""
    words = [word.lower() for word in _WORD.findall(sentence)]
    words = [word for word in words if word not in _SMALL_WORDS or draws.random() < 0.25]
    count = draws.randint(3, 7)
    if len(words) > count:
        start = draws.randint(0, len(words) - count) if draws.random() < 0.5 else None
        chosen = range(start, start + count) if start is not None else sorted(draws.sample(range(len(words)), count))
        words = [words[place] for place in chosen]
    if draws.random() < 0.5:
        in_front = draws.random() < 0.5
        if in_front:
            return " ".join(["python", *words])
        words += ["python"] if draws.random() < 0.5 else ["in", "python"]
    return " ".join(words)
