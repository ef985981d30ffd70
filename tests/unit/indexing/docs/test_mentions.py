from __future__ import annotations

import pytest

from strata.indexing.docs.mentions import MOST_MENTIONS, mentioned
from strata.model.corpus import LinkKind
from tests.support.parsing import parsed


def links(content: str, path: str = "docs/guide.md") -> list[tuple[str, str, int]]:
    return [
        (link.kind.value, link.target, link.line)
        for link in parsed(path, content).links
        if link.kind is not LinkKind.DEFINES
    ]


def test_code_marks_and_links_are_taken_where_they_stand() -> None:
    found = links(
        "# The `shop.run` command\n\nSee `src/app.py:12`\nand [the guide](setup.md#install), `Order`.\n\n"
        "- `OrderService`\n\n| a | b |\n|---|---|\n| `build_index` | `x` |\n\n```\n`in_a_fence`\n```\n"
    )
    assert found == [
        ("mentions", "shop.run", 1),
        ("mentions", "src/app.py", 3),
        ("documents", "/docs/setup.md", 4),
        ("mentions", "OrderService", 6),
        ("mentions", "build_index", 10),
    ]


def test_related_files_and_symbols_of_the_frontmatter_are_links() -> None:
    code = "title: How to run src/app.py\nrelated_code:\n  - src/app.py\n  - shop.Order\n  - run\n"
    found = links(f"---\n{code}related_docs: ./setup.md\n---\n# A\n\nx\n")
    assert found == [
        ("documents", "/docs/setup.md", 7),
        ("documents", "src/app.py", 4),
        ("documents", "shop.Order", 5),
        ("documents", "run", 6),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "true", "pip install x", "--flag", "/etc/passwd", "~/x.md", "https://example.com/a.md", "a.b.c/", "*.py",
        "src/{name}.py", "<path>.md", "1.5", "x", "a = b", "", "example.com/x", "image.png", "../../../x.md", "v1.2.3",
    ],
)  # fmt: skip
def test_what_names_nothing_in_a_project_is_no_mention(text: str) -> None:
    assert mentioned("docs/guide.md", text) is None


@pytest.mark.parametrize("target", ["https://x.org/a.md", "#here", "/a.md", "a.png", "mailto:a@b.md", "../../a.md"])
def test_a_link_out_of_the_project_is_none(target: str) -> None:
    assert links(f"# A\n\n[x]({target})\n") == []


def test_roles_and_literals_of_restructured_text_are_mentions() -> None:
    found = links(
        "A b\n===\n\nSee :func:`shop.run`, :class:`~shop.Order`, ``src/app.py`` and `OrderService`.\n", "a.rst"
    )
    assert [target for _, target, _ in found] == ["shop.run", "shop.Order", "src/app.py", "OrderService"]


def test_mentions_are_counted_once_and_capped() -> None:
    content = "# A\n\n" + "".join(f"`a.b{number % 1500}`\n" for number in range(3000))
    assert len(links(content)) == MOST_MENTIONS


def test_a_python_file_defines_names_and_links_to_others() -> None:
    found = parsed(
        "shop/__init__.py",
        "from .orders import Order as O\nimport os\nLIMIT: int = 3\nclass A(O):\n    def m(self):\n        self.m()\n",
    ).links
    assert [(link.kind.value, link.symbol, link.target, link.line) for link in found] == [
        ("defines", "", "shop/__init__.py", 1),
        ("defines", "", "shop", 1),
        ("defines", "shop", "shop.A", 4),
        ("defines", "shop", "shop.A.m", 5),
        ("defines", "shop", "shop.LIMIT", 3),
        ("defines", "shop", "shop.O", 1),
        ("imports", "shop.O", "shop.orders.Order", 1),
        ("inherits", "shop.A", "shop.orders.Order", 4),
        ("calls", "shop.A.m", "shop.A.m", 6),
    ]
