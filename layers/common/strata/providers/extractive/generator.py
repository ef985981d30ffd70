"""The embedded generator: answers with sentences and lines of the sources, each cited; no model, no network."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from strata.answering.passages.passage import Passage, PassageKind
from strata.answering.passages.reading import passages
from strata.answering.words import Word, content_words, holds, related_terms
from strata.model.asking import Context, SourcePiece
from strata.retrieval.analyser import analyse

MAX_STATEMENTS = 5
MAX_QUESTION_WORDS = 48
"""A pasted report is longer than a question; its first words say what it is about."""

_LEAST_REPEATED_WORDS = 4
_HEADING_SHARE = 0.5
_NEIGHBOUR_SHARE = 0.3
_DIVERSITY = 0.3
_FURTHER_SHARE = 0.55
_SECOND_SOURCE_SHARE = 0.35
_WORDS_PER_DELTA = 6

_EVIDENCE_STATEMENT, _EVIDENCE_SOURCE, _EVIDENCE_SOURCES, _EVIDENCE_LOG_WORDS = 8.1, 7.4, 8.1, 2.9
_EVIDENCE_NEEDED = 18.6

_KIND_PRIOR = {
    PassageKind.PROSE: 0.06,
    PassageKind.ITEM: 0.05,
    PassageKind.DOCUMENTATION: 0.06,
    PassageKind.ROW: 0.02,
    PassageKind.SIGNATURE: -0.08,
    PassageKind.ASSIGNMENT: -0.12,
    PassageKind.CODE: -0.35,
}
_RANK_PRIOR = 0.12
_TEST_PATH = re.compile(
    r"(?:^|/)(?:tests?|testing|spec|fixtures?|examples?)(?:/|$)|(?:^|/)test_|_test\.", re.IGNORECASE
)
_WANTS_NUMBER = re.compile(
    r"\b(?:how (?:many|much|long|large|big|often|fast|old)|limit|maximum|сколько|лимит|размер)\b", re.I
)
_WANTS_DATE = re.compile(r"\b(?:when|what year|which year|когда|в каком году|какого числа)\b", re.I)
_WANTS_DEFINITION = re.compile(r"^\s*(?:what (?:is|are|does)|define|что (?:такое|делает|значит)|кто так)\b", re.I)


@dataclass(frozen=True, slots=True)
class _Statement:
    """A passage that may be said: how much of the question it covers, how well it fits, and its terms."""

    piece: SourcePiece
    passage: Passage
    order: int
    coverage: float
    score: float
    terms: frozenset[str]


class ExtractiveGenerator:
    """Picks the passages that answer the question, best first, and says them letter for letter, each with its number.

    It says nothing when the sources do not hold what the question asks for: see `_is_answered`.
    """

    model_id = "extractive-1"

    def generate(self, context: Context) -> Iterator[str]:
        words = _askable(content_words(context.question.text)[:MAX_QUESTION_WORDS], context.pieces)
        if not words:
            return
        statements = _statements(context.question.text, words, context.pieces)
        chosen = _choose(statements, words, context.pieces)
        for position, statement in enumerate(chosen):
            lead = "" if position == 0 else "\n\n- " if position == 1 else "\n- "
            yield from _deltas(f"{lead}{_shown(statement)} [{statement.piece.n}]")


_SCRIPTS = (re.compile("[A-Za-z]"), re.compile("[\u0400-\u04ff]"))


def _askable(words: Sequence[Word], pieces: Sequence[SourcePiece]) -> Sequence[Word]:
    """The words that these sources could hold: words in a script that none of them is written in say nothing about
    what they know. A Russian question about `BlobStore` can be answered from English sources.
    """
    written = [script for script in _SCRIPTS if any(script.search(piece.text) for piece in pieces)]
    return [word for word in words if word.text[0].isdigit() or any(script.search(word.text) for script in written)]


def _statements(question: str, words: Sequence[Word], pieces: Sequence[SourcePiece]) -> list[_Statement]:
    """Every passage that holds something of the question, scored."""
    read = [(piece, passages(piece.path, piece.text)) for piece in pieces]
    own_terms = [[frozenset(analyse(_named(passage))) for passage in found] for _, found in read]
    vocabulary = {term for sets in own_terms for terms in sets for term in terms}
    vocabulary.update(term for piece in pieces for term in analyse(f"{piece.path} {piece.title}"))
    related = related_terms(words, vocabulary)
    wanted = sum(word.weight for word in words)
    statements = []
    for (piece, found), sets in zip(read, own_terms, strict=True):
        about = frozenset(analyse(f"{piece.path} {piece.title}"))
        before = [0.0] * len(words)
        for order, (passage, terms) in enumerate(zip(found, sets, strict=True)):
            own = [holds(word, terms, related) for word in words]
            around = about | frozenset(analyse(passage.heading))
            headed = [_HEADING_SHARE * holds(word, around, related) for word in words]
            strengths = [
                max(one, two, _NEIGHBOUR_SHARE * three) for one, two, three in zip(own, headed, before, strict=True)
            ]
            before = own
            if not _may_be_said(question, piece, passage, words, own):
                continue
            coverage = sum(word.weight * strength for word, strength in zip(words, strengths, strict=True)) / wanted
            score = coverage + _prior(question, words, piece, passage, terms)
            statements.append(
                _Statement(piece=piece, passage=passage, order=order, coverage=coverage, score=score, terms=terms)
            )
    return statements


def _may_be_said(
    question: str, piece: SourcePiece, passage: Passage, words: Sequence[Word], own: Sequence[float]
) -> bool:
    """Whether a passage holds something of the question. Code must hold an identifier of it, or a definition at least
    half of its words: a common word in code says nothing, and in a test's code least of all."""
    if passage.kind is PassageKind.HEADING or not any(own) or _repeats(question, passage.text):
        return False
    if not passage.kind.is_code or any(word.is_identifier and one == 1 for word, one in zip(words, own, strict=True)):
        return True
    if passage.kind is PassageKind.CODE or _TEST_PATH.search(piece.path):
        return False
    return 2 * sum(word.weight * one for word, one in zip(words, own, strict=True)) >= sum(w.weight for w in words)


