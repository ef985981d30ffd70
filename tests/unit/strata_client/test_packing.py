from __future__ import annotations

import gzip
import os
import shutil
import subprocess
import tarfile
import unicodedata
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from strata.model.corpus import checked_path
from strata_client.errors import PackingError
from strata_client.packing import FoundFile, PackingLimits, pack, walk

needs_links = pytest.mark.skipif(os.name == "nt", reason="making links needs rights on Windows")


def plant(root: Path, files: Mapping[str, str | bytes]) -> Path:
    for path, content in files.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content if isinstance(content, bytes) else content.encode())
    return root


def packed(root: Path, limits: PackingLimits | None = None) -> tuple[dict[str, bytes], dict[str, str]]:
    """The archive's files, and what was skipped with its reason."""
    with pack(root, limits=limits) as snapshot:
        with tarfile.open(snapshot.archive) as archive:
            members = archive.getmembers()
            assert all(member.isreg() for member in members)
            files = {member.name: archive.extractfile(member).read() for member in members}  # type: ignore[union-attr]
        assert snapshot.files == len(members) == len(files)
        assert snapshot.total_bytes == sum(map(len, files.values()))
        skipped = {entry["path"]: entry["reason"] for entry in snapshot.skipped}
    assert not snapshot.archive.exists(), "the temporary archive is gone"
    return files, skipped


def test_a_folder_becomes_its_files(tmp_path: Path) -> None:
    plant(tmp_path, {"README.md": "# A", "src/app.py": "x = 1", "src/empty.py": "", "b.bin": b"\0\1"})

    files, skipped = packed(tmp_path)

    assert files == {"README.md": b"# A", "b.bin": b"\0\1", "src/app.py": b"x = 1", "src/empty.py": b""}
    assert list(files) == sorted(files)
    assert skipped == {}


def test_the_same_tree_gives_the_same_bytes(tmp_path: Path) -> None:
    def archive_of(root: Path) -> bytes:
        with pack(root) as snapshot:
            return snapshot.archive.read_bytes()

    files = {f"d{n % 3}/f{n}.py": f"x = {n}\n" for n in range(20)}
    one = plant(tmp_path / "one", files)
    other = plant(tmp_path / "other", dict(reversed(files.items())))
    for root in (one, other):
        for path in root.rglob("*.py"):
            os.utime(path, (0, 1_700_000_000.75))
    (other / "d0" / "f0.py").chmod(0o755)

    assert archive_of(one) == archive_of(other)
    with pack(one) as snapshot, tarfile.open(snapshot.archive) as archive:
        assert {member.mtime for member in archive} == {1_700_000_000}
        assert {(member.uid, member.gid, member.uname, member.mode) for member in archive.getmembers()} == {
            (0, 0, "", 0o644)
        }


# --- ignore files ---------------------------------------------------------------------------------------------------


def test_ignore_files_count_in_every_folder_and_the_inner_one_decides(tmp_path: Path) -> None:
    plant(
        tmp_path,
        {
            ".gitignore": "*.log\n/build/\n",
            "a.log": "",
            "build/out.py": "",
            "src/build/kept.py": "",
            "src/.gitignore": "!keep.log\nsecret.txt\r\n",
            "src/keep.log": "kept",
            "src/other.log": "",
            "src/secret.txt": "",
            "docs/.strataignore": "*.draft.md\n",
            "docs/.gitignore": "!*.draft.md\n",
            "docs/x.draft.md": "",
            "docs/x.md": "",
        },
    )

    files, skipped = packed(tmp_path)

    assert set(files) == {
        ".gitignore", "docs/.gitignore", "docs/.strataignore", "docs/x.md", "src/.gitignore", "src/build/kept.py",
        "src/keep.log",
    }  # fmt: skip
    assert skipped == {
        "a.log": "ignored by .gitignore",
        "build/": "ignored by .gitignore",
        "docs/x.draft.md": "ignored by docs/.strataignore",
        "src/other.log": "ignored by .gitignore",
        "src/secret.txt": "ignored by src/.gitignore",
    }


def test_a_broken_pattern_does_not_break_the_file(tmp_path: Path) -> None:
    plant(
        tmp_path,
        {".gitignore": b"\xef\xbb\xbf*.tmp\n!\n///\n\\\n\xff\xfe\n[\n*.bak\n", "a.tmp": "", "a.bak": "", "a": ""},
    )

    files, _ = packed(tmp_path)

    assert set(files) == {".gitignore", "a"}


def test_a_part_of_a_repository_obeys_the_files_above_it(tmp_path: Path) -> None:
    plant(
        tmp_path,
        {".git/config": "", ".gitignore": "*.log\nsrc/gen/\n", "src/a.py": "", "src/a.log": "", "src/gen/b.py": ""},
    )

    files, skipped = packed(tmp_path / "src")

    assert set(files) == {"a.py"}
    assert skipped == {
        "a.log": "ignored by .gitignore above the folder",
        "gen/": "ignored by .gitignore above the folder",
    }


