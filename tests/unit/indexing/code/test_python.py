from __future__ import annotations

import ast
import json
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.indexing.code.parsing import parse_python
from strata.indexing.reading import source_lines
from strata.model.corpus import Chunk, Layer
from tests.support.parsing import assert_true_to_the_source, chunks_of, parsed, uncovered_lines

C0, C1 = Layer.C0_SOURCE_CHUNKS, Layer.C1_SYMBOL_CATALOG


def symbols(content: str, path: str = "app/views.py") -> dict[str, Chunk]:
    return {chunk.title: chunk for chunk in chunks_of(path, content, C1)}


def source_chunks(content: str, path: str = "app/views.py", *, chunk_tokens: int = 500) -> list[Chunk]:
    return chunks_of(path, content, C0, chunk_tokens=chunk_tokens)


# --- symbols -------------------------------------------------------------------------------------------------------

DECORATED = """@app.get("/h")
async def health():
    return 1

class A:
    @property
    def p(self):
        return 2
    @staticmethod
    async def s():
        pass
"""


def test_decorated_definitions_are_symbols_with_their_decorators() -> None:
    found = symbols(DECORATED)
    assert list(found) == ["app.views", "health", "A", "A.p", "A.s"]
    assert {name: (chunk.span.start, chunk.span.end) for name, chunk in found.items() if name != "app.views"} == {
        "health": (1, 3),
        "A": (5, 11),
        "A.p": (6, 8),
        "A.s": (9, 11),
    }
    assert found["health"].content == "function health\n@app.get('/h')\nasync def health()"
    assert found["A.p"].metadata == {
        "artifact_type": "python",
        "symbol_kind": "method",
        "qualified_name": "app.views.A.p",
    }


@pytest.mark.parametrize(
    "parameters",
    [
        "",
        "self, name",
        "*parts",
        "self, *parts, **options",
        "**options",
        "a, /, b",
        "a, *, b",
        "a, b=1",
        "a: int, *parts: str",
        "**options: int",
        "*, key=None, **options",
    ],
)
def test_parameters_are_shown_as_they_are_written(parameters: str) -> None:
    shown = symbols(f"def made({parameters}):\n    pass\n")["made"].content
    assert shown == f"function made\ndef made({parameters})"


def test_a_symbol_holds_signature_and_docstring() -> None:
    found = symbols(
        'class Store(Base[int], metaclass=Meta):\n    """Keeps rows."""\n\n'
        "    def put(self, key: str, /, *rows: Row, ttl_s: int = 60, **kw) -> None:\n"
        '        """Put them.\n\n        Twice is safe.\n        """\n'
    )
    assert found["Store"].content == "class Store\nclass Store(Base[int], metaclass=Meta)\nKeeps rows.\nMembers: put"
    assert found["Store.put"].content == (
        "method Store.put\ndef put(self, key: str, /, *rows: Row, ttl_s: int=60, **kw) -> None\n"
        "Put them.\n\nTwice is safe."
    )


def test_the_module_is_a_symbol_with_what_it_defines() -> None:
    (module, *_) = symbols(
        '"""What it is for."""\nX = 1\n\ndef f(): pass\n\nclass A:\n    def m(self): pass\n', "a/__init__.py"
    ).values()
    assert (module.title, module.content) == ("a", "module a\nWhat it is for.\nDefines: f, A")
    assert (module.span.start, module.span.end) == (1, 1)


@pytest.mark.parametrize(
    ("content", "names"),
    [
        pytest.param("if a:\n  def f(): pass\nelse:\n  def g(): pass\n", ["f", "g"], id="under if"),
        pytest.param("try:\n  a\nexcept E:\n  class x: pass\nfinally:\n  def h(): pass\n", ["x", "h"], id="under try"),
        pytest.param("with a:\n  for b in c:\n    while d:\n      def f(): pass\n", ["f"], id="under with and loops"),
        pytest.param("match a:\n  case 1:\n    def f(): pass\n", ["f"], id="under match"),
        pytest.param("class A:\n  class B:\n    def m(self): pass\n", ["A", "A.B", "A.B.m"], id="nested classes"),
        pytest.param("class A:\n  if x:\n    def m(self): pass\n", ["A", "A.m"], id="a method under if"),
        pytest.param("def f():\n  def inner(): pass\n", ["f"], id="a function inside a function is its source"),
        pytest.param("def f(): pass\ndef f(): pass\n", ["f", "f"], id="defined twice"),
        pytest.param("def имя(): pass\n", ["имя"], id="not ASCII"),
    ],
)  # fmt: skip
def test_definitions_are_found_where_they_stand(content: str, names: list[str]) -> None:
    assert [chunk.title for chunk in chunks_of("m.py", content, C1)][1:] == names


