"""What a question names letter for letter: symbols, paths, codes, and phrases in quotes."""

from __future__ import annotations

import re

from strata.model.asking import Name, Names, Phrase
from strata.retrieval.analyser import analyse

MAX_NAMES = 8
MAX_PHRASES = 3
MAX_PHRASE_CHARACTERS = 200

_QUOTED = re.compile(r"`([^`\n]+)`|\"([^\"\n]+)\"|“([^”\n]+)”|«([^»\n]+)»")
_TOKEN = re.compile(r"\w+(?:(?:::|[./@-])\w+)*", re.UNICODE)
_HUMP = re.compile(r"[a-zа-яё0-9][A-ZА-ЯЁ]|[A-ZА-ЯЁ]{2}[a-zа-яё]")
_DIGIT = re.compile(r"\d")
_LETTER = re.compile(r"[^\W\d_]")


def names_in(text: str) -> Names:
    """The first few names and quoted phrases of a question, each once.

    A name is a word that prose would not spell so: with an underscore, a dot or `::` inside, a path, with humps
    (`BlobStore`), or with letters and digits (`ORA-00942`, `E1101`, a UUID). One word in quotes is a name too.

    >>> found = names_in('why does BlobStore.put_all raise "no such bucket" (ORA-00942) in src/app.py? e.g. read-only')
    >>> [name.text for name in found.names], [phrase.text for phrase in found.phrases]
    (['BlobStore.put_all', 'ORA-00942', 'src/app.py'], ['no such bucket'])
    """
    names: dict[str, Name] = {}
    phrases: dict[str, Phrase] = {}
    for match in _QUOTED.finditer(text):
        quoted = " ".join(next(filter(None, match.groups())).split())
        terms = tuple(dict.fromkeys(analyse(quoted)))
        if not terms or len(quoted) > MAX_PHRASE_CHARACTERS:
            continue
        if " " in quoted:
            phrases.setdefault(quoted.lower(), Phrase(text=quoted, terms=terms))
        else:
            _add(quoted.strip("()[]{}.,;:!?"), names)
    for word in dict.fromkeys(_TOKEN.findall(_QUOTED.sub(_without_phrases, text))):
        if not (word.isalpha() and word[1:].islower()) and _is_name(word):
            _add(word, names)
    return Names(names=tuple(names.values())[:MAX_NAMES], phrases=tuple(phrases.values())[:MAX_PHRASES])


def _without_phrases(match: re.Match[str]) -> str:
    """Names inside a phrase are found too, but a quoted name once only."""
    return f" {next(filter(None, match.groups()))} "


def _add(word: str, names: dict[str, Name]) -> None:
    terms = analyse(word)
    if terms and len(word) > 1:
        names.setdefault(word.lower(), Name(text=word, term=terms[0]))


def _is_name(word: str) -> bool:
    if not _LETTER.search(word):
        return bool(re.fullmatch(r"\d+(?:\.\d+){1,}", word))  # a version, never a plain number
    parts = re.split(r"::|[./@-]", word)
    if "::" in word or any("_" in part.strip("_") for part in parts):
        return True
    if any(_HUMP.search(part) for part in parts):
        return True
    if "." in word and all(len(part) > 1 for part in word.split(".")):
        return True
    if word.count("/") > 1:
        return True
    return bool(_DIGIT.search(word)) and len(word) > 3
