"""What a search may find and what it prefers, as options: one definition for every command that takes them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any

import typer

from strata_client.cli.options import as_typed
from strata_client.wire import SearchOptions

PANEL = "What is found, and what comes first"

Texts = list[str] | None


def _repeated(metavar: str, help_text: str) -> Any:
    return typer.Option(
        metavar=metavar, help=f"{help_text}; may be repeated.", show_default=False, rich_help_panel=PANEL
    )


def search_options(
    *,
    layers: Annotated[
        str | None,
        typer.Option(
            metavar="C0,D3,…",
            help="Only these layers of D1 to D4 and C0 to C4; D1, D3, C0 and C1 if not given.",
            show_default=False,
            rich_help_panel=PANEL,
        ),
    ] = None,
    path: Annotated[Texts, _repeated("PREFIX", "Only paths that begin so")] = None,
    exclude: Annotated[Texts, _repeated("PREFIX", "No path that begins so")] = None,
    exclude_like: Annotated[Texts, _repeated("PATTERN", "No path that is like this (% and _)")] = None,
    prefer: Annotated[Texts, _repeated("PREFIX", "Paths that begin so come first")] = None,
    prefer_like: Annotated[Texts, _repeated("PATTERN", "Paths like this come first")] = None,
    prefer_non_tests: Annotated[
        bool, typer.Option("--prefer-non-tests", help="Tests come last.", rich_help_panel=PANEL)
    ] = False,
) -> SearchOptions:
    """What was asked for, and nothing else, by the API's names."""
    options: SearchOptions = {}
    if layers:
        options["layers"] = [layer.strip() for layer in layers.split(",") if layer.strip()]
    if path:
        options["path_prefixes"] = path
    if exclude:
        options["exclude_path_prefixes"] = exclude
    if exclude_like:
        options["exclude_like_patterns"] = exclude_like
    if prefer:
        options["prefer_path_prefixes"] = prefer
    if prefer_like:
        options["prefer_like_patterns"] = prefer_like
    if prefer_non_tests:
        options["prefer_non_tests"] = True
    return options


def _as_typed(value: Any) -> Any:
    if isinstance(value, list):
        return [_as_typed(each) for each in value]
    return as_typed(value) if isinstance(value, str) else value


def with_filters(command: Callable[..., None]) -> Callable[..., None]:
    """The command as Typer shall see it: every option of `search_options` in place of its parameter `filters`."""
    own = inspect.signature(command, eval_str=True)
    options = inspect.signature(search_options, eval_str=True).parameters

    @wraps(command)
    def filtered(**given: Any) -> None:
        given = {name: _as_typed(value) for name, value in given.items()}
        filters = search_options(**{name: given.pop(name) for name in options})
        command(filters=filters, **given)

    parameters = [
        shown
        for parameter in own.parameters.values()
        for shown in (options.values() if parameter.name == "filters" else (parameter,))
    ]
    filtered.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    filtered.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return filtered