def test_a_folder_that_was_named_is_wanted_even_if_it_is_ignored(tmp_path: Path) -> None:
    plant(tmp_path, {".git/config": "", ".gitignore": "build/\n", "build/out/a.py": ""})

    assert set(packed(tmp_path / "build" / "out")[0]) == {"a.py"}


def test_a_folder_outside_a_repository_does_not_look_above_itself(tmp_path: Path) -> None:
    plant(tmp_path, {".gitignore": "*", "project/a.py": ""})

    assert set(packed(tmp_path / "project")[0]) == {"a.py"}


OUTER = [
    "*.py", "!a.py", "/a/", "a/", "b", "a/*", "!a/b/", "**/c", "a/**", "!*.md", "# c", "b/*.py ", "a?b", "**", "/**",
    "a/**/", "!a/**", "!a/", "**/b/**", "a/**/c.py", "[ab].md", "[!a].py", "!/a/b", "\\!a.py", "a.p\\y",
]  # fmt: skip
INNER = ["*", "!*.md", "/b", "!b/", "c.py", "!c.py", "*.txt"]


@pytest.mark.skipif(shutil.which("git") is None, reason="compares with git itself")
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    outer=st.lists(st.sampled_from(OUTER) | st.text("ab.*?/![]\\- ^d:", max_size=8), max_size=5),
    inner=st.lists(st.sampled_from(INNER), max_size=4),
)
def test_git_and_we_agree(tmp_path: Path, outer: list[str], inner: list[str]) -> None:
    root = tmp_path / "tree"
    shutil.rmtree(root, ignore_errors=True)
    names = [
        f"{folder}{name}" for folder in ("", "a/", "a/b/", "b/", "a/c/") for name in ("a.py", "b.md", "c.py", "d.txt")
    ]
    plant(root, {**dict.fromkeys(names, ""), ".gitignore": "\n".join(outer), "a/.gitignore": "\n".join(inner)})
    git = ["git", "-C", str(root), "-c", "core.excludesFile="]
    subprocess.run([*git, "init", "-q"], check=True)
    listed = subprocess.run(
        [*git, "ls-files", "--others", "--exclude-standard", "-z"], check=True, capture_output=True
    ).stdout.decode()

    ours = {found.path for found in walk(root, max_file_bytes=100) if isinstance(found, FoundFile)}

    assert ours == set(filter(None, listed.split("\0")))


# --- what never leaves ----------------------------------------------------------------------------------------------


def test_data_of_tools_and_secrets_stay_at_home(tmp_path: Path) -> None:
    plant(
        tmp_path,
        {
            ".git/config": "", "sub/.git": "gitdir: ../x", ".strata/pg": "", "web/node_modules/x/i.js": "",
            "src/__pycache__/a.pyc": "", ".env": "KEY=1", "conf/.env.production": "", "conf/.env.example": "ok",
            "tls/server.PEM": "", "id_rsa": "", "keys.py": "ok", ".DS_Store": "",
        },
    )  # fmt: skip

    files, skipped = packed(tmp_path)

    assert set(files) == {"conf/.env.example", "keys.py"}
    assert set(skipped) == {
        ".git/", "sub/.git", ".strata/", "web/node_modules/", "src/__pycache__/", ".env", "conf/.env.production",
        "tls/server.PEM", "id_rsa", ".DS_Store",
    }  # fmt: skip
    assert skipped[".env"] == "its name says that it may hold secrets"


@needs_links
def test_links_and_pipes_are_not_followed(tmp_path: Path) -> None:
    outside = plant(tmp_path / "outside", {"secret.md": "secret"})
    root = plant(tmp_path / "root", {"a.md": "a"})
    (root / "file.md").symlink_to(outside / "secret.md")
    (root / "folder").symlink_to(outside, target_is_directory=True)
    (root / "loop").symlink_to(root, target_is_directory=True)
    (root / "dangling").symlink_to("nowhere")
    (root / ".gitignore").symlink_to(outside / "secret.md")
    os.mkfifo(root / "pipe")

    files, skipped = packed(root)

    assert files == {"a.md": b"a"}
    assert skipped == {
        **dict.fromkeys((".gitignore", "dangling", "file.md", "folder", "loop"), "a link; links are not followed"),
        "pipe": "not a regular file",
    }


@needs_links
def test_a_root_that_is_a_link_is_the_folder_behind_it(tmp_path: Path) -> None:
    plant(tmp_path / "root", {"a.md": "a"})
    (tmp_path / "link").symlink_to(tmp_path / "root")

    assert set(packed(tmp_path / "link")[0]) == {"a.md"}


# --- names ----------------------------------------------------------------------------------------------------------


def test_names_are_sent_in_one_unicode_form(tmp_path: Path) -> None:
    decomposed, composed = unicodedata.normalize("NFD", "Ёлка é.md"), unicodedata.normalize("NFC", "Ёлка é.md")
    plant(tmp_path, {f"папка/{decomposed}": "x", ".gitignore": unicodedata.normalize("NFD", "й.md"), "й.md": ""})

    files, skipped = packed(tmp_path)

    assert set(files) == {".gitignore", f"папка/{composed}"}
    assert skipped == {"й.md": "ignored by .gitignore"}


