"""An answer as it streams, against its sources: what is cited exists, and each cited claim is checked in its lines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from strata.answering.citations import CitationParser, Marker
from strata.answering.events import CitationEvent, DeltaEvent
from strata.answering.passages.passage import Passage, PassageKind
from strata.answering.passages.reading import passages
from strata.answering.passages.sentences import sentence_spans
from strata.answering.words import Word, content_words, holds
from strata.model.asking import Answer, Citation, Context, SourcePiece
from strata.model.corpus import Span
from strata.retrieval.analyser import analyse

MIN_CONTENT_COVERAGE = 0.6
"""The share of a claim's content words that its source must hold."""


class Grounder:
    """Takes one answer's deltas, gives the events for the reader, and judges the answer at the end.

    Markers whose number the context lacks are taken out, with the blank before them, and kept in `removed`.
    """

    def __init__(self, context: Context) -> None:
        self._sources = {piece.n: Source(piece) for piece in context.pieces}
        self._parser = CitationParser()
        self._text: list[str] = []
        self._since_marker = ""
        self._claim = ""
        self._citations: list[Citation] = []
        self.removed: list[int] = []

    def feed(self, delta: str) -> Iterator[DeltaEvent | CitationEvent]:
        yield from self._events(self._parser.feed(delta))

    def finish(self) -> Iterator[DeltaEvent | CitationEvent]:
        """What was held back. To be called once, after the last delta."""
        yield from self._events(self._parser.finish())

    @property
    def has_text(self) -> bool:
        """Whether the reader has seen anything of the answer."""
        return any(not part.isspace() for part in self._text)

    def answer(self) -> Answer | None:
        """The answer with its citations; None when nothing in it is supported."""
        if not any(citation.supported for citation in self._citations):
            return None
        return Answer(
            text="".join(self._text),
            citations=tuple(self._citations),
            grounded=all(citation.supported for citation in self._citations),
            abstained=False,
        )

    def _events(self, parts: list[str | Marker]) -> Iterator[DeltaEvent | CitationEvent]:
        for part in parts:
            if isinstance(part, str):
                self._since_marker += part
                self._text.append(part)
                yield DeltaEvent(text=part)
            else:
                yield from self._cite(part)

    def _cite(self, marker: Marker) -> Iterator[DeltaEvent | CitationEvent]:
        if claim := last_claim(self._since_marker):
            self._claim = claim
        self._since_marker = ""
        known = [number for number in dict.fromkeys(marker.numbers) if number in self._sources]
        self.removed.extend(number for number in marker.numbers if number not in self._sources)
        if not known:
            return
        shown = marker.lead + "".join(f"[{number}]" for number in known)
        self._text.append(shown)
        yield DeltaEvent(text=shown)
        for number in known:
            citation = self._sources[number].citation(self._claim)
            if citation not in self._citations:
                self._citations.append(citation)
                yield CitationEvent(citation=citation)


_LIST_MARK = re.compile(r"^[ \t>]*(?:[-*+•]|\d{1,3}[.)])[ \t]+|^[ \t]*#{1,6}[ \t]+", re.MULTILINE)
_FENCED = re.compile(r"(?:^|\n)[ \t>]*(`{3,}|~{3,})[^\n]*\n(.*?)\n[ \t>]*\1[`~]*[ \t]*$", re.DOTALL)


def last_claim(text: str) -> str:
    """The statement that a marker after `text` stands for: the last sentence, list item or fenced block.

    Empty when there is no letter or digit since the marker before: both stand for the same claim.

    >>> last_claim("It is fast. A lease lasts 60 s"), last_claim(". ")
    ('A lease lasts 60 s', '')
    """
    text = text.rstrip()
    if not any(character.isalnum() for character in text):
        return ""
    blocks = list(_FENCED.finditer(text))
    if blocks and blocks[-1].end() == len(text):
        return blocks[-1][2]
    tail = re.split(r"\n[ \t]*\n|\n(?=[ \t]*(?:[-*+•]|\d{1,3}[.)])[ \t])", text)[-1]
    tail = _LIST_MARK.sub("", tail)
    spans = [span for span in sentence_spans(tail) if any(character.isalnum() for character in tail[slice(*span)])]
    return tail[slice(*spans[-1])] if spans else tail.strip()


