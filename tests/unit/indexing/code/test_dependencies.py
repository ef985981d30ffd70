from __future__ import annotations

import pytest

from strata.model.corpus import Chunk, Layer
from tests.support.parsing import chunks_of


def uses(content: str, path: str = "shop/orders.py") -> dict[str, Chunk]:
    return {
        str(chunk.metadata["qualified_name"]): chunk for chunk in chunks_of(path, content, Layer.C2_DEPENDENCY_GRAPH)
    }


SHOP = """from __future__ import annotations

import os.path
from django.db import models as m
from . import prices
from .stock import Stock, reserve as take


class Order(m.Model, Base[int]):
    stock: Stock
    cache: "prices.Cache | None" = None
    total = m.IntegerField()

    def place(self, buyer: prices.Buyer | None):
        self.check()
        self.stock.take(1)
        self.cache.get("x")
        buyer.pay()
        take(self)
        raise ValueError(len(unknown()))

    def check(self):
        import json
        from .audit import log
        log(json.dumps({}))
        return super().check()


def main(take):
    take()
    prices = {}
    prices.get(1)
    os.path.join("a")
"""


def test_a_symbol_names_what_it_uses_as_far_as_its_file_says_it() -> None:
    found = uses(SHOP)
    assert {name: chunk.content.split("\n", 1)[1] for name, chunk in found.items()} == {
        "shop.orders": (
            "imports: __future__.annotations, os.path, django.db.models, shop.prices, shop.stock.Stock, "
            "shop.stock.reserve"
        ),
        "shop.orders.Order": "inherits: django.db.models.Model, Base\ncalls: django.db.models.IntegerField",
        "shop.orders.Order.place": (
            "calls: shop.orders.Order.check, shop.stock.Stock.take, shop.prices.Cache.get, shop.prices.Buyer.pay, "
            "shop.stock.reserve, ValueError, unknown"
        ),
        "shop.orders.Order.check": (
            "imports: json, shop.audit.log\ncalls: shop.audit.log, json.dumps, django.db.models.Model.check"
        ),
        "shop.orders.main": "calls: take, prices.get, os.path.join",
    }


def test_the_lines_are_those_of_the_symbol() -> None:
    found = uses(SHOP)
    assert {name: (chunk.span.start, chunk.span.end) for name, chunk in found.items()} == {
        "shop.orders": (1, 6),
        "shop.orders.Order": (9, 26),
        "shop.orders.Order.place": (14, 20),
        "shop.orders.Order.check": (22, 26),
        "shop.orders.main": (29, 33),
    }


@pytest.mark.parametrize(
    ("path", "statement", "target"),
    [
        pytest.param("a/b/__init__.py", "from .c import d", "a.b.c.d", id="a package looks into itself"),
        pytest.param("a/b/m.py", "from .. import x", "a.x", id="two dots"),
        pytest.param("a/m.py", "from .x import *", "a.x", id="everything"),
        pytest.param("m.py", "from ... import x", None, id="out of the project"),
    ],
)
def test_relative_imports_are_seen_from_the_package(path: str, statement: str, target: str | None) -> None:
    found = uses(f"{statement}\n", path)
    shown = [chunk.content.partition("imports: ")[2] for chunk in found.values()]
    assert shown == ([target] if target else [])


def test_a_symbol_that_uses_nothing_has_no_document() -> None:
    assert uses("X = 1\n\ndef f():\n    return len(str(X))\n") == {}