def test_names_and_spans_do_not_shift_behind_emoji() -> None:
    content = '# комментарий 🤣 → —\ndef fun1():\n    s = "🤣🤣"\n\ndef fun2():\n    return 2\n'
    assert {name: (chunk.span.start, chunk.span.end) for name, chunk in symbols(content, "m.py").items()} == {
        "m": (1, 1),
        "fun1": (2, 3),
        "fun2": (5, 6),
    }


def test_an_escape_in_a_docstring_can_be_stored() -> None:
    content = 'def f():\n    "NUL \\x00 and half \\ud83d"\n'
    assert symbols(content)["f"].content.endswith("NUL  and half \ufffd")


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_line_ends_do_not_change_spans(line_end: str) -> None:
    chunks = chunks_of("m.py", DECORATED.replace("\n", line_end), C1)
    assert [(c.title, c.span.start) for c in chunks] == [("m", 1), ("health", 1), ("A", 5), ("A.p", 6), ("A.s", 9)]


def test_a_form_feed_ends_no_line() -> None:
    content = "x = 1\n\x0c\ndef f():\n    return '\x0c\u2028'\n\ndef g(): pass\n"
    assert [(name, chunk.span.start) for name, chunk in symbols(content).items()][1:] == [("f", 3), ("g", 6)]
    assert_true_to_the_source("m.py", content, source_chunks(content, "m.py"))


# --- source chunks -------------------------------------------------------------------------------------------------


def test_code_outside_functions_is_kept() -> None:
    content = 'TIMEOUT_S = 37\nTABLE = {\n    "a": 1,\n\n    "b": 2,\n}\nif __name__ == "__main__":\n    print(TABLE)\n'
    chunks = source_chunks(content)
    assert uncovered_lines("app/views.py", content, chunks) == []
    assert "TIMEOUT_S = 37" in chunks[0].content


def test_definitions_that_fit_are_whole() -> None:
    functions = [
        f"# About {n}.\n@decorated\ndef function_{n}(a, b):\n"
        + "".join(f"    value_{i} = a + {i}\n" for i in range(n % 9 + 3))
        for n in range(40)
    ]
    content = "\n\n".join(functions)
    chunks = source_chunks(content)
    for function in functions:
        assert sum(function.strip() in chunk.content for chunk in chunks) == 1
    assert all(chunk.content.startswith("# About") for chunk in chunks)


def test_a_long_function_is_cut_between_statements() -> None:
    content = "def long():\n" + "".join(
        f"    result_{n} = call_number_{n}(\n        first={n},\n        second={n},\n    )\n" for n in range(80)
    )
    chunks = source_chunks(content)
    assert len(chunks) > 3
    for chunk in chunks:
        ast.parse("if 1:\n" + chunk.content if chunk.ordinal else chunk.content)
        assert chunk.title == "long"


def test_a_class_is_cut_between_methods() -> None:
    content = "class Big:\n    x = 1\n\n" + "\n".join(
        f"    # Method {n}.\n    def m{n}(self):\n" + "        self.x += 1\n" * 12 for n in range(20)
    )
    chunks = source_chunks(content)
    assert all(chunk.content.lstrip().startswith("# Method") for chunk in chunks[1:])
    assert chunks[0].title == "Big"
    assert chunks[1].title.startswith("Big.m")
    assert chunks[1].context.startswith("app/views.py\nBig.m")
    assert [name for chunk in chunks[1:] for name in chunk.metadata["symbols"]] == [
        f"Big.m{n}" for n in range(20) if f"    def m{n}(" not in chunks[0].content
    ]


