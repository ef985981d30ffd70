"""`strata bench`: hands over to the benchmarks, which are part of the project and not of the client."""

from __future__ import annotations

import importlib.util

import typer

from strata_client.errors import ClientError

PASSED_ON = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}


def bench(context: typer.Context) -> None:
    """Measure speed: `strata bench query --data DIR`; `strata bench --help` lists the rest."""
    if importlib.util.find_spec("strata_bench") is None:
        raise ClientError("The benchmarks are not installed here; in the project's folder, `make bench` runs them.")
    from strata_bench.__main__ import main

    raise typer.Exit(main(context.args))
