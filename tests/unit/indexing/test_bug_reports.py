"""Public bug reports of projects that do this job: the inputs that broke them, by the report's number.

Each number is that of the project's list of reports; the tests of the kind behind it stand beside the code that they
are about. Here is each report's own input, the whole way from an upload to the rows.
"""

from __future__ import annotations

import io
import tarfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from strata.errors import EmbedderRejected, UnsafeEntry
from strata.indexing import PIPELINE_VERSION
from strata.indexing.pipeline import Indexer
from strata.model.corpus import Chunk, Layer, Vectors
from strata.model.jobs import Job, JobKind, JobReport, Lease
from strata.providers.hashed.embedder import HashedEmbedder
from strata.settings.model import IndexingSettings
from tests.support.factories import identity, job
from tests.support.fake_objects import FakeObjectStore
from tests.support.fakes import FakeBlobCache, FakeSessionStore
from tests.support.parsing import assert_true_to_the_source, sections_of, uncovered_lines
from tests.support.uploads import json_lines, tar_gz

C0, C1, D1, D2, D3 = (
    Layer.C0_SOURCE_CHUNKS,
    Layer.C1_SYMBOL_CATALOG,
    Layer.D1_DOCUMENT_CATALOG,
    Layer.D2_FACT_INDEX,
    Layer.D3_SECTION_INDEX,
)


class StrictEmbedder(HashedEmbedder):
    """Refuses, as providers do, blank text and text over its limit; `texts` are all that it embedded."""

    texts: list[str]

    def __init__(self) -> None:
        object.__setattr__(self, "texts", [])

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        if any(not text.strip() for text in texts) or max(self.count(texts), default=0) > self.max_tokens:
            raise EmbedderRejected("HTTP 400")
        self.texts.extend(texts)
        return super().embed_documents(texts)


class Index:
    """One cache and its sessions."""

    def __init__(self) -> None:
        self.embedder = StrictEmbedder()
        self.cache = FakeBlobCache()
        self.objects = FakeObjectStore()
        self.sessions = FakeSessionStore(self.cache)
        self.seq = 0

    def snapshot(self, files: Mapping[str, bytes | str] | bytes, session_id: str = "docs") -> JobReport:
        body = files if isinstance(files, bytes) else tar_gz(files)
        return self.indexer().index_snapshot(*self._job(body, JobKind.SNAPSHOT, session_id), "tar.gz", lambda _: None)

    def change(self, *lines: Mapping[str, object]) -> JobReport:
        return self.indexer().index_changes(*self._job(json_lines(*lines), JobKind.CHANGES, "docs"), lambda _: None)

    def indexer(self) -> Indexer:
        return Indexer(
            sessions=self.sessions,
            cache=self.cache,
            objects=self.objects,
            embedder=self.embedder,
            settings=IndexingSettings(prepare_workers=1),  # the fakes are those of one process
        )

    def _job(self, body: bytes, kind: JobKind, session_id: str) -> tuple[Job, Lease]:
        self.sessions.create(
            session_id=session_id,
            identity=identity(),
            project_id="shop",
            embedding_model=self.embedder.model_id,
            dimension=self.embedder.dimension,
            pipeline_version=PIPELINE_VERSION,
        )
        self.seq += 1
        made = replace(job(f"job-{self.seq:026}", session_id=session_id, kind=kind), seq=self.seq)
        self.objects.put(made.object_key, body, content_type="")
        expires_at = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=1)
        return made, Lease(session_id=session_id, owner="worker", fence=self.seq, expires_at=expires_at)

    def chunks(self, path: str, *layers: Layer, session_id: str = "docs") -> list[Chunk]:
        rows = self.sessions.chunks[session_id][path]
        return [row.chunk for row in rows if not layers or row.chunk.layer in layers]

    @property
    def paths(self) -> set[str]:
        return set(self.sessions.chunks["docs"])


@pytest.fixture
def index() -> Index:
    return Index()


OTHERS = {f"ok{number}.md": f"# Fine {number}\n\nText {number}.\n" for number in range(5)}


def sections(index: Index, path: str) -> list[str]:
    return list(dict.fromkeys(str(chunk.metadata.get("section", "")) for chunk in index.chunks(path, D3)))


# --- files and Markdown --------------------------------------------------------------------------------------------


def test_report_01_a_byte_order_mark_before_frontmatter_and_heading(index: Index) -> None:
    index.snapshot({"a.md": b"\xef\xbb\xbf---\nid: x\nowner: Bar\n---\n# First\n\n## Second\ntext\n"})
    (entry,) = index.chunks("a.md", D1)
    assert (entry.metadata["doc_id"], entry.metadata["owner"]) == ("x", "Bar")
    assert sections(index, "a.md") == ["First", "First > Second"]
    assert not any("\ufeff" in f"{chunk.title}{chunk.embedded_text}" for chunk in index.chunks("a.md"))