def test_a_chunk_is_named_by_what_it_goes_on_with() -> None:
    content = (
        "class A:\n    def m(self):\n"
        + "".join(f"        value_{n} = {n} + {n}\n" for n in range(80))
        + "\n    def k(self): pass\n"
    )
    *_, last = source_chunks(content)
    assert last.title == "A.m, A.k"
    assert last.metadata["symbols"] == ["A.m", "A.k"]


@pytest.mark.parametrize("keyword", ["else:", "elif b:", "except E:", "finally:"])
def test_a_keyword_is_not_left_behind_at_the_end_of_a_chunk(keyword: str) -> None:
    head = "try:" if keyword in ("except E:", "finally:") else "if a:"
    block = f"    {head}\n" + "        x = call(1)\n" * 7 + f"    {keyword}\n" + "        y = call(2)\n" * 7
    for chunk in source_chunks("def f():\n" + block * 20):
        assert not chunk.content.rstrip().endswith(keyword)


# --- files that the parser refuses ---------------------------------------------------------------------------------

BROKEN = {
    "python 2": 'print "hello"\ndef ok():\n    return 1\n',
    "merge markers": "def ok():\n<<<<<<< HEAD\n    return 1\n=======\n    return 2\n>>>>>>> other\n",
    "a newer grammar": "x = f'{a!z}'\ntype X[T: = int\n",
    "tabs and blanks": "if a:\n\tx = 1\n        y = 2\n",
    "too many parentheses": "x = " + "(" * 5_000 + ")" * 5_000 + "\n",
    "unary without end": "x = " + "-" * 100_000 + "1\n",
    "attributes without end": "x = a" + ".b" * 100_000 + "\n",
    "calls without end": "x = f" + "()" * 100_000 + "\n",
    "sums without end": "x = " + "1+" * 100_000 + "1\n",
    "elif without end": "if a:\n  pass\n" + "elif b:\n  pass\n" * 20_000,
    "nested without end": "".join(" " * n + "if a:\n" for n in range(200)) + " " * 200 + "pass\n",
    "annotation without end": "def f(a: x" + ".b" * 100_000 + "): pass\n",
    "an annotation that parses but has no end": "def f(a: x" + ".b" * 700 + "): pass\n",
    "a huge number": "x = " + "9" * 10_000 + "\n",
    "too many lines": "".join(f"V_{n:06d} = 1\n" for n in range(200_000)),
    "one line of statements": "a=1;" * 100_000 + "\n",
    "an f-string of holes": 'x = f"' + "{a}" * 150_000 + '"\n',
    "a letter that is none": "x = 1 \u00d7 2\n",
}


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN)
def test_a_file_that_does_not_parse_has_source_chunks_and_a_reason(content: str) -> None:
    started = time.monotonic()
    file = parsed("m.py", content)
    assert time.monotonic() - started < 20
    assert {chunk.layer for chunk in file.chunks} == {C0}
    assert len(file.notes) == 1
    assert file.notes[0].reason.endswith("source chunks only, no symbols.")
    assert_true_to_the_source("m.py", content, file.chunks)
    assert uncovered_lines("m.py", content, file.chunks) == []


def test_no_source_takes_the_interpreter_down() -> None:
    """In a process of its own, with the small stack that a thread has on some systems."""
    script = (
        "import sys, json, threading\n"
        "from strata.indexing.code.parsing import parse_python\n"
        "threading.stack_size(1 << 20)\n"
        "sources = json.load(sys.stdin)\n"
        "work = lambda: [parse_python('m.py', source) for source in sources]\n"
        "thread = threading.Thread(target=work); thread.start(); thread.join(); print('alive')\n"
    )
    sources = [source for name, source in BROKEN.items() if "end" in name or "parentheses" in name]
    done = subprocess.run(
        [sys.executable, "-c", script], input=json.dumps(sources), capture_output=True, text=True, check=False
    )
    assert done.stdout == "alive\n", done.stderr[-500:]


