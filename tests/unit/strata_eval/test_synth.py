"""Questions are made of what a file says about itself, and that is then no longer in the file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from strata.errors import ConfigurationError, GeneratorRejected
from strata.model.chat import Prompt
from strata_eval.dataset import read_set
from strata_eval.synth import write_synthetic
from tests.support.models import FakeChat

FILES = {
    "guide.md": "---\ntitle: How uploads are read\nid: x\n---\n# Guide\n\n## What the lock is for\n\nOne holder.\n\n"
    "```md\n## Not a heading at all\n```\n\n## Short\n\ntext\n",
    "lock.py": 'def release(owner):\n    """Give the lock back to whoever waits. More."""\n    table.remove(owner)\n\n'
    'def empty():\n    """This one has a docstring and nothing else."""\n',
    "broken.py": "def (:\n",
}
OWN = {"frontmatter": 1, "heading": 1, "docstring": 1}
"""Questions from the files' own words, by source."""


def questions(folder: Path) -> dict[str, str]:
    return {row["text"]: row["source"] for row in map(json.loads, (folder / "queries.jsonl").read_text().splitlines())}


def test_headings_docstrings_and_titles_ask(tmp_path: Path) -> None:
    assert write_synthetic(FILES, tmp_path) == OWN
    assert questions(tmp_path) == {
        "How uploads are read": "frontmatter",
        "What the lock is for": "heading",
        "Give the lock back to whoever waits": "docstring",
    }


def test_what_is_asked_is_cut_out_of_what_is_searched(tmp_path: Path) -> None:
    write_synthetic(FILES, tmp_path)
    judged = read_set(tmp_path)
    everything = "\n".join(document.text for document in judged.documents)
    assert not any(query.text in everything for query in judged.queries)
    assert "table.remove(owner)" in everything
    assert {path for paths in judged.relevant.values() for path in paths} == {"guide.md", "lock.py"}


def test_underlined_headings_ask_too(tmp_path: Path) -> None:
    files = {
        "old.md": "The whole old guide\n===================\n\nHow a lease ends\n----------------\n\nBy time.\n\n"
        "| a table row here |\n|---|\n\n- an item of a list\n---\n\n"
        "A paragraph of two\nlines and a rule\n----------------\n",
        "guide.rst": "===================\nThe title of it all\n===================\n\n"
        "Who may ``read`` it\n-------------------\n\nAnybody.\n\nShort one\n~~~~~~~~~\n\n"
        "Where all the logs go\n~~~~~~~~~~~~~~~~~~~~~\n\nTo a file.\n",
    }
    assert write_synthetic(files, tmp_path) == {"heading": 3}
    assert set(questions(tmp_path)) == {"How a lease ends", "Who may read it", "Where all the logs go"}
    texts = {document.path: document.text for document in read_set(tmp_path).documents}
    assert "----\n\nBy time" not in texts["old.md"]
    assert "~~~~~~~~~~~~~~~~~~~~~" not in texts["guide.rst"]


def test_what_stands_elsewhere_too_is_no_question(tmp_path: Path) -> None:
    write_synthetic({**FILES, "copy.md": "See *what the lock*  is for.\n"}, tmp_path)
    assert "What the lock is for" not in questions(tmp_path)


def test_a_question_that_was_turned_down_is_not_asked(tmp_path: Path) -> None:
    write_synthetic(FILES, tmp_path)
    path = tmp_path / "queries.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps({**row, "keep": row["source"] == "heading"}) + "\n" for row in rows))
    assert [query.text for query in read_set(tmp_path).queries] == ["What the lock is for"]


def test_files_that_say_nothing_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="makes a question"):
        write_synthetic({"a.txt": "text"}, tmp_path)


def test_the_same_files_give_the_same_set(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_synthetic(FILES, tmp_path / name, most=2)
    assert (tmp_path / "one" / "queries.jsonl").read_text() == (tmp_path / "two" / "queries.jsonl").read_text()


LONG = "\n".join(f"Line {number} of the chapter says how the worker renews its lease in time." for number in range(70))


def written(prompt: Prompt) -> str:
    place = prompt.user.split("Line ")[1].split(" ")[0]
    return f"“How is part {place} of it done by a worker?”"


def test_a_chat_model_asks_about_passages_on_top(tmp_path: Path) -> None:
    chat = FakeChat(written)
    files = {**FILES, "long.md": f"<passage>{LONG}</passage>"}
    assert write_synthetic(files, tmp_path, chat=chat, most_by_model=2) == {**OWN, "model": 2}
    by_model = [text for text, source in questions(tmp_path).items() if source == "model"]
    assert len(by_model) == 2
    assert all(text.startswith("How is part ") and text.endswith("worker?") for text in by_model)
    judged = read_set(tmp_path)
    assert [document.text for document in judged.documents if document.path == "long.md"] == [files["long.md"]]
    assert all(prompt.user.count("<passage>") == 1 for prompt in chat.prompts)
    again = tmp_path / "again"
    write_synthetic(files, again, chat=FakeChat(written), most_by_model=2)
    assert (again / "queries.jsonl").read_text() == (tmp_path / "queries.jsonl").read_text()


@pytest.mark.parametrize(
    "said", ["Why?", "word " * 60, "Line 3 of the chapter says how"], ids=["too short", "too long", "it stands there"]
)
def test_what_is_no_question_is_left_out(tmp_path: Path, said: str) -> None:
    assert write_synthetic({**FILES, "long.md": LONG}, tmp_path, chat=FakeChat(said), most_by_model=9) == OWN


def test_a_passage_that_the_model_refuses_asks_nothing(tmp_path: Path) -> None:
    def refuses(prompt: Prompt) -> str:
        raise GeneratorRejected

    assert write_synthetic({**FILES, "long.md": LONG}, tmp_path, chat=FakeChat(refuses), most_by_model=9) == OWN


def test_few_words_are_no_passage(tmp_path: Path) -> None:
    chat = FakeChat(written)
    write_synthetic(FILES, tmp_path, chat=chat, most_by_model=9)
    assert chat.prompts == []


@pytest.mark.parametrize("end", ["\r\n", "\r"])
def test_marks_and_ends_of_lines_make_no_difference(tmp_path: Path, end: str) -> None:
    files = {**FILES, "page.rst": "Title\n=====\n\nWhat the second part says\n-------------------------\n\nText.\n"}
    write_synthetic(files, tmp_path / "plain")
    write_synthetic({path: "\ufeff" + text.replace("\n", end) for path, text in files.items()}, tmp_path / "marked")
    for name in ("corpus.jsonl", "queries.jsonl", "qrels.tsv"):
        assert (tmp_path / "marked" / name).read_bytes() == (tmp_path / "plain" / name).read_bytes()


def test_a_folder_that_can_not_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match="file can't be written"):
        write_synthetic(FILES, tmp_path / "file")