def test_report_03_crlf_and_lf_give_one_tree(index: Index) -> None:
    index.snapshot({"crlf.md": "# A\r\n\r\n## B\r\ntext\r\n", "lf.md": "# A\n\n## B\ntext\n"})
    assert sections(index, "crlf.md") == sections(index, "lf.md") == ["A", "A > B"]
    spans = [[chunk.span for chunk in index.chunks(path)] for path in ("crlf.md", "lf.md")]
    assert spans[0] == spans[1]
    assert not any("\r" in f"{chunk.title}{chunk.content}" for chunk in index.chunks("crlf.md"))


def test_report_05_a_coding_comment_is_obeyed_and_costs_no_other_file(index: Index) -> None:
    content = '# -*- coding: iso-8859-5 -*-\nMSG = "привет"\ndef hello():\n    return MSG\n'.encode("iso-8859-5")
    report = index.snapshot({"a.py": content, "broken.py": b"# coding: utf-8\nx = '\xff'\n", **OTHERS})
    assert index.paths == {"a.py", *OTHERS}
    assert [failed.path for failed in report.failed] == ["broken.py"]
    assert any("привет" in chunk.content for chunk in index.chunks("a.py", C0))


def test_report_07_a_nul_in_one_of_twenty_files(index: Index) -> None:
    files = {f"{number}.md": f"# Doc {number}\n\ntext\n" for number in range(19)}
    content = "# Doc\nboth o\x00er cloud credits\n\n## After\nlast\n"
    report = index.snapshot({**files, "nul.md": content})
    assert report.counters.indexed_files == 20
    assert_true_to_the_source("nul.md", content, index.chunks("nul.md"))
    assert index.chunks("nul.md", D3)[-1].span.start == 4


@pytest.mark.parametrize(
    ("path", "content"),
    [
        pytest.param("big.py", f'DATA = "{"a" * 400_000}"\n', id="a string of a module"),
        pytest.param("big.md", "# A\n\n```json\n{" + '"k": "v", ' * 30_000 + "}\n```\n", id="JSON in a fence"),
        pytest.param("big.min.css.txt", "a{b:c}" * 50_000, id="one line of text"),
    ],
)
def test_report_10_one_extremely_long_line(index: Index, path: str, content: str) -> None:
    report = index.snapshot({path: content, **OTHERS})
    assert (report.counters.indexed_files, report.counters.failed_files) == (6, 0)
    assert index.chunks(path)
    assert max(index.embedder.count(index.embedder.texts)) <= index.embedder.max_tokens


def test_report_11_one_oversized_function_aborts_nothing(index: Index) -> None:
    body = "".join(f"    value_{number} = compute(value_{number - 1}, {number})\n" for number in range(1, 1_300))
    report = index.snapshot(
        {"long.py": f"def long(value_0):\n{body}", **OTHERS, **{f"b{n}.md": "x\n" for n in range(4)}}
    )
    assert report.counters.indexed_files == 10
    assert report.counters.failed_files == 0


def test_report_12_blank_sections_are_never_embedded(index: Index) -> None:
    index.snapshot({"a.md": "# A\n\n## B\n\n\n\n## C\ntext\n"})
    assert all(text.strip() for text in index.embedder.texts)
    assert index.chunks("a.md", D1)[0].content == "A\ntext\n  - B\n  - C"
    assert any(chunk.title == "C" and "text" in chunk.content for chunk in index.chunks("a.md", D3))


def test_report_14_two_hundred_thousand_distinct_words(index: Index) -> None:
    content = " ".join(f"id{number:06x}" for number in range(200_000))
    report = index.snapshot({"ids.md": content})
    assert report.counters.indexed_files == 1
    holding = [row for row in index.sessions.chunks["docs"]["ids.md"] if "id00ffff" in row.terms.by_term]
    assert 1 <= sum(row.chunk.layer is D3 for row in holding) <= 2


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param(
            "# Install\n\n```bash\n# not a heading\npip install x\n```\n\n## Next\nt\n",
            ["Install", "Install > Next"],
            id="16 a hash inside a fence",
        ),
        pytest.param(
            "# H\n* one\n\n    ```txt\n    # inside\n    ```\n* two\n\n## After\nx\n",
            ["H", "H > After"],
            id="18 a fence inside a list",
        ),
        pytest.param("## My Section ##\nx", ["My Section"], id="20 closing hashes"),
        pytest.param("just text, no heading\n", [""], id="20 no heading"),
        pytest.param(
            "---\ntitle: A\n---\n\n# A\ntext\n\n---\n\n- item\n  - colon inside: yes\n\n---\nend\n",
            ["A"],
            id="24 a rule in the body",
        ),
    ],
)
def test_reports_16_18_20_24_sections_are_those_of_the_text(index: Index, content: str, expected: list[str]) -> None:
    index.snapshot({"a.md": content})
    assert sections(index, "a.md") == sections_of(content) == expected
    frontmatter_lines = 3 if content.startswith("---") else 0
    assert [n for n in uncovered_lines("a.md", content, index.chunks("a.md")) if n > frontmatter_lines] == []


