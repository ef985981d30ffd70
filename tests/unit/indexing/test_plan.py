from __future__ import annotations

import inspect
import random
import re
import shutil
import subprocess
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import strata.indexing.ignoring
import strata_client.ignoring
from strata.indexing.plan import IgnoreRules, denied, plan, unfit
from strata.model.corpus import FileEntry
from tests.support.factories import file_entry

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def indexed(*entries: FileEntry) -> dict[str, FileEntry]:
    return {entry.path: entry for entry in entries}


@pytest.mark.parametrize(
    ("before", "wanted", "part"),
    [
        pytest.param(None, file_entry("a", "1"), "add", id="new"),
        pytest.param(file_entry("a", "1"), file_entry("a", "2"), "update", id="other content"),
        pytest.param(
            file_entry("a", "1"), file_entry("a", "2", acl=["user:x"]), "update", id="other content and rights"
        ),
        pytest.param(file_entry("a", "1"), file_entry("a", "1"), "keep", id="the same"),
        pytest.param(file_entry("a", "1"), file_entry("a", "1", acl=[]), "rights", id="closed to everybody"),
        pytest.param(file_entry("a", "1", acl=["user:x"]), file_entry("a", "1"), "rights", id="opened"),
        pytest.param(file_entry("a", "1"), file_entry("a", "1", last_modified=NOW), "rights", id="touched"),
        pytest.param(
            file_entry("a", "1", acl=["user:x", "user:y"]),
            file_entry("a", "1", acl=["user:y", "user:x"]),
            "keep",
            id="the same rights in another order",
        ),
        pytest.param(
            file_entry("a", "1"), replace(file_entry("a", "1"), size_bytes=0), "keep", id="size is no difference"
        ),
    ],
)
def test_a_file_is_in_the_part_that_its_difference_asks_for(
    before: FileEntry | None, wanted: FileEntry, part: str
) -> None:
    made = plan([wanted], indexed(before) if before else {})
    assert {name: len(getattr(made, name)) for name in ("add", "update", "rights", "keep", "delete")} == {
        **dict.fromkeys(("add", "update", "rights", "keep", "delete"), 0),
        part: 1,
    }


def test_two_files_with_one_content_are_two_files() -> None:
    first, second = file_entry("pkg1/LICENSE.md", "MIT"), file_entry("pkg2/LICENSE.md", "MIT")
    made = plan([second], indexed(first, second))
    assert (made.delete, made.keep) == (("pkg1/LICENSE.md",), (second,))


FILES = st.dictionaries(st.sampled_from("abcdefgh"), st.sampled_from("123"), max_size=8)


@given(FILES, FILES)
def test_the_plan_turns_the_index_into_the_upload(before: dict[str, str], after: dict[str, str]) -> None:
    made = plan(
        [file_entry(path, content) for path, content in after.items()],
        indexed(*(file_entry(path, content) for path, content in before.items())),
    )
    result = {path: file_entry(path, content).blob_sha for path, content in before.items()}
    for path in made.delete:
        del result[path]
    result |= {entry.path: entry.blob_sha for entry in made.upserts}
    assert result == {path: file_entry(path, content).blob_sha for path, content in after.items()}
    assert len(made.upserts) + len(made.keep) + len(made.rights) == len(after)


# --- what is not indexed -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        ".git/config", "a/.git/HEAD", "web/node_modules/x/index.js", ".venv/lib/x.py", "a/__pycache__/x.py",
        "lib/site-packages/x.py", "poetry.lock", "a/package-lock.json", "go.sum", "static/app.min.js", "x.css.map",
        ".env", "deploy/.env.production", "prod.env", "certs/server.pem", "certs/server.key", "id_rsa",
        ".ssh/known_hosts",
        "ID_ED25519", "Server.PEM", ".netrc", ".aws/credentials", "infra/terraform.tfstate", ".DS_Store", "docs/._a.md",
        "__MACOSX/a.md",
    ],
)  # fmt: skip
def test_denied_paths_have_a_reason(path: str) -> None:
    reason = denied(path)
    assert reason
    assert reason.startswith("It ")


