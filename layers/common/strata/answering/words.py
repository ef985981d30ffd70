"""The words that carry a question's or a claim's meaning, and how far a text holds them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cache

from strata.retrieval.analyser import analyse

_TOKEN = re.compile(r"\w+(?:(?:::|[./@'’-])\w+)*", re.UNICODE)
_IDENTIFIER = re.compile(r"_|[a-zа-яё0-9][A-ZА-ЯЁ]|::|\w\.[A-Za-z_]|/")
_RELATED = 0.7
"""How much a word counts that shares its stem's beginning: `индексация` and `индексирует`."""

_FUNCTION_WORDS = """
a an the this that these those it its is are was were be been being am do does did done doing have has had having
i you he she we they me my your his her our their them us what which who whom whose when where why how whether
and or but if then else so because as than of in on at by for with about into onto from to up down out over under
between after before during through per via can could may might must shall should will would not no nor only own
same such too very just also there here any all each every both few more most other some one ones once
explain tell show describe give say please list find mean means happen happens called exactly actually there's
don't doesn't isn't can't
что это как какой какая какое какие каков какова каковы который которая которые кто где когда куда откуда почему
зачем сколько чем чего чему ли же бы не ни и или но а если то так такое такой такая также тоже в во на с со к ко
о об обо от до из изо у за над под при про без для по через между после перед он она оно они мы вы я ты его её ее их
наш ваш мой твой свой этот эта эти тот та те все всё весь вся каждый есть быть был была было были будет будут
является являются можно нужно надо должен должна должны может могут расскажи расскажите покажи покажите объясни
объясните опиши опишите дай дайте скажи скажите пожалуйста называется означает значит происходит
"""

_WEAK_WORDS = """
use uses used using define defined implement implemented located declared built
make makes made get gets got set work works working way ways thing things kind type
need needs want like know go goes come new good best many much take help project
определен определена реализован реализована находится
использовать использует работает работать делать делает сделать способ вещь вид тип новый лучший проект
"""


@cache
def _function_terms() -> frozenset[str]:
    return frozenset(analyse(_FUNCTION_WORDS))


@cache
def _weak_terms() -> frozenset[str]:
    return frozenset(analyse(_WEAK_WORDS))


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """A content word with its analysed terms, the whole one first; `weight` says how much its absence matters."""

    text: str
    terms: tuple[str, ...]
    weight: float

    is_identifier: bool = False
    """Written as code or with a digit: it must be found letter for letter."""
    is_name: bool = False
    """In capitals, though not at the beginning of a sentence."""


def content_words(text: str) -> tuple[Word, ...]:
    """The distinct content words in order; function words and question words are left out.

    >>> [(word.text, word.weight) for word in content_words("How does BlobStore use the lease?")]
    [('BlobStore', 1.5), ('use', 0.4), ('lease', 1.0)]
    """
    found: dict[str, Word] = {}
    for match in _TOKEN.finditer(text):
        token = match.group()
        terms = tuple(dict.fromkeys(analyse(token)))
        if not terms or terms[0] in found:
            continue
        if terms[0] in _function_terms() and not _IDENTIFIER.search(token):
            continue
        before = text[: match.start()].rstrip()
        is_identifier = bool(_IDENTIFIER.search(token)) or any(character.isdigit() for character in token)
        is_name = not is_identifier and token[0].isupper() and bool(before) and before[-1] not in ".!?:…\n"
        weight = 1.5 if is_identifier or is_name else 0.4 if terms[0] in _weak_terms() else 1.0
        found[terms[0]] = Word(text=token, terms=terms, weight=weight, is_identifier=is_identifier, is_name=is_name)
    return tuple(found.values())


def holds(word: Word, terms: Collection[str], related: Mapping[str, frozenset[str]] | None = None) -> float:
    """How far `terms` hold the word: 1 whole, less for a related form or for some parts of a compound, 0 not at all.

    `related` maps each term of the word to the terms that share its stem's beginning (see `related_terms`); without
    it they are looked for among `terms`.

    >>> [holds(content_words("BlobStore")[0], terms) for terms in ({"blobstor"}, {"blob"}, {"lease"})]
    [1.0, 0.4, 0.0]
    """
    whole, *parts = word.terms
    if whole in terms:
        return 1.0
    strength = 0.0
    if parts:
        strength = 0.8 * sum(_single(part, terms, related) for part in parts) / len(parts)
    return max(strength, _RELATED if not parts and _single(whole, terms, related) else 0.0)


def _single(term: str, terms: Collection[str], related: Mapping[str, frozenset[str]] | None) -> float:
    if term in terms:
        return 1.0
    if related is not None:
        return _RELATED if not related.get(term, frozenset()).isdisjoint(terms) else 0.0
    return _RELATED if any(are_related(term, other) for other in terms) else 0.0


def are_related(one: str, other: str) -> bool:
    """Whether two stems are forms of one word by their common beginning: at least five letters, most of both.

    >>> are_related("индексац", "индексир"), are_related("commit", "common")
    (True, False)
    """
    if one[:5] != other[:5] or len(one) < 5 or len(other) < 5 or not (one.isalpha() and other.isalpha()):
        return False
    shared = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        shared += 1
    return shared >= 0.7 * max(len(one), len(other))


def related_terms(words: Iterable[Word], vocabulary: Collection[str]) -> dict[str, frozenset[str]]:
    """For each term of the words, the related terms of the vocabulary: one pass for many texts."""
    wanted = {term for word in words for term in word.terms}
    by_beginning: dict[str, list[str]] = {}
    for term in vocabulary:
        by_beginning.setdefault(term[:5], []).append(term)
    return {
        term: frozenset(other for other in by_beginning.get(term[:5], ()) if other != term and are_related(term, other))
        for term in wanted
    }


def is_russian(text: str) -> bool:
    """Whether Cyrillic letters are at least as many as Latin ones: the language to answer in.

    >>> is_russian("Что такое lease?"), is_russian("What is a lease?")
    (True, False)
    """
    cyrillic = len(re.findall("[\u0400-\u04ff]", text))
    return cyrillic > 0 and cyrillic >= len(re.findall("[A-Za-z]", text))