@pytest.mark.skipif(os.name == "nt", reason="no such names there")
def test_names_that_would_sink_the_upload_are_left_out(tmp_path: Path) -> None:
    composed = unicodedata.normalize("NFC", "é.md")
    twins = {composed: "1", unicodedata.normalize("NFD", composed): "2"}
    plant(tmp_path, {"a\\b.md": "", "C:x.md": "", "new\nline.md": "", "esc\x1b[31m.md": "", "ok.md": "", **twins})
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.md")).write_text("latin-1")

    files, skipped = packed(tmp_path)

    assert set(files) == {"ok.md", composed}
    assert len(skipped) == 6
    assert skipped["caf?.md"] == "its name is not valid Unicode"
    assert skipped[composed] == "another file has the same name after Unicode normalisation"


NAMES = st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=12).filter(
    lambda name: name not in (".", "..")
)


@pytest.mark.skipif(os.name == "nt", reason="few of these names exist there")
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(names=st.lists(NAMES, min_size=1, max_size=4))
def test_the_server_accepts_every_name_that_is_sent(tmp_path: Path, names: list[str]) -> None:
    root = tmp_path / "tree"
    shutil.rmtree(root, ignore_errors=True)
    plant(root, {f"{name}.md": name for name in names})

    found = [each for each in walk(root, max_file_bytes=100) if isinstance(each, FoundFile)]

    assert all(checked_path(each.path) == each.path for each in found)


def test_long_paths_go_through_and_too_long_ones_stay(tmp_path: Path) -> None:
    long, too_long = "/".join(["d" * 90] * 10) + "/f.md", "/".join(["e" * 90] * 11) + "/f.md"
    plant(tmp_path, {long: "x"})
    folder = tmp_path
    for part in too_long.split("/")[:-1]:
        folder = folder / part
        folder.mkdir()
    (folder / "f.md").write_text("x")

    files, skipped = packed(tmp_path)

    assert set(files) == {long}
    assert list(skipped.values()) == ["its path has more than 1,000 characters"]


# --- caps and faults ------------------------------------------------------------------------------------------------


def test_a_file_above_its_cap_stays_and_the_others_go(tmp_path: Path) -> None:
    plant(tmp_path, {"at.md": "x" * 10, "above.md": "x" * 11})

    files, skipped = packed(tmp_path, PackingLimits(max_file_bytes=10))

    assert set(files) == {"at.md"}
    assert skipped == {"above.md": "larger than 10 bytes"}


@pytest.mark.parametrize(
    "limits",
    [PackingLimits(max_files=1), PackingLimits(max_total_bytes=3), PackingLimits(max_archive_bytes=10)],
    ids=["count", "total", "archive"],
)
def test_a_folder_above_a_cap_is_refused_with_a_way_out(tmp_path: Path, limits: PackingLimits) -> None:
    plant(tmp_path, {"a.md": "aa", "b.md": "bb"})

    with pytest.raises(PackingError, match="strataignore"), pack(tmp_path, limits=limits):
        pass


def test_nothing_to_send_is_an_error_not_an_empty_index(tmp_path: Path) -> None:
    plant(tmp_path, {".gitignore": "*"})

    with pytest.raises(PackingError, match="no file to index"), pack(tmp_path):
        pass


def test_what_is_no_folder_is_refused(tmp_path: Path) -> None:
    plant(tmp_path, {"a.md": ""})

    for path in (tmp_path / "a.md", tmp_path / "nowhere"):
        with pytest.raises(PackingError, match="is not a folder"), pack(path):
            pass


def test_a_file_that_can_not_be_read_is_skipped_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(tmp_path, {"a.md": "a", "locked.md": "", "gone.md": ""})
    really_open = os.open

    def failing_open(path: str, flags: int, *rest: int, **options: int) -> int:
        if path.endswith("locked.md"):
            raise PermissionError(13, "Permission denied")
        if path.endswith("gone.md"):
            raise FileNotFoundError(2, "No such file or directory")
        return really_open(path, flags, *rest, **options)

    monkeypatch.setattr(os, "open", failing_open)

    files, skipped = packed(tmp_path)

    assert set(files) == {"a.md"}
    assert skipped == {
        "gone.md": "can't be read: No such file or directory",
        "locked.md": "can't be read: Permission denied",
    }


def test_the_archive_is_one_gzip_member_without_a_date(tmp_path: Path) -> None:
    plant(tmp_path, {"a.md": "a"})

    with pack(tmp_path) as snapshot:
        content = snapshot.archive.read_bytes()

    assert content[4:8] == b"\0\0\0\0"
    assert len(gzip.decompress(content)) % 512 == 0


def test_progress_counts_files(tmp_path: Path) -> None:
    plant(tmp_path, {"a.md": "a", "b.md": "b"})
    counts: list[int] = []

    with pack(tmp_path, on_file=counts.append):
        pass

    assert counts == [1, 2]
