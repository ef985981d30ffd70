"""What the documents say can be checked is checked: links, commands, routes, limits, words."""

from __future__ import annotations

import dataclasses
import re
import subprocess
from pathlib import Path
from typing import get_args

import pytest
from typer.main import get_command

from strata.jobs.running import Phase
from strata.model.asking import MAX_QUERY_CHARACTERS
from strata.model.corpus import MAX_PATH_CHARACTERS
from strata.retrieval import cross_encoder, explain, features
from strata.settings.model import (
    AnsweringSettings,
    ChatSettings,
    EmbedderSettings,
    IndexingSettings,
    PreambleSettings,
    RerankerSettings,
    RewriteSettings,
    StorageSettings,
    UploadLimits,
)
from strata_client.cli.main import app
from strata_client.cli.progress import PHASES
from strata_client.packing import PackingLimits
from strata_local.template import load_stack, parameters_of

REPOSITORY = Path(__file__).resolve().parents[2]
README = (REPOSITORY / "README.md").read_text("utf-8")
ARCHITECTURE = (REPOSITORY / "docs" / "architecture.md").read_text("utf-8")
DOCUMENTS = [
    *(REPOSITORY / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted((REPOSITORY / "docs").rglob("*.md")),
]


def shown(path: Path) -> str:
    return str(path.relative_to(REPOSITORY))


@pytest.mark.parametrize("document", DOCUMENTS, ids=shown)
def test_every_link_leads_somewhere(document: Path) -> None:
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", document.read_text("utf-8"))
    local = [target for target in targets if "://" not in target]

    assert [target for target in local if not (document.parent / target).exists()] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=shown)
def test_every_link_to_a_heading_leads_to_one(document: Path) -> None:
    found = re.findall(r"\]\(([^)#\s]*)#([^)\s]+)\)", document.read_text("utf-8"))
    local = [(document.parent / target if target else document, name) for target, name in found if "://" not in target]

    assert [(shown(page), name) for page, name in local if name not in anchors(page)] == []


