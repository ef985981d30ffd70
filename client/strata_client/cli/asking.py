"""The commands that read an index: `strata ask`, `strata search`, `strata links` and `strata drift`."""

from __future__ import annotations

from typing import Annotated

import typer

from strata_client.cli.answers import place, show_answer
from strata_client.cli.connecting import connect
from strata_client.cli.explaining import show_explanations
from strata_client.cli.filters import with_filters
from strata_client.cli.options import Api, AsJson, Session, Token
from strata_client.cli.screen import Screen
from strata_client.wire import LinkView, RetrieveOptions, SearchOptions


@with_filters
def ask(
    *,
    question: Annotated[str, typer.Argument(help="A question about the project.")],
    session: Session,
    filters: SearchOptions,
    as_json: AsJson = False,
    api: Api = None,
    token: Token = None,
) -> None:
    """Ask a question and read the answer as it is written, with its sources.

    Example: strata ask "Where is the retry delay set?" --session shop --path src/
    """
    screen = Screen(as_json=as_json)
    with connect(api, token) as client:
        answer, _ = show_answer(screen, session, client.ask(session, question, **filters))
        if as_json:
            screen.result(answer)


@with_filters
def search(
    *,
    query: Annotated[str, typer.Argument(help="Words, a name, or a question.")],
    session: Session,
    filters: SearchOptions,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=50, help="How many rows at most.")] = 10,
    explain: Annotated[bool, typer.Option("--explain", help="Show what each row's score is made of.")] = False,
    as_json: AsJson = False,
    api: Api = None,
    token: Token = None,
) -> None:
    """Show the ranked pieces of the project that a question would be answered from.

    Example: strata search "retry delay" --session shop --layers C0,C1 --limit 5
    """
    screen = Screen(as_json=as_json)
    options: RetrieveOptions = {"limit": limit}
    if explain:
        options["explain"] = True
    options.update(filters)  # type: ignore[typeddict-item]
    with connect(api, token) as client:
        found = client.retrieve(session, query, **options)
    if as_json:
        screen.result(found)
        return
    screen.table(
        ("#", "score", "place", "layer", "title"),
        [
            (
                str(n),
                f"{row['score']:.4f}",
                place(row["path"], row["span_start"], row["span_end"]),
                row["layer"][:2],
                row["title"],
            )
            for n, row in enumerate(found["rows"], 1)
        ],
    )
    for note in found.get("notes", []):  # a server of an earlier version sends none
        screen.warn(note)
    if not found["rows"]:
        screen.note("Nothing found.")
    elif explain:
        show_explanations(screen, found["rows"])


def links(
    name: Annotated[str, typer.Argument(help="A file's path, or a symbol's name or the end of it.")],
    session: Session,
    as_json: AsJson = False,
    api: Api = None,
    token: Token = None,
) -> None:
    """Show what a file or a symbol uses, and what uses it.

    Imports, calls and base classes of code, and what documents link and mention, as far as the project defines it.

    Example: strata links OrderService.place --session shop
    """
    screen = Screen(as_json=as_json)
    with connect(api, token) as client:
        found = client.links(session, name)
    if as_json:
        screen.result(found)
        return
    rows = [
        (direction, f"{link['path']}:{link['line']}", link["kind"], link["target"], _end_of(link))
        for direction, links in (("uses", found["uses"]), ("used by", found["used_by"]))
        for link in links
    ]
    screen.table(("", "place", "kind", "name", "leads to"), rows)
    if not rows:
        screen.note(f"Nothing is known to use or to be used by {name!r}.")
    if found["truncated"]:
        screen.note("There is more; these are the first.")


def _end_of(link: LinkView) -> str:
    end = link["leads_to"]
    return "" if end is None else f"{end['path']}:{end['line']}"


def drift(session: Session, as_json: AsJson = False, api: Api = None, token: Token = None) -> None:
    """List files and symbols that the documents name and the project no longer has.

    Each with the path and the line where it is named.

    Example: strata drift --session shop
    """
    screen = Screen(as_json=as_json)
    with connect(api, token) as client:
        found = client.drift(session)
    if as_json:
        screen.result(found)
        return
    screen.table(
        ("place", "kind", "name", "exists up to"),
        [
            (f"{item['path']}:{item['line']}", item["kind"], item["name"], item["known"] or "")
            for item in found["drift"]
        ],
    )
    if not found["drift"]:
        screen.note("No document names something of this project that is not there.")
    if found["truncated"]:
        screen.note("There is more; these are the first.")