@pytest.mark.parametrize(
    "path",
    [
        "src/app.py", ".gitignore", ".github/workflows/ci.yml", ".env.example", "docs/environment.md", "git/config",
        "keys.py", "id_rsa.md", "docs/pem.md", "src/lock.py", "build/x.py", "dist/x.md", "venv.md", "tests/env/a.py",
    ],
)  # fmt: skip
def test_ordinary_paths_are_not_denied(path: str) -> None:
    assert denied(path) is None


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        pytest.param(b"text", None, id="text"),
        pytest.param("привет".encode("utf-16"), None, id="UTF-16 with its mark"),
        pytest.param(b"# Doc\nboth o\x00er cloud credits\n", None, id="a stray NUL"),
        pytest.param("привет".encode("cp1251"), None, id="another encoding is not binary: it fails later"),
        pytest.param(b"\x1b[31mred\x1b[0m log\n", None, id="terminal colours"),
        pytest.param(b"", "It is empty.", id="no bytes"),
        pytest.param(b" \n\t\r\n", "It is empty.", id="blanks"),
        pytest.param(b"x" * 101, "It is larger than 100 bytes.", id="too large"),
        pytest.param(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0", "It is a binary file.", id="png"),
        pytest.param(b"PK\x03\x04\x14\0\0\0", "It is a binary file.", id="zip"),
        pytest.param("привет".encode("utf-16-le"), "It is a binary file.", id="UTF-16 without its mark"),
        pytest.param(b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj \x00\x01\x02", "It is a binary file.", id="pdf"),
    ],
)
def test_unfit_content_has_a_reason(content: bytes, reason: str | None) -> None:
    assert unfit("a/b.md", content, max_file_bytes=100) == reason


@pytest.mark.parametrize(("path", "reason"), [("a/__init__.py", None), ("a/x__init__.py", "It is empty.")])
def test_an_empty_init_still_makes_a_package(path: str, reason: str | None) -> None:
    assert unfit(path, b"\n", max_file_bytes=100) == reason


# --- ignore files --------------------------------------------------------------------------------------------------


def ignoring(files: dict[str, str], path: str) -> str | None:
    rules = IgnoreRules()
    for name, content in files.items():
        rules.add(name, content.encode())
    return rules.ignoring(path)


@pytest.mark.parametrize(
    ("files", "path", "by"),
    [
        pytest.param({}, "a.log", None, id="no ignore file"),
        pytest.param({".gitignore": "*.log"}, "a/b.log", ".gitignore", id="at the root"),
        pytest.param({".gitignore": "/a.log"}, "x/a.log", None, id="anchored"),
        pytest.param({"x/.gitignore": "/a.log"}, "x/a.log", "x/.gitignore", id="anchored in its folder"),
        pytest.param({"x/.gitignore": "*.log"}, "y/a.log", None, id="only below its folder"),
        pytest.param({".gitignore": "*.log\n!keep.log"}, "keep.log", None, id="the last pattern wins"),
        pytest.param({".gitignore": "*.log", "x/.gitignore": "!a.log"}, "x/a.log", None, id="the deeper file wins"),
        pytest.param({".gitignore": "build/\n!build/a.md"}, "build/a.md", ".gitignore", id="nothing below a folder"),
        pytest.param({".gitignore": "build/"}, "build", None, id="a folder's pattern is not for files"),
        pytest.param({".gitignore": "*.log", ".strataignore": "!a.log"}, "a.log", None, id="strataignore wins"),
        pytest.param({".strataignore": "docs/old"}, "docs/old/a.md", ".strataignore", id="strataignore"),
        pytest.param({".gitignore": "\ufeff*.log\r\nb\r\n"}, "b", ".gitignore", id="byte-order mark and CRLF"),
        pytest.param({".gitignore": "# *.md\n\n   \n"}, "a.md", None, id="comments and blanks"),
    ],
)
def test_paths_are_ignored_as_git_does_it(files: dict[str, str], path: str, by: str | None) -> None:
    assert ignoring(files, path) == by


def test_what_is_no_pattern_is_left_out() -> None:
    rules = IgnoreRules()
    rules.add(".gitignore", b"*.log\n!\n[z-a]\n\\\n[a\na//b\n\xff\n")
    assert rules.ignoring("a.log")
    assert rules.ignoring("a/b") is None


