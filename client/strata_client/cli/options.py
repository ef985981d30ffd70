"""The options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def as_typed(text: str) -> str:
    """What a person has typed, also where Python takes the terminal for one that knows ASCII only.

    >>> as_typed("да".encode().decode("ascii", "surrogateescape"))
    'да'
    """
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON value on stdout, and nothing else there.")]
Api = Annotated[
    str | None,
    typer.Option(
        "--api",
        metavar="URL",
        envvar="STRATA_API_URL",
        help="The API to talk to; the local cloud if not given.",
        show_default=False,
    ),
]
Token = Annotated[
    str | None,
    typer.Option(
        "--token",
        metavar="TEXT",
        envvar="STRATA_TOKEN",
        help="The bearer token; the local cloud needs none.",
        show_default=False,
    ),
]
Session = Annotated[
    str, typer.Option("--session", "-s", metavar="NAME", envvar="STRATA_SESSION", help="The session's name.")
]
AnySession = Annotated[
    str | None,
    typer.Option("--session", "-s", metavar="NAME", help="Only this session.", show_default=False),
]
Data = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="DIR",
        help="The local cloud's data; `.strata` in the project if not given.",
        show_default=False,
    ),
]
Port = Annotated[int, typer.Option("--port", min=0, max=65_535, help="The local API's port; 0 takes a free one.")]