_INLINE_CODE = re.compile(r"(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.DOTALL)
_COMPOUND = re.compile(r"\w+(?:(?:::|[./@-])\w+)*")
_POSSESSIVE = re.compile(r"['’]s?\b(?!\w)")
_BLANK = r"_ \u00a0\u202f"
_NUMBER = re.compile(
    rf"(?<![\w.,])\d+(?:[.,{_BLANK}]\d+)*(?!\w)|(?<![\w.,])\d+(?:[.,]\d+)*(?=[a-zа-я]{{1,3}}\b|[%°])", re.IGNORECASE
)
_BLANKS = re.compile(f"[{_BLANK}]")
_GROUPED = re.compile(rf"\d{{1,3}}(?:[,{_BLANK}]\d{{3}})+(?:\.\d+)?")
_NUMBER_WORDS = {
    word: str(number)
    for number, words in enumerate(
        (
            ("zero", "ноль"),
            ("one", "один", "одна", "одно"),
            ("two", "два", "две"),
            ("three", "три"),
            ("four", "четыре"),
            ("five", "пять"),
            ("six", "шесть"),
            ("seven", "семь"),
            ("eight", "восемь"),
            ("nine", "девять"),
            ("ten", "десять"),
            ("eleven", "одиннадцать"),
            ("twelve", "двенадцать"),
        )
    )
    for word in words
}


def numbers_in(text: str) -> frozenset[str]:
    """The numbers of a text in one writing: without separators of thousands, with a decimal point.

    >>> sorted(numbers_in("1,000 rows, 10 000 of 2.50, 60s; v1.2 and sha256 are names"))
    ['1000', '10000', '2.5', '60']
    """
    found: set[str] = set()
    for match in _NUMBER.finditer(text):
        number = match.group()
        if _GROUPED.fullmatch(number):
            number = _BLANKS.sub("", number).replace(",", "")
        found.update(_canonical(part.replace(",", ".")) for part in _BLANKS.split(number))
    return frozenset(found)


def _spelled(text: str) -> frozenset[str]:
    return frozenset(_NUMBER_WORDS[word] for word in re.findall(r"\w+", text.lower()) if word in _NUMBER_WORDS)


def _canonical(number: str) -> str:
    if number.isdigit():
        return number.lstrip("0") or "0"
    return number.rstrip("0").rstrip(".") if number.count(".") == 1 else number


@dataclass(frozen=True)
class Source:
    """A source of the context, analysed once for all the claims that cite it."""

    piece: SourcePiece

    @cached_property
    def _passages(self) -> list[tuple[Passage, frozenset[str]]]:
        return [
            (passage, frozenset(analyse(self.piece.text[passage.start : passage.end])))
            for passage in passages(self.piece.path, self.piece.text)
        ]

    @cached_property
    def _terms(self) -> frozenset[str]:
        return frozenset(analyse(f"{self.piece.path}\n{self.piece.title}\n{self.piece.text}"))

    @cached_property
    def _numbers(self) -> frozenset[str]:
        return numbers_in(self.piece.text) | _spelled(self.piece.text)

    def citation(self, claim: str) -> Citation:
        """The claim's citation: its best quote, with the lines in which the quote stands."""
        quote = self.quote(claim)
        text = self.piece.text
        first = self.piece.span.start + text.count("\n", 0, quote.start)
        last = first + text.count("\n", quote.start, quote.end)
        return Citation(
            n=self.piece.n,
            path=self.piece.path,
            span=Span(start=first, end=last),
            quote=text[quote.start : quote.end],
            supported=self.supports(claim),
        )

    def supports(self, claim: str) -> bool:
        """Whether the source holds what the claim says: every number, name and identifier, all code, and most of the
        content words. A claim without a content word says nothing that could be checked, so it is not supported.

        A number may be written as a word; "one" is none, it stands for too much else.
        """
        words = content_words(claim)
        prose = _INLINE_CODE.sub(" ", claim)
        if not words or not numbers_in(prose) | _spelled(prose) - {"0", "1"} <= self._numbers:
            return False
        code = " ".join(match[2] for match in _INLINE_CODE.finditer(claim))
        written = [word.text for word in words if word.is_identifier and not numbers_in(word.text)]
        if not all(self._has_identifiers(text) for text in (code, *written)):
            return False
        strengths = [(word, holds(word, self._terms)) for word in words if not numbers_in(word.text)]
        if any(strength < 0.5 for word, strength in strengths if word.is_name):
            return False
        total = sum(word.weight for word, _ in strengths)
        return sum(word.weight * strength for word, strength in strengths) >= MIN_CONTENT_COVERAGE * total

    def _has_identifiers(self, text: str) -> bool:
        """Whether each identifier in the text is in the source, whole; `A.b` may stand there as `A` and `b`."""
        for compound in _COMPOUND.findall(_POSSESSIVE.sub("", text)):
            if self._terms.issuperset(analyse(compound)[:1]):
                continue
            parts = re.findall(r"\w+", compound)
            if not all(part in self._numbers or self._terms.issuperset(analyse(part)[:1]) for part in parts):
                return False
        return True

    def quote(self, claim: str) -> Passage:
        """The passage nearest to the claim; the first line with text where nothing is near."""
        words = content_words(claim)
        claimed = frozenset(analyse(claim))
        best, best_score = None, 0.0
        for passage, terms in self._passages:
            score = _nearness(words, claimed, terms)
            if passage.kind is PassageKind.HEADING:
                score *= 0.8
            if score > best_score:
                best, best_score = passage, score
        return best or self._first_line()

    def _first_line(self) -> Passage:
        start = len(self.piece.text) - len(self.piece.text.lstrip())
        end = self.piece.text.find("\n", start)
        line = self.piece.text[start : end if end >= 0 else len(self.piece.text)][:400].rstrip()
        return Passage(start=start, end=start + len(line), text=line, kind=PassageKind.CODE)


def _nearness(words: tuple[Word, ...], claimed: frozenset[str], terms: frozenset[str]) -> float:
    """How near a passage is to a claim: the shared terms over all of both, and the share of the content words."""
    if not terms:
        return 0.0
    held = sum(word.weight * holds(word, terms) for word in words)
    wanted = sum(word.weight for word in words) or 1.0
    shared = len(claimed & terms)
    return held / wanted + 2 * shared / (len(claimed) + len(terms))