def test_report_16_a_fence_stays_in_one_chunk(index: Index) -> None:
    index.snapshot({"a.md": "# Install\n\n```bash\n# not a heading\npip install x\n```\n\n## Next\nt\n"})
    assert sum("```bash\n# not a heading\npip install x\n```" in c.content for c in index.chunks("a.md", D3)) == 1


def test_report_21_equal_sections_in_two_files_are_four_rows(index: Index) -> None:
    content = "# One\n\n## Usage\n\nRun it.\n\n# Two\n\n## Usage\n\nRun it.\n"
    index.snapshot({"a.md": content, "b/a.md": content})
    rows = [
        (path, chunk.span.start, chunk.ordinal)
        for path in ("a.md", "b/a.md")
        for chunk in index.chunks(path, D3)
        if chunk.title == "Usage"
    ]
    assert [row[:2] for row in rows] == [("a.md", 3), ("a.md", 9), ("b/a.md", 3), ("b/a.md", 9)]
    assert len(set(rows)) == 4


def test_report_22_each_chunk_of_a_long_table_knows_its_header(index: Index) -> None:
    rows = "".join(f"| E-{number} | meaning {number} | fix {number} |\n" for number in range(400))
    content = f"# Codes\n\n| code | meaning | fix |\n|---|---|---|\n{rows}"
    index.snapshot({"codes.md": content})
    chunks = index.chunks("codes.md", D3)
    assert len(chunks) > 3
    assert all(chunk.embedded_text.count("| code | meaning | fix |") == 1 for chunk in chunks)
    assert all(line.startswith("|") and line.endswith("|") for c in chunks for line in c.content.split("\n")[3:])
    assert_true_to_the_source("codes.md", content, chunks)
    (fact,) = [chunk for chunk in index.chunks("codes.md", D2) if chunk.title == "E-317"]
    assert fact.content == "code: E-317; meaning: meaning 317; fix: fix 317"
    assert (fact.span.start, fact.span.end) == (322, 322)


def test_report_25_frontmatter_with_an_unquoted_colon(index: Index) -> None:
    report = index.snapshot({"a.md": "---\ntitle: Part 1: Intro\nowner: team\n---\n# Body\nx\n"})
    assert report.counters.indexed_files == 1
    assert all("line 2" in chunk.metadata["frontmatter_error"] for chunk in index.chunks("a.md", D1, D3))
    assert not any("owner: team" in chunk.content for chunk in index.chunks("a.md", D3))
    assert sections(index, "a.md") == ["Body"]


# --- Python --------------------------------------------------------------------------------------------------------


def test_report_27_decorated_definitions_are_symbols(index: Index) -> None:
    index.snapshot(
        {
            "app.py": '@app.get("/h")\nasync def health():\n    return 1\n\nclass A:\n    @property\n'
            "    def p(self):\n        return 2\n    @staticmethod\n    async def s():\n        pass\n"
        }
    )
    found = {chunk.title: chunk for chunk in index.chunks("app.py", C1)}
    assert list(found) == ["app", "health", "A", "A.p", "A.s"]
    assert (found["health"].span.start, found["A.p"].span.start, found["A.s"].span.start) == (1, 6, 9)
    assert "@app.get" in found["health"].content


def test_report_29_emoji_do_not_shift_names(index: Index) -> None:
    content = '# комментарий 🤣 → —\ndef fun1():\n    s = "🤣🤣"\n\ndef fun2():\n    return 2\n'
    index.snapshot({"a.py": content})
    assert [chunk.title for chunk in index.chunks("a.py", C1)] == ["a", "fun1", "fun2"]
    assert_true_to_the_source("a.py", content, index.chunks("a.py"))