def test_a_doubtful_escape_is_no_warning_of_ours() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert parse_python("m.py", 'x = "\\d"\nassert (1, 2)\nx is 1\n').notes == ()


def test_a_coding_comment_is_obeyed() -> None:
    content = '# -*- coding: iso-8859-5 -*-\nMSG = "привет"\ndef hello():\n    return MSG\n'.encode("iso-8859-5")
    file = parsed("m.py", content)
    assert 'MSG = "привет"' in file.chunks[0].content
    assert [chunk.title for chunk in file.chunks if chunk.layer is C1] == ["m", "hello"]


@pytest.mark.parametrize("content", ["", "\n\n", "\ufeff", "\x0c\n"])
def test_a_blank_module_has_no_chunk(content: str) -> None:
    assert parsed("m.py", content).chunks == ()


# --- whatever comes ------------------------------------------------------------------------------------------------

SIMPLE = st.sampled_from([
    "x = 1", "pass", "# c", "", "f(\n    1,\n)", '"""doc\n\nstring"""', "import os", "a = 1; b = 2", "x = '🤣'",
    "y = {\n    'a': [\n        1,\n\n        2,\n    ],\n}", "@d\n# between\ndef g(a, *, b=1) -> int: ...",
    "# -\n# -", "lambda: 0", "x = '''\n# no comment\n'''", "assert x, (\n    'm'\n)", "s = 'a' \\\n    'b'", "\x0c",
])  # fmt: skip
HEADS = st.sampled_from([
    "def f():", "class A:", "@a\n@b\nclass B(C):", "if a:", "for a in b:", "while a:", "with a as b:",
    "async def h(x):", "if a:\n    pass\nelse:", "try:\n    pass\nexcept E:", "try:\n    pass\nfinally:",
    "match x:\n  case 1:",
])  # fmt: skip


def block(head: str, body: list[str]) -> str:
    return "\n".join([head, *(f"    {line}" for part in [*body, "pass"] for line in part.split("\n"))])


STATEMENTS = st.recursive(SIMPLE, lambda inner: st.builds(block, HEADS, st.lists(inner, max_size=4)), max_leaves=14)


@given(st.lists(STATEMENTS, max_size=6).map("\n".join), st.sampled_from(["\n", "\r\n"]), st.sampled_from([10, 30, 200]))
def test_every_line_of_any_module_is_in_a_true_chunk(text: str, line_end: str, chunk_tokens: int) -> None:
    content = text.replace("\n", line_end)
    file = parsed("p/m.py", content, chunk_tokens=chunk_tokens)
    assert_true_to_the_source("p/m.py", content, file.chunks)
    assert uncovered_lines("p/m.py", content, file.chunks) == []


@given(st.lists(STATEMENTS, max_size=6).map("\n".join))
def test_symbols_are_the_definitions_that_python_sees(text: str) -> None:
    try:
        module = ast.parse(text)
    except SyntaxError:
        return
    lines = source_lines(text)
    seen = {
        (node.name, node.end_lineno)
        for node in ast.walk(module)
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    }
    for chunk in chunks_of("m.py", text, C1)[1:]:
        assert (chunk.title.rpartition(".")[2], chunk.span.end) in seen
        assert lines[chunk.span.start - 1].lstrip().startswith(("def", "class", "async def", "@"))


@given(st.text(max_size=200))
def test_any_text_may_stand_in_a_python_file(text: str) -> None:
    content = text.encode("utf-8", "replace")
    file = parsed("m.py", b"\n" + content)
    assert_true_to_the_source("m.py", b"\n" + content, file.chunks)
    assert uncovered_lines("m.py", b"\n" + content, file.chunks) == []


LIBRARY = Path(ast.__file__).parent


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["asyncio", "json", "email", "xml", "unittest", "."])
def test_the_standard_library_is_covered(folder: str) -> None:
    for file in sorted((LIBRARY / folder).glob("*.py")):
        content = file.read_bytes()
        made = parsed(f"lib/{file.name}", content)
        assert_true_to_the_source(file.name, content, made.chunks)
        assert uncovered_lines(file.name, content, made.chunks) == []
        assert made.notes == () or len(content) > 100_000
