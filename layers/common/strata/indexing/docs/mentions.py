"""What a document leads to: files that it links, and the paths and symbols that it names in code marks.

Only what looks like the name of something in a project: a path with the ending of a text file, a dotted name, a call,
a name in CamelCase or with an underscore. Which of them exist is found when asked.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import unquote

from strata.model.corpus import Link, LinkKind

MOST_MENTIONS = 1_000
"""Distinct ones of one document."""
_MAX_CHARACTERS = 200
_ENDINGS = frozenset((
    "asl", "bash", "bat", "c", "cc", "cfg", "clj", "conf", "cpp", "cs", "css", "csv", "dart", "env", "ex", "exs",
    "go", "gradle", "graphql", "groovy", "h", "hcl", "hpp", "hs", "htm", "html", "ini", "ipynb", "java", "js", "json",
    "jsonl", "jsx", "kt", "lua", "markdown", "md", "mdx", "mjs", "mk", "mo", "php", "pl", "po", "pot", "properties",
    "proto", "ps1", "py", "pyi", "r", "rb", "rest", "rs", "rst", "scala", "scss", "sh", "sql", "svelte", "swift",
    "tf", "toml", "ts", "tsv", "tsx", "txt", "vue", "xml", "yaml", "yml", "zsh",
))  # fmt: skip
_NO_ATTRIBUTES = frozenset((
    "com", "dll", "exe", "gif", "gz", "ico", "jpeg", "jpg", "lock", "log", "net", "org", "pdf", "png", "svg", "tar",
    "tgz", "webp", "whl", "zip",
))  # fmt: skip
"""What follows the last dot of a name that is neither a text file's nor a symbol's."""
_PATH = re.compile(r"^(?P<path>(?:\.{1,2}/)*[\w@+.-]+(?:/[\w@+.-]+)*)(?::\d+(?:[-:]\d+)?)?$")
_NAME = re.compile(r"^(?P<name>[^\W\d]\w*(?:\.[^\W\d]\w*)*)(?P<call>\([^()]*\))?$")
_CAMEL = re.compile(r"^_*[A-Z]\w*[a-z]\w*[A-Z]\w*$|^_*[A-Z][a-z0-9]+[A-Z]\w*$")
_SNAKE = re.compile(r"^_*[A-Za-z0-9]+(?:_[A-Za-z0-9]+)+$")
_CODE = re.compile(r"(?<!`)(`{1,3})(?!`)(.{1,300}?)(?<!`)\1(?!`)")
_LINKED = re.compile(r"\]\(\s*<?([^()\s<>]{1,300})")
_SCHEME = re.compile(r"^[A-Za-z][\w+.-]*:|^//|^#|^mailto")


def mention_links(path: str, texts: Iterable[tuple[str, int]]) -> Iterator[Link]:
    """`texts` are inline markup with the line that each begins in; each target is named once."""
    seen: set[tuple[LinkKind, str]] = set()
    for text, line in texts:
        for kind, target, is_path, place in _found(path, text):
            if (kind, target) in seen:
                continue
            seen.add((kind, target))
            at = line + text.count("\n", 0, place)
            yield Link(kind=kind, symbol="", target=target, line=at, is_path=is_path)
            if len(seen) >= MOST_MENTIONS:
                return


def related_links(path: str, names: Mapping[str, int]) -> Iterator[Link]:
    """What the frontmatter's `related_docs` and `related_code` name, by line: the author says what it is about."""
    for name, line in names.items():
        if found := mentioned(path, name, is_certain=True):
            target, is_path = found
            yield Link(kind=LinkKind.DOCUMENTS, symbol="", target=target, line=line, is_path=is_path)


def mentioned(path: str, text: str, *, is_certain: bool = False) -> tuple[str, bool] | None:
    """The target that a piece of code names, and whether it is a path; None for what looks like neither.

    `is_certain`: it is known to name something, so that a single word will do.

    >>> mentioned("docs/a.md", "src/app.py:12"), mentioned("docs/a.md", "../b.md"), mentioned("a.md", "app.run()")
    (('src/app.py', True), ('/b.md', True), ('app.run', False))
    >>> mentioned("a.md", "pip install x"), mentioned("a.md", "true")
    (None, None)
    """
    text = text.strip()
    if not text or len(text) > _MAX_CHARACTERS:
        return None
    if (found := _PATH.match(text)) and _has_ending(found["path"]):
        named = found["path"]
        if named.startswith("."):
            return (target, True) if (target := _from_root(path, named)) else None
        return named, True
    if named_ := _NAME.match(text):
        name = named_["name"]
        if name.rpartition(".")[2].lower() in _NO_ATTRIBUTES:
            return None
        if "." in name or named_["call"] or is_certain or _CAMEL.match(name) or _SNAKE.match(name):
            return name, False
    return None


def _found(path: str, text: str) -> Iterator[tuple[LinkKind, str, bool, int]]:
    if "`" in text:
        for code in _CODE.finditer(text):
            if found := mentioned(path, code[2]):
                yield LinkKind.MENTIONS, *found, code.start()
    if "](" in text:
        for link in _LINKED.finditer(text):
            target = link[1].partition("#")[0].partition("?")[0]
            if not target or _SCHEME.match(link[1]) or not _has_ending(target):
                continue
            if exact := _from_root(path, unquote(target)):
                yield LinkKind.DOCUMENTS, exact, True, link.start()


def _has_ending(name: str) -> bool:
    base, dot, ending = name.rpartition("/")[2].rpartition(".")
    return bool(dot and base) and ending.lower() in _ENDINGS


def _from_root(path: str, relative: str) -> str | None:
    """A path as seen from the document, with a slash in front; None for one out of the project."""
    if relative.startswith("/"):
        return None  # the root of a site, which need not be the project's
    joined = posixpath.normpath(posixpath.join(posixpath.dirname(path), relative))
    return None if joined.startswith("..") or joined == "." else f"/{joined}"
