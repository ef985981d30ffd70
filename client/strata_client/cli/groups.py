"""A command that lists, and has commands under it: `strata jobs`, `strata jobs ID`, `strata jobs cancel ID`."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup


class ListGroup(TyperGroup):
    """Whatever is not the name of a command belongs to the command `list`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args or (args[0] not in self.commands and args[0] != "--help"):
            args = ["list", *args]
        return list(super().parse_args(ctx, args))