def _repeats(question: str, passage: str) -> bool:
    """Whether the passage quotes the question, word for word: a test, a sample or a list of questions is no answer."""
    asked, said = (" ".join(re.findall(r"\w+", text.casefold())) for text in (question, passage))
    return asked.count(" ") >= _LEAST_REPEATED_WORDS - 1 and f" {asked} " in f" {said} "


_DEFINED = re.compile(r"\b(?:def|class)\s+(\w+)")


def _named(passage: Passage) -> str:
    """The passage's text, under its qualified name where it defines something."""
    defined = _DEFINED.search(passage.text) if passage.kind is PassageKind.SIGNATURE else None
    return f"{passage.heading}.{defined[1]} {passage.text}" if defined and passage.heading else passage.text


def _prior(question: str, words: Sequence[Word], piece: SourcePiece, passage: Passage, terms: frozenset[str]) -> float:
    """What speaks for a passage besides the words that it shares with the question."""
    prior = _KIND_PRIOR[passage.kind] + _RANK_PRIOR / piece.n
    if _TEST_PATH.search(piece.path):
        prior -= 0.2
    if len(terms) < 4:
        prior -= 0.15
    if passage.text.endswith((":", "?")):
        prior -= 0.1
    if _WANTS_NUMBER.search(question) and any(character.isdigit() for character in passage.text):
        prior += 0.1
    if _WANTS_DATE.search(question) and re.search(r"\b[12]\d{3}\b", passage.text):
        prior += 0.1
    if words and _WANTS_DEFINITION.match(question):
        first = frozenset(analyse(" ".join(passage.text.split()[:4])))
        named = (
            frozenset(analyse(passage.heading.rpartition(".")[2]))
            if passage.kind is PassageKind.DOCUMENTATION
            else first
        )
        if holds(words[0], first) or holds(words[0], named):
            prior += 0.12
    return prior


