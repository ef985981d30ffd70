"""YAML with CloudFormation's tags."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from strata_local.errors import UnsupportedTemplate


class _Loader(yaml.SafeLoader):
    """Reads `!Sub x` as `{"Fn::Sub": x}`, as CloudFormation does."""


def _intrinsic(loader: _Loader, suffix: str, node: yaml.Node) -> dict[str, Any]:
    name = suffix if suffix in ("Ref", "Condition") else f"Fn::{suffix}"
    value: Any
    if isinstance(node, yaml.ScalarNode):
        value = loader.construct_scalar(node)
        if name == "Fn::GetAtt":
            value = str(value).split(".", 1)
    elif isinstance(node, yaml.SequenceNode):
        value = loader.construct_sequence(node, deep=True)
    else:
        value = loader.construct_mapping(node, deep=True)  # type: ignore[arg-type]
    return {name: value}


_Loader.add_multi_constructor("!", _intrinsic)


def read_template(path: Path) -> Mapping[str, Any]:
    """The template as plain values; raises `UnsupportedTemplate` for a file that is none."""
    # The loader is a SafeLoader: it builds nothing but plain values.
    content = yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)  # noqa: S506
    if not isinstance(content, Mapping):
        raise UnsupportedTemplate(f"{path.name} is no CloudFormation template.")
    return content