def anchors(page: Path) -> set[str]:
    """The names that a renderer gives the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_command_of_the_readme_exists_and_every_command_is_in_it() -> None:
    commands = {*get_command(app).commands}  # type: ignore[attr-defined]
    named = set(re.findall(r"`strata ([a-z]+)", README))

    assert named == commands


@pytest.mark.parametrize("document", DOCUMENTS, ids=shown)
def test_every_make_target_that_is_named_exists(document: Path) -> None:
    makefile = (REPOSITORY / "Makefile").read_text("utf-8")
    targets = set(re.findall(r"^([a-z0-9]+):", makefile, re.MULTILINE))

    assert set(re.findall(r"make (?:[A-Z]+=\S+ )?([a-z0-9]+)`", document.read_text("utf-8"))) <= targets


def test_what_the_readmes_sample_answer_cites_stands_in_those_lines() -> None:
    sample = README.split("```")[1]
    claims = re.findall(r"^(?:- )?(\S.*) \[(\d)\]$", sample, re.MULTILINE)
    cited = [
        (number, (REPOSITORY / path).read_text("utf-8").split("\n")[int(line) - 1])
        for number, path, line in re.findall(r"^  \[(\d)\] (\S+):(\d+)$", sample, re.MULTILINE)
    ]

    assert len(claims) == 5
    assert [claim for claim, number in claims if not any(claim in line for n, line in cited if n == number)] == []


def test_the_readme_lists_the_routes_of_the_template() -> None:
    template = REPOSITORY / "infra" / "template.yaml"
    given = {name: value or "x" for name, value in parameters_of(template).items()}
    routes = {(route.method, route.path) for route in load_stack(template, parameters=given).routes}
    listed = set(re.findall(r"`(GET|POST|PATCH|DELETE) (/[^`]*)`", README))

    assert listed == {(method, path) for method, path in routes if method not in ("HEAD", "OPTIONS")}


def test_the_readme_tells_the_limits_that_are_set() -> None:
    limits = UploadLimits()

    assert (
        f"{limits.max_archive_bytes // 2**20} MB / {limits.max_total_bytes // 2**30} GB / {limits.max_ratio} times"
        in README
    )
    assert f"{limits.max_entries:,}; {limits.max_file_bytes // 2**20} MB; {MAX_PATH_CHARACTERS:,} characters" in README
    assert f"{limits.max_inline_bytes // 2**20} MB" in README
    assert f"{MAX_QUERY_CHARACTERS:,} characters" in README


SETTINGS = {
    "": (IndexingSettings, AnsweringSettings, StorageSettings, UploadLimits),
    "EMBEDDER": (EmbedderSettings,),
    "CHAT": (ChatSettings,),
    "PREAMBLE": (PreambleSettings,),
    "REWRITE": (RewriteSettings,),
    "RERANKER": (RerankerSettings,),
}


def defaults() -> dict[str, object]:
    """The default of each setting, by the name of its variable."""
    return {
        "_".join(filter(None, ("STRATA", prefix, "" if prefix and field.name == "name" else field.name.upper()))): (
            field.default
        )
        for prefix, sections in SETTINGS.items()
        for section in sections
        for field in dataclasses.fields(section)  # type: ignore[arg-type]
    }


def test_operations_tells_settings_that_exist_with_their_defaults() -> None:
    known = defaults() | {"STRATA_MODEL_DIRECTORY": ""}
    text = (REPOSITORY / "docs" / "operations.md").read_text("utf-8").partition("## Settings")[2]
    rows = re.findall(r"^\| (`STRATA_[^|]+) \| ([^|]*) \| ([^|]+) \|$", text.partition("\n## ")[0], re.MULTILINE)
    told: dict[str, str] = {}
    for variables, values, _ in rows:
        names = re.findall(r"`([^`]+)`", variables)
        stem = re.match(r"STRATA_[A-Z]+", names[0])[0]  # type: ignore[index]
        whole = [name.replace("…", stem) for name in names]
        said = [value.strip(" `") for value in re.split(r"[,;] ", values)]
        told |= dict(zip(whole, said * len(whole) if len(said) == 1 else said, strict=False))

    assert set(told) <= set(known)
    assert len(told) > 20
    numbers = {name: float(value) for name, value in told.items() if re.fullmatch(r"[\d.]+", value)}
    assert numbers == {name: known[name] for name in numbers}
    assert len(numbers) > 12


def test_the_architecture_names_folders_and_modules_that_exist() -> None:
    table = ARCHITECTURE.partition("## Folders")[2].partition("\n\nImports")[0]
    package = REPOSITORY / "layers" / "common" / "strata"
    named = re.findall(r"`([\w/.]+)`", table)

    def exists(name: str) -> bool:
        found = [REPOSITORY, package, *(each for each in package.iterdir() if each.is_dir()), REPOSITORY / "infra"]
        return any((root / name).exists() or (root / f"{name}.py").exists() for root in found)

    assert [name for name in named if not exists(name)] == []
    assert {each.name for each in package.iterdir() if each.is_dir() and each.name != "__pycache__"} <= {
        name.rstrip("/") for name in named
    }


def test_the_client_packs_what_the_server_takes() -> None:
    server, client = UploadLimits(), PackingLimits()

    assert (client.max_files, client.max_file_bytes) == (server.max_entries, server.max_file_bytes)
    assert (client.max_total_bytes, client.max_archive_bytes) == (server.max_total_bytes, server.max_archive_bytes)


def test_the_glossary_has_one_meaning_a_word() -> None:
    rows = re.findall(r"^\| ([^|]+) \|", (REPOSITORY / "docs" / "glossary.md").read_text("utf-8"), re.MULTILINE)
    words = [word.strip() for row in rows[2:] for word in row.split(",")]

    assert len(words) == len(set(words))
    assert len(words) > 25


def test_every_phase_of_a_job_is_explained_to_readers_and_shown_by_the_client() -> None:
    phases = get_args(Phase)

    assert re.findall(r"`(\w+)`", ARCHITECTURE.partition("tell its `phase`: ")[2].partition("\n")[0]) == [*phases]
    assert tuple(PHASES) == phases


def test_every_part_of_a_score_is_explained_to_readers_by_its_own_sentence() -> None:
    sentences = explain.SENTENCES | features.SENTENCES | cross_encoder.SENTENCES
    told = (REPOSITORY / "docs" / "filters.md").read_text("utf-8").partition("## What a score is made of")[2]

    assert dict(re.findall(r"^\| `(\w+)` \| (.+) \|$", told.partition("\n## ")[0], re.MULTILINE)) == sentences
    assert len(set(sentences.values())) == len(sentences)


def test_the_decisions_are_numbered_without_a_gap() -> None:
    pages = sorted((REPOSITORY / "docs" / "decisions").glob("*.md"))

    assert [int(page.name[:4]) for page in pages] == list(range(1, len(pages) + 1))
    for page in pages:
        text = page.read_text("utf-8")
        assert text.startswith(f"# {int(page.name[:4])}. ")
        headings = re.findall(r"^## (.+)$", text, re.MULTILINE)
        assert headings == ["Context", "Choice", "Consequences", "Measured"]


def test_make_help_explains_every_target() -> None:
    makefile = (REPOSITORY / "Makefile").read_text("utf-8")
    phony = set(re.search(r"^\.PHONY: (.+)$", makefile, re.MULTILINE)[1].split())  # type: ignore[index]
    said = subprocess.run(["make", "-s", "help"], cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout

    assert {line.split()[0] for line in said.splitlines()} == phony
