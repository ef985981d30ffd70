"""What a filter means, and which values it takes.

- An empty field restricts nothing, but for layers: a search then covers `DEFAULT_LAYERS`. Fields are joined by AND,
  the values of one field by OR.
- A prefix is a literal beginning of the path: ``_``, ``%`` and ``\\`` mean themselves, case counts, and no border is
  implied: ``src/app`` also covers ``src/application.py``. End it with ``/`` to name a folder. ``./`` in front is
  dropped; an empty prefix, one that begins with ``/`` and one with a ``..`` segment are refused. Prefixes, patterns and
  paths are brought to the form that paths are stored in (Unicode NFC).
- A LIKE pattern must cover the whole path: ``_`` is one character, ``%`` any number of them, ``\\`` takes the meaning
  from the character that follows.
- What is excluded stays out, also where a prefix includes it.
- A path that matches a preference gets ``prefer_bonus`` 1, one that looks like a test gets ``test_penalty`` 1 if
  non-tests are preferred. Where a caller asks for preferences, these two come before the score: first everything
  preferred, in it the non-tests, then by score. They never let in what the other fields keep out.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence

from strata.errors import InvalidPath, InvalidRequest
from strata.model.asking import Filter
from strata.model.corpus import MAX_PATH_CHARACTERS, Layer, checked_path

MAX_FILTER_VALUES = 100
"""Values of one field."""
MAX_EXACT_PATHS = 100

TEST_PATH = (
    r"(^|/)([Tt]ests?|testing|__tests__|specs?)/"
    r"|(^|/)(test_[^/]*|tests?\.[^/.]+|conftest\.py|[^/]*[_.-](test|tests|spec)\.[^/.]+|[^/]*[a-z0-9]Tests?\.[^/.]+)$"
)
"""A path that looks like a test: a pattern that Python and Postgres read alike."""

DEFAULT_LAYERS = (
    Layer.C0_SOURCE_CHUNKS,
    Layer.C1_SYMBOL_CATALOG,
    Layer.D1_DOCUMENT_CATALOG,
    Layer.D3_SECTION_INDEX,
)
"""What a search without a layer filter covers. The other layers say again, piece by piece, what these hold: they are
there for whoever names them, until a measurement shows that they help a search that does not."""

LAYER_RANKS = {
    Layer.C0_SOURCE_CHUNKS: 1,
    Layer.D3_SECTION_INDEX: 1,
    Layer.C1_SYMBOL_CATALOG: 2,
    Layer.D2_FACT_INDEX: 2,
    Layer.D4_POLICY_INDEX: 2,
    Layer.C3_ENTRYPOINTS: 3,
    Layer.D1_DOCUMENT_CATALOG: 3,
    Layer.C2_DEPENDENCY_GRAPH: 4,
    Layer.C4_SEMANTIC_ROLES: 4,
}
"""How near a layer is to the text itself, 1 for nearest: a ranking field of every row."""

_TEST_PATH = re.compile(TEST_PATH)
# Lone surrogates can't be encoded, and Postgres' text can't hold NUL.
_UNSENDABLE = re.compile("[\x00\ud800-\udfff]")


def checked_filter(
    *,
    layers: Sequence[str] = (),
    path_prefixes: Sequence[str] = (),
    exclude_path_prefixes: Sequence[str] = (),
    exclude_like_patterns: Sequence[str] = (),
    prefer_path_prefixes: Sequence[str] = (),
    prefer_like_patterns: Sequence[str] = (),
    prefer_non_tests: bool = False,
) -> Filter:
    """The filter of a request, its values in order and without repetitions.

    Layers are named whole or short ("D3"). Raises `UnknownLayer`, `InvalidPath` for a prefix and `InvalidRequest`
    for a pattern or a number of values that can't be.
    """
    for name, values in (
        ("layers", layers),
        ("path_prefixes", path_prefixes),
        ("exclude_path_prefixes", exclude_path_prefixes),
        ("exclude_like_patterns", exclude_like_patterns),
        ("prefer_path_prefixes", prefer_path_prefixes),
        ("prefer_like_patterns", prefer_like_patterns),
    ):
        if len(values) > MAX_FILTER_VALUES:
            raise InvalidRequest(f"{name} holds {len(values)} values; {MAX_FILTER_VALUES} are possible.")
    return Filter(
        layers=tuple(dict.fromkeys(Layer.named(name) for name in layers)),
        path_prefixes=_distinct(_checked_prefix(prefix) for prefix in path_prefixes),
        exclude_path_prefixes=_distinct(_checked_prefix(prefix) for prefix in exclude_path_prefixes),
        exclude_like_patterns=_distinct(_checked_pattern(pattern) for pattern in exclude_like_patterns),
        prefer_path_prefixes=_distinct(_checked_prefix(prefix) for prefix in prefer_path_prefixes),
        prefer_like_patterns=_distinct(_checked_pattern(pattern) for pattern in prefer_like_patterns),
        prefer_non_tests=prefer_non_tests,
    )


def checked_paths(paths: Sequence[str]) -> tuple[str, ...]:
    """The paths as they are stored, in order, without repetitions and without blank ones.

    Raises `InvalidPath` for one that can't be a file of a project, `InvalidRequest` for more than `MAX_EXACT_PATHS`.
    """
    wanted = _distinct(checked_path(as_stored(path.strip())) for path in paths if path.strip())
    if len(wanted) > MAX_EXACT_PATHS:
        raise InvalidRequest(f"{len(wanted)} paths are asked for; {MAX_EXACT_PATHS} are possible.")
    return wanted


def like_pattern(prefix: str) -> str:
    r"""The LIKE pattern for "begins with exactly this".

    >>> print(like_pattern("100%/nfs_tools"))
    100\%/nfs\_tools%
    """
    return re.sub(r"([\\%_])", r"\\\1", prefix) + "%"


def looks_like_test(path: str) -> bool:
    """Whether the path gets a `test_penalty`.

    >>> [looks_like_test(path) for path in ("tests/a.py", "src/test_a.py", "web/a.spec.ts", "src/latest.py")]
    [True, True, True, False]
    """
    return _TEST_PATH.search(path) is not None


def has_preferences(filter: Filter) -> bool:
    """Whether bonus and penalty come before the score."""
    return bool(filter.prefer_path_prefixes or filter.prefer_like_patterns or filter.prefer_non_tests)


def _checked_prefix(prefix: str) -> str:
    cleaned = as_stored(prefix.removeprefix("./"))
    if not cleaned or cleaned.startswith("/") or ".." in cleaned.split("/") or len(cleaned) > MAX_PATH_CHARACTERS:
        raise InvalidPath(
            f"{prefix[:120]!r} is no path prefix: 1 to {MAX_PATH_CHARACTERS} characters, relative, inside the project."
        )
    if _UNSENDABLE.search(cleaned):
        raise InvalidPath(f"{prefix[:120]!r} holds characters that no path has.")
    return cleaned


def _checked_pattern(pattern: str) -> str:
    if not pattern or len(pattern) > MAX_PATH_CHARACTERS or _UNSENDABLE.search(pattern):
        raise InvalidRequest(f"{pattern[:120]!r} is no LIKE pattern of 1 to {MAX_PATH_CHARACTERS} characters.")
    if (len(pattern) - len(pattern.rstrip("\\"))) % 2:
        raise InvalidRequest(f"The pattern {pattern[:120]!r} ends with a single backslash; write two for a backslash.")
    return as_stored(pattern)


def as_stored(text: str) -> str:
    """With composed characters, as uploads' paths are: macOS gives them decomposed."""
    return unicodedata.normalize("NFC", text)


def _distinct(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(values))
