"""The local cloud's commands, where none runs."""

from __future__ import annotations

from pathlib import Path

from tests.support.command_line import Run


def test_a_development_token_is_one_that_the_local_cloud_takes(run: Run, tmp_path: Path) -> None:
    from strata_local.tokens import claims_of, load_secret

    arguments = ["token", "--user", "ann", "--group", "writers", "--group", "admins", "--data", str(tmp_path)]
    plain, as_json = run(*arguments), run(*arguments, "--json")

    for signed in (plain.out.strip(), as_json.json["token"]):
        assert claims_of(f"Bearer {signed}", load_secret(tmp_path)) == {
            "sub": "ann",
            "tenant": "local",
            "groups": "writers,admins",
            "scopes": "internal",
        }


def test_down_without_a_cloud_is_no_error(run: Run, tmp_path: Path) -> None:
    assert run("down", "--data", str(tmp_path)).out == "Nothing was running.\n"
    assert run("down", "--data", str(tmp_path), "--json").json["stopped"] is False


def test_down_wipes_only_its_own_data(run: Run, tmp_path: Path) -> None:
    (tmp_path / "thesis.md").write_text("years of work")

    outcome = run("down", "--wipe", "--data", str(tmp_path))

    assert outcome.status == 1
    assert (tmp_path / "thesis.md").exists()