def _is_answered(best: _Statement, words: Sequence[Word], pieces: Sequence[SourcePiece]) -> bool:
    """Whether the sources hold what the question asks for: the best statement, its source, and all sources together.

    A logistic rule over how much of the question's words each of them holds; the more words, the smaller a share will
    do. Fitted on questions asked of the corpus that they belong to and of others (XQuAD in both languages, code and
    documentation sets). On another draw from the same sets it answered 81 to 97 % of the first kind, by set, and 0 to
    12 % of the second.
    """
    wanted = sum(word.weight for word in words)

    def share(of: Sequence[SourcePiece]) -> float:
        terms = frozenset(term for piece in of for term in analyse(f"{piece.path} {piece.title} {piece.text}"))
        return sum(word.weight * holds(word, terms) for word in words) / wanted

    evidence = (
        _EVIDENCE_STATEMENT * best.coverage
        + _EVIDENCE_SOURCE * share([best.piece])
        + _EVIDENCE_SOURCES * share(pieces)
        + _EVIDENCE_LOG_WORDS * math.log(len(words))
    )
    return evidence >= _EVIDENCE_NEEDED


def _choose(statements: list[_Statement], words: Sequence[Word], pieces: Sequence[SourcePiece]) -> list[_Statement]:
    """The statements to say, best first: near to the question, not twice the same, from several sources."""
    if not statements:
        return []
    rest = sorted(statements, key=lambda statement: (-statement.score, statement.piece.n, statement.order))
    if not _is_answered(rest[0], words, pieces):
        return []
    lead = next(
        (other for other in rest if not other.passage.kind.is_code and other.score >= 0.8 * rest[0].score), rest[0]
    )
    rest.remove(lead)
    chosen = [lead]
    while rest and len(chosen) < MAX_STATEMENTS:
        best = max(rest, key=lambda statement: _marginal(statement, chosen))
        alone = len({statement.piece.n for statement in chosen}) == 1
        share = _SECOND_SOURCE_SHARE if alone and best.piece.n != lead.piece.n else _FURTHER_SHARE
        if _marginal(best, chosen) < share * lead.score:
            break
        rest.remove(best)
        chosen.append(best)
    return chosen


def _marginal(statement: _Statement, chosen: Sequence[_Statement]) -> float:
    """The score less what the chosen statements say already."""
    alike = max(len(statement.terms & other.terms) / len(statement.terms | other.terms) for other in chosen)
    crowded = sum(other.piece.n == statement.piece.n for other in chosen)
    return statement.score - _DIVERSITY * alike - 0.03 * crowded - (1.0 if alike > 0.8 else 0.0)


_MAX_SHOWN_CODE = 140
_INLINE_CODE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)")
_LINK = re.compile(r"!?\[([^\[\]]+)\]\([^()\s]*(?:\s+\"[^\"]*\")?\)?")
_MARKER_LIKE = re.compile(r"\[(?=\[? ?\d)|【(?= ?\d)")


def _shown(statement: _Statement) -> str:
    """The passage as it stands in an answer: code in backticks, links by their words, and nothing that would read as a
    citation."""
    passage = statement.passage
    if passage.kind.is_code:
        return _as_code(_shortened(passage.text))
    shown = _LINK.sub(r"\1", passage.text)
    parts = []
    position = 0
    for code in _INLINE_CODE.finditer(shown):
        parts += [_MARKER_LIKE.sub(r"\\\g<0>", shown[position : code.start()]), code.group()]
        position = code.end()
    parts.append(_MARKER_LIKE.sub(r"\\\g<0>", shown[position:]))
    text = "".join(parts)
    if passage.kind is PassageKind.DOCUMENTATION and passage.heading:
        return f"{_as_code(passage.heading)}: {text}"
    return text


def _shortened(code: str) -> str:
    """A long signature without its parameters."""
    opened = code.find("(")
    return code if len(code) <= _MAX_SHOWN_CODE or opened < 0 else f"{code[:opened]}(…)"


def _as_code(text: str) -> str:
    ticks = "`" * (max((len(run) for run in re.findall("`+", text)), default=0) + 1)
    blank = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{ticks}{blank}{text}{blank}{ticks}"


def _deltas(text: str) -> Iterator[str]:
    """Groups of a few words with the blanks between them; joined they are the text."""
    yield from re.findall(rf"\s*(?:\S+\s*){{1,{_WORDS_PER_DELTA}}}", text)
