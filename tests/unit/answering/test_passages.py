from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.answering.passages.passage import PassageKind
from strata.answering.passages.reading import passages
from strata.answering.passages.sentences import sentence_spans


def said(path: str, text: str, *kinds: PassageKind) -> list[str]:
    return [found.text for found in passages(path, text) if not kinds or found.kind in kinds]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two! Three?", ["One.", "Two!", "Three?"]),
        ("See e.g. this and v1.2 of it. Next.", ["See e.g. this and v1.2 of it.", "Next."]),
        ("Это т.е. пример. Дальше.", ["Это т.е. пример.", "Дальше."]),
        ("По Дж. Смиту и А. Иванову. Да.", ["По Дж.", "Смиту и А. Иванову.", "Да."]),
        ("Ends in `a. B` code. Yes.", ["Ends in `a. B` code.", "Yes."]),
        ("**Order.** Jobs run in order. So.", ["**Order.** Jobs run in order.", "So."]),
        ("__Порядок и замок!__ Задания идут по порядку.", ["__Порядок и замок!__ Задания идут по порядку."]),
        ("Yes. **Pack and upload.** It is sent.", ["Yes.", "**Pack and upload.** It is sent."]),
        ("**Never delete that table.** It holds all.", ["**Never delete that table.**", "It holds all."]),
        ("It is **done.** Yes.", ["It is **done.**", "Yes."]),
        ('He said "stop." Then left.', ['He said "stop."', "Then left."]),
        ("no capital after. the mark", ["no capital after. the mark"]),
        ("这是。那是。", ["这是。", "那是。"]),
    ],
)
def test_sentences(text: str, expected: list[str]) -> None:
    assert [text[start:end] for start, end in sentence_spans(text)] == expected


def test_markdown_gives_sentences_items_rows_and_code() -> None:
    text = (
        "---\nowner: ops\n---\n# Jobs\n\nA job runs\nonce. It ends.\n\n- first item\n  goes on\n- second\n\n"
        "| name | meaning |\n|---|---|\n| lease | a right |\n\n```sh\n# not a heading\nmake run\n```\n\n"
        "> a quoted\n> remark\n\n    indented = code\n"
    )
    assert [(found.kind.value, found.text, found.heading) for found in passages("a.md", text)] == [
        ("assignment", "owner: ops", ""),
        ("heading", "Jobs", ""),
        ("prose", "A job runs once.", "Jobs"),
        ("prose", "It ends.", "Jobs"),
        ("item", "first item goes on", "Jobs"),
        ("item", "second", "Jobs"),
        ("row", "name — meaning", "Jobs"),
        ("row", "lease — a right", "Jobs"),
        ("code", "# not a heading", "Jobs"),
        ("code", "make run", "Jobs"),
        ("prose", "a quoted remark", "Jobs"),
        ("code", "indented = code", "Jobs"),
    ]


def test_a_piece_may_begin_inside_a_fence() -> None:
    assert [(found.kind.value, found.text) for found in passages("a.md", "make run\n```\nThen ask.\n")] == [
        ("code", "make run"),
        ("prose", "Then ask."),
    ]
    assert said("a.md", "Ask:\n```sh\nmake run\n", PassageKind.PROSE) == ["Ask:"]


def test_python_gives_documentation_signatures_and_assignments() -> None:
    text = (
        '"""Locks. One a session."""\n\nLEASE_S = 60\n\n\nclass Lock:\n    """Holds it.\n\n    Raises `Lost`:\n'
        '    * when late\n    * when gone\n    """\n\n    # A comment\n    # goes on. And on.\n    def renew(\n'
        "        self,\n        fence: int,\n    ) -> None:\n        self.fence = fence\n"
    )
    assert [(found.kind.value, found.text, found.heading) for found in passages("a.py", text)] == [
        ("documentation", "Locks.", ""),
        ("documentation", "One a session.", ""),
        ("assignment", "LEASE_S = 60", ""),
        ("signature", "class Lock:", ""),
        ("documentation", "Holds it.", "Lock"),
        ("documentation", "Raises `Lost`:", "Lock"),
        ("documentation", "when late", "Lock"),
        ("documentation", "when gone", "Lock"),
        ("documentation", "A comment goes on.", "Lock"),
        ("documentation", "And on.", "Lock"),
        ("signature", "def renew( self, fence: int, ) -> None:", "Lock"),
        ("code", "self.fence = fence", "Lock.renew"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('    the end of a docstring.\n    """\n    return 1\n', id="text before the quotes"),
        pytest.param('    """\n    def later(self):\n        self.x = 1\n', id="quotes alone before code"),
    ],
)
def test_a_piece_may_begin_inside_a_docstring(text: str) -> None:
    assert said("a.py", text, PassageKind.DOCUMENTATION) in (["the end of a docstring."], [])
    assert said("a.py", text, PassageKind.CODE, PassageKind.SIGNATURE, PassageKind.ASSIGNMENT)


def test_examples_and_drawings_in_documentation_are_code() -> None:
    text = '"""Adds.\n\n    >>> add(1, 2)\n    3\n\n    Tree\n    ├── leaf. One\n    └── leaf\n"""\n'
    assert said("a.py", text, PassageKind.DOCUMENTATION) == ["Adds."]


def test_other_languages_give_comments_definitions_and_pairs() -> None:
    text = "// Renews the lease.\n// It may fail.\nexport function renew(fence) {\n  return fence + 1;\n}\n"
    assert [(found.kind.value, found.text) for found in passages("a.ts", text)] == [
        ("documentation", "Renews the lease."),
        ("documentation", "It may fail."),
        ("signature", "export function renew(fence) {"),
        ("code", "return fence + 1;"),
    ]
    assert said("a.yaml", "lease_s: 60\n", PassageKind.ASSIGNMENT) == ["lease_s: 60"]


@pytest.mark.parametrize("path", ["a.md", "a.py", "a.ts", "LICENSE", "a.unknown"])
@given(
    text=st.lists(
        st.one_of(
            st.sampled_from(
                [
                    "# H",
                    "```",
                    '"""',
                    "'''",
                    "- item",
                    "| a | b |",
                    "def f(",
                    "class A:",
                    "x = 1",
                    "# c",
                    "---",
                    "> q",
                    "",
                ]
            ),
            st.text(max_size=12),
        ),
        max_size=12,
    ).map("\n".join)
)
def test_every_passage_is_a_slice_of_its_source_in_order(path: str, text: str) -> None:
    last = 0
    for found in passages(path, text):
        assert 0 <= found.start < found.end <= len(text)
        assert found.start >= last
        assert "\n" not in found.text
        last = found.end
