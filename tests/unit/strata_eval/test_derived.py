"""What is made of a set asks for what it was made of, and gives nothing away."""

from __future__ import annotations

import pytest

from strata_eval.dataset import JudgedDocument, JudgedSet
from strata_eval.derived import Derived, derived_sets

PYTHON = "\n\n".join(
    f"class Holder{n}:\n    @property\n    def lock_{n}(self):\n"
    f'        """Give holder {n} back every lock it waits for.\n\n        Raises nothing at all.\n        """\n'
    f"        table.remove({n})\n        return {n}"
    for n in range(30)
)
PAGE = "# Guide\n\n## What the lock is for\n\nOne holder.\n"


def set_of(files: dict[str, str]) -> JudgedSet:
    documents = tuple(JudgedDocument(path=path, title=path, text=text) for path, text in files.items())
    return JudgedSet(name="small", documents=documents, queries=(), relevant={})


def made(kind: str, files: dict[str, str]) -> Derived:
    (found,) = [one for one in derived_sets(set_of(files)) if one.judged.name == f"small~{kind}"]
    return found


def test_functions_are_asked_for_by_words_that_are_cut_out_of_them() -> None:
    functions = made("functions", {"lock.py": PYTHON, "guide.md": PAGE}).judged
    texts = {document.path: document.text for document in functions.documents}
    assert len(texts) == 30
    assert len(functions.queries) > 5
    for query in functions.queries:
        assert 3 <= len(query.text.split()) <= 9
        (path,) = functions.relevant[query.query_id]
        assert texts[path].startswith("@property\ndef lock_")
        assert "waits for" not in texts[path]


def test_headings_and_docstrings_ask_for_their_files() -> None:
    synthetic = made("synth", {"lock.py": PYTHON, "guide.md": PAGE}).judged
    assert "What the lock is for" in {query.text for query in synthetic.queries}


def test_docstrings_ask_for_the_lines_that_are_left_of_their_functions() -> None:
    described = made("described", {"lock.py": PYTHON})
    (document,) = described.judged.documents
    lines = document.text.split("\n")
    assert len(described.judged.queries) == 30
    for query in described.judged.queries:
        number = query.text.split()[2]
        (piece,) = described.golden[query.query_id]
        assert query.text not in document.text
        assert lines[piece.span.start - 1 : piece.span.end] == [
            "    @property",
            f"    def lock_{number}(self):",
            f"        table.remove({number})",
            f"        return {number}",
        ]


def test_mark_up_is_no_part_of_a_question() -> None:
    marked = PYTHON.replace("every lock", "every :class:`~threads.Lock` or ``lock``")
    texts = {query.text for query in made("described", {"lock.py": marked}).judged.queries}
    assert "Give holder 3 back every threads.Lock or lock it waits for" in texts


def test_the_same_set_gives_the_same_sets() -> None:
    files = {"lock.py": PYTHON, "guide.md": PAGE}
    assert derived_sets(set_of(files)) == derived_sets(set_of(files))


@pytest.mark.parametrize(
    "files",
    [
        pytest.param({f"f{n}.py": f"def f{n}():\n    x\n    y" for n in range(40)}, id="functions that say nothing"),
        pytest.param({"guide.md": PAGE}, id="prose alone"),
        pytest.param({"lock.py": "x = 1\n", "guide.md": "One line.\n"}, id="nothing to ask"),
        pytest.param({"lock.py": "def (:\n", "guide.md": "One line.\n"}, id="not Python"),
    ],
)
def test_nothing_is_made_where_there_is_nothing_to_make(files: dict[str, str]) -> None:
    assert derived_sets(set_of(files)) == []