@pytest.mark.parametrize(
    "content",
    [
        pytest.param('print "hello"\ndef ok():\n    return 1\n', id="Python 2"),
        pytest.param("<<<<<<< HEAD\nx = 1\n=======\nx = 2\n>>>>>>> other\n", id="merge markers"),
        pytest.param("x = f'{a!}'\n", id="an f-string that is none"),
    ],
)
def test_report_30_a_file_that_does_not_parse_keeps_its_source(index: Index, content: str) -> None:
    report = index.snapshot({"a.py": content, **OTHERS})
    assert report.counters.indexed_files == 6
    assert {chunk.layer for chunk in index.chunks("a.py")} == {C0}
    assert uncovered_lines("a.py", content, index.chunks("a.py")) == []
    (blob,) = [blob for blob in index.cache.blobs.values() if blob.key.path == "a.py"]
    assert "can't parse" in blob.notes[0].reason
    (note,) = report.notes
    assert (note.path, note.line, note.reason) == ("a.py", 1, blob.notes[0].reason)
    assert report.note_count == 1


def test_report_32_a_huge_generated_module_stays_inside_its_budget(index: Index) -> None:
    content = "".join(f"V_{number:06} = {number}\n" for number in range(110_000))  # 2 MB: more is skipped as too large
    start = time.process_time()
    report = index.snapshot({"generated.py": content[:1_900_000], "five_mb.py": content * 3, **OTHERS})
    assert time.process_time() - start < 60
    assert report.counters.indexed_files == 6
    assert [skipped.path for skipped in report.skipped] == ["five_mb.py"]


def test_report_33_code_outside_functions_is_kept(index: Index) -> None:
    content = 'TIMEOUT_S = 37\n\nTABLE = {\n    "a": 1,\n}\n\nif __name__ == "__main__":\n    print(TABLE)\n'
    index.snapshot({"a.py": content})
    assert uncovered_lines("a.py", content, index.chunks("a.py", C0)) == []
    rows = index.sessions.chunks["docs"]["a.py"]
    assert any({"timeout_s", "37"} <= set(row.terms.by_term) for row in rows if row.chunk.layer is C0)


# --- the index's life ----------------------------------------------------------------------------------------------


def test_report_53_two_files_with_one_content_are_kept_apart(index: Index) -> None:
    licence = "# Licence\n\nDo what you like.\n"
    index.snapshot({"pkg1/LICENSE.md": licence, "pkg2/LICENSE.md": licence})
    index.snapshot({"pkg2/LICENSE.md": licence}, session_id="other")
    index.change({"op": "delete", "path": "pkg1/LICENSE.md"})
    assert index.paths == {"pkg2/LICENSE.md"}
    assert {chunk.path for chunk in index.chunks("pkg2/LICENSE.md")} == {"pkg2/LICENSE.md"}
    index.change({"op": "upsert", "path": "pkg2/LICENSE.md", "content": "# Licence\n\nAsk first.\n"})
    assert "Ask first" in index.chunks("pkg2/LICENSE.md", D3)[0].content
    assert "Do what" in index.chunks("pkg2/LICENSE.md", D3, session_id="other")[0].content


def test_report_54_a_file_of_250_sections_in_batches(index: Index) -> None:
    def content(changed: str = "") -> str:
        return "".join(
            f"## Part {number}\n\nText {number}{changed if number == 7 else ''}.\n\n" for number in range(250)
        )

    def rows() -> int:
        return len(index.chunks("a.md", D3))

    index.snapshot({"a.md": content()})
    first = len(index.embedder.texts)
    assert rows() == 250
    index.snapshot({"a.md": content()})
    assert (rows(), len(index.embedder.texts)) == (250, first)
    index.snapshot({"a.md": content(" changed")})
    assert rows() == 250
    assert [text for text in index.embedder.texts[first:] if "Text 7 changed" not in text] == []
    assert len(index.embedder.texts) == first + 1


@pytest.mark.parametrize("name", ["../../x.md", "/abs.md", "C:\\x.md", "a/../../b.md"])
def test_report_66_no_entry_leaves_the_project(index: Index, name: str) -> None:
    index.snapshot(OTHERS)
    with pytest.raises(UnsafeEntry):
        index.snapshot(tar_gz({name: "# Out\n"}))
    with pytest.raises(UnsafeEntry):
        index.change({"op": "upsert", "path": name, "content": "# Out\n"})
    assert index.paths == set(OTHERS)


def test_report_66_a_link_is_refused_and_nothing_outside_is_read(index: Index) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        link = tarfile.TarInfo("notes.md")
        link.type, link.linkname = tarfile.SYMTYPE, "../secret.md"
        tar.addfile(link)
    with pytest.raises(UnsafeEntry):
        index.snapshot(buffer.getvalue())
    assert index.sessions.chunks["docs"] == {}