def test_an_ignore_file_that_comes_again_replaces_the_first() -> None:
    rules = IgnoreRules()
    rules.add(".gitignore", b"*.md")
    assert rules.ignoring("docs/a.md")
    rules.add(".gitignore", b"*.log")
    assert rules.ignoring("docs/a.md") is None


@pytest.mark.parametrize("pattern", ["*a*a*a*a*a*a*a*ab", "*?a?*?a*a[!c]*a*?a*ab", "**/a/**/a/**/ab", "*" * 200 + "b"])
def test_no_pattern_takes_for_ever(pattern: str) -> None:
    """Stars that each may try every length would need 10^14 steps here."""
    started = time.monotonic()
    assert ignoring({".gitignore": pattern}, "a" * 250) is None
    assert ignoring({".gitignore": pattern}, "/".join(["aaa"] * 240)) is None
    assert time.monotonic() - started < 5


@pytest.mark.parametrize(
    "patterns", ["*.log\n!keep.log\nbuild/\n/only\na/**/z\nd?c.md\n[ab].txt\n*.tm*p\nx/*/y\n", "*\n!*/\n!*.md\n"]
)
def test_git_itself_agrees(patterns: str, tmp_path: Path) -> None:
    paths = [
        "a.log", "keep.log", "d/keep.log", "build/a.md", "d/build/a.md", "only", "d/only", "a/z", "a/b/z", "a/b/c/z",
        "dac.md", "a.txt", "c.txt", "q.tmxp", "q.tm", "x/1/y", "x/1/2/y", "x/1/y/w", "README.md", "d/e/f.md",
    ]  # fmt: skip
    try:
        subprocess.run(["git", "init", "-q", tmp_path], check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("git is not installed")
    (tmp_path / ".gitignore").write_text(patterns)
    asked = subprocess.run(
        ["git", "check-ignore", "--no-index", "--stdin"],
        input="\n".join(paths), capture_output=True, text=True, cwd=tmp_path, check=False,
    )  # fmt: skip
    assert [path for path in paths if ignoring({".gitignore": patterns}, path)] == asked.stdout.split()


ATOMS = (
    "a", "b", "ab", "*", "**", "**/", "/**/", "?", "[ab]", "[!a]", "[^b]", "[a-b]", "[]a]", "[!]a]", "[[:alpha:]]",
    "*.md", "\\*", "\\#", "/", "!", "x.md", " ", "[a", "{", "(", "$", ".", "-",
)  # fmt: skip
PATHS = (
    "a/b", "a/b/x.md", "x.md", "ab/x.md", "b/a/ab", "*", "#", "a b", "b/c/a", "]", "a-b", "abab", "a/a/a/b", "[", "{",
    "a/[ab]/x.md",
)  # fmt: skip


@pytest.mark.parametrize("seed", range(120))
def test_git_agrees_on_random_patterns(seed: int, repository: Path) -> None:
    chance = random.Random(seed)

    def lines() -> str:
        made = ("".join(chance.choices(ATOMS, k=chance.randint(1, 5))) for _ in range(chance.randint(1, 3)))
        return re.sub(r"\*{3,}", "**", "\n".join(made))  # more stars than that nobody writes, nor reads alike

    files = {".gitignore": lines(), "a/.gitignore": lines() if seed % 3 == 0 else ""}
    for name, text in files.items():
        (repository / name).write_text(text)
    asked = subprocess.run(
        ["git", "check-ignore", "--no-index", "--stdin", "-z"],
        input="\0".join(PATHS), capture_output=True, text=True, cwd=repository, check=False,
    )  # fmt: skip
    ignored = asked.stdout.split("\0")
    assert [path for path in PATHS if ignoring(files, path)] == [path for path in PATHS if path in ignored]


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("repository")
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    subprocess.run(["git", "init", "-q", folder], check=True, capture_output=True)
    (folder / "a").mkdir()
    return folder


def test_client_and_server_read_ignore_files_alike() -> None:
    assert inspect.getsource(strata_client.ignoring) == inspect.getsource(strata.indexing.ignoring)
