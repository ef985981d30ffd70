from __future__ import annotations

import pytest

from strata.indexing.window_prices import window_prices
from strata.model.corpus import Layer
from tests.support.parsing import chunks_of

JAVA = (
    "class A {\n"
    + "".join(
        f"    int f{number}() {{\n        int x = {number};\n        return x + {number};\n    }}\n"
        for number in range(60)
    )
    + "}\n"
)


def test_the_best_cut_is_behind_a_blank_line_then_behind_a_closing_brace() -> None:
    lines = ["a() {", "  b();", "}", "c();", "", "d();"]
    prices = window_prices(lines)
    assert prices[6] < prices[4] < prices[2]
    assert prices[3] == 0.9


def test_source_of_another_language_is_cut_behind_closing_braces() -> None:
    chunks = chunks_of("A.java", JAVA, Layer.D3_SECTION_INDEX, chunk_tokens=120)
    assert len(chunks) > 5
    assert [chunk.content.rstrip()[-1] for chunk in chunks] == ["}"] * len(chunks)
    assert {chunk.metadata["artifact_type"] for chunk in chunks} == {"java"}


@pytest.mark.parametrize("closing", ["end", "};", "})", "</div>", "fi", "done", "endif;"])
def test_other_closing_marks_count_too(closing: str) -> None:
    prices = window_prices(["x", closing, "y", "z"])
    assert prices[3] < prices[4]
