from __future__ import annotations

import time

import pytest

from strata.model.corpus import Chunk, Layer
from tests.support.parsing import assert_true_to_the_source, chunks_of, parsed


def facts(content: str, path: str = "doc.md") -> list[Chunk]:
    return chunks_of(path, content, Layer.D2_FACT_INDEX)


def policies(content: str, path: str = "doc.md") -> list[Chunk]:
    return chunks_of(path, content, Layer.D4_POLICY_INDEX)


def shown(chunks: list[Chunk]) -> list[tuple[int, int, str]]:
    return [(chunk.span.start, chunk.span.end, chunk.content) for chunk in chunks]


def test_a_list_item_is_a_fact_under_its_section() -> None:
    found = facts("# A\n\n## Ports\n\n- The API listens\n  on `8080`.\n- The database on 5432.\n")
    assert shown(found) == [(5, 6, "The API listens on 8080."), (7, 7, "The database on 5432.")]
    assert {chunk.metadata["section"] for chunk in found} == {"A > Ports"}
    assert found[0].context == "doc.md\nA > Ports"
    assert found[0].metadata["fact_kind"] == "list_item"


def test_an_item_brings_along_what_it_hangs_on() -> None:
    found = facts("# A\n\nA key may hold:\n\n1. letters\n2. signs:\n   - `-`\n   - `_`\n\nElse.\n\n- alone\n")
    assert [chunk.content for chunk in found] == [
        "A key may hold: letters",
        "A key may hold: signs:",
        "signs: -",
        "signs: _",
        "alone",
    ]


def test_a_table_row_is_a_fact_with_its_header() -> None:
    found = facts("# Codes\n\n| code | meaning |\n|---|---|\n| `E-317` | disk full |\n| E-318 | |\n")
    assert shown(found) == [(5, 5, "code: E-317; meaning: disk full"), (6, 6, "code: E-318")]
    assert [chunk.title for chunk in found] == ["E-317", "E-318"]


def test_key_value_lines_are_facts_line_by_line() -> None:
    found = facts("# A\n\nOwner: team-a\n**Port:** 8080\n`mode`: fast\n")
    assert shown(found) == [(3, 3, "Owner: team-a"), (4, 4, "Port: 8080"), (5, 5, "mode: fast")]


@pytest.mark.parametrize(
    ("line", "content"),
    [
        pytest.param(
            "**Fence** — a number that only\ngrows.", "Fence: a number that only grows.", id="bold and a dash"
        ),
        pytest.param("`lease` - how long.", "lease: how long.", id="code and a hyphen"),
        pytest.param("Аренда — это срок захвата.", "Аренда: это срок захвата.", id="Russian"),
    ],
)
def test_a_definition_is_a_fact(line: str, content: str) -> None:
    (found,) = facts(f"# Words\n\n{line}\n")
    assert found.content == content
    assert found.metadata["fact_kind"] == "definition"


@pytest.mark.parametrize(
    "content",
    [
        pytest.param("# A\n\nPlain prose about it.\n", id="prose"),
        pytest.param("# A\n\n- [One](one.md)\n- <https://example.com>\n", id="a list of links"),
        pytest.param("# A\n\n```yaml\nport: 80\n- item\n```\n", id="inside a fence"),
        pytest.param(
            "# A\n\nSee https://example.com/x for more: it is long, and this line is prose.\n", id="an address"
        ),
    ],
)
def test_what_states_nothing_by_itself_is_no_fact(content: str) -> None:
    assert facts(content) == []


@pytest.mark.parametrize(
    ("sentence", "kind"),
    [
        pytest.param("Keys must be unique.", "obligation", id="must"),
        pytest.param("The client shall retry.", "obligation", id="shall"),
        pytest.param("A title is required here.", "obligation", id="required"),
        pytest.param("Passwords must not be logged.", "prohibition", id="must not"),
        pytest.param("Never commit secrets.", "prohibition", id="never"),
        pytest.param("A name has at most 40 characters.", "limit", id="a limit"),
        pytest.param("Uploads are limited to 5 MB.", "limit", id="limited to"),
        pytest.param("Callers should back off.", "recommendation", id="should"),
        pytest.param("Поле должно быть заполнено.", "obligation", id="должно"),
        pytest.param("Оператор обязан проверить подпись.", "obligation", id="обязан"),
        pytest.param("Хранить пароли открыто запрещено.", "prohibition", id="запрещено"),
        pytest.param("Удалять записи нельзя.", "prohibition", id="нельзя"),
        pytest.param("Размер файла не более 5 МБ.", "limit", id="не более"),
    ],
)
@pytest.mark.parametrize("shape", ["{}", "- {}", "> {}"], ids=["paragraph", "item", "quote"])
def test_a_normative_sentence_is_a_rule(sentence: str, kind: str, shape: str) -> None:
    (found,) = policies(f"# Rules\n\n{shape.format(sentence)}\n")
    assert (found.content, found.metadata["policy_kind"], found.span.start) == (sentence, kind, 3)


def test_a_rule_names_the_lines_of_its_sentence_alone() -> None:
    found = policies("# A\n\nIt is old. Keys must\nbe unique, e.g. A1.\nIt is fine. Never\nreuse one.\n")
    assert shown(found) == [(3, 4, "Keys must be unique, e.g. A1."), (5, 6, "Never reuse one.")]


def test_a_decision_section_is_a_rule_sentence_by_sentence() -> None:
    found = policies("# 7. Cache\n\n## Context\n\nIt was slow.\n\n## Decision\n\nWe keep blobs by hash. Rows follow.\n")
    assert [chunk.content for chunk in found] == ["We keep blobs by hash."]
    assert found[0].metadata["policy_kind"] == "decision"
    assert policies("# Кэш\n\n## Решение\n\nХраним файлы по хэшу.\n")[0].metadata["policy_kind"] == "decision"


def test_a_row_under_a_limit_column_is_a_limit() -> None:
    (found,) = policies("| what | limit |\n|---|---|\n| one path | 1,000 characters |\n")
    assert (found.content, found.metadata["policy_kind"]) == ("what: one path; limit: 1,000 characters", "limit")


def test_rules_carry_the_typed_fields() -> None:
    (found,) = policies("---\nid: x\nowner: Bar\nsystem_component: store\n---\n# A\n\nKeys must be unique.\n")
    assert found.metadata["doc_id"] == "x"
    assert found.metadata["owner"] == "Bar"
    assert found.metadata["system_component"] == "store"
    assert found.metadata["artifact_type"] == "markdown"


@pytest.mark.parametrize(
    "content",
    [
        pytest.param("a. B " * 100_000, id="many sentences in a line"),
        pytest.param("- " + "[" * 20_000, id="brackets"),
        pytest.param("e.g. A " * 100_000, id="abbreviations"),
        pytest.param("|a|b|\n|-|-|\n" + "|`x`|must *y*|\n" * 9_000, id="a long table"),
        pytest.param("- **a** must b\n" * 20_000, id="a long list"),
        pytest.param("a" * 100 + ": " + " " * 100_000 + "b", id="blanks behind a key"),
        pytest.param("**" * 50_000, id="stars"),
    ],
)
def test_a_hostile_file_states_its_facts_in_time(content: str) -> None:
    start = time.process_time()
    found = parsed("doc.md", content)
    assert time.process_time() - start < 8
    assert_true_to_the_source("doc.md", content, found.chunks)
