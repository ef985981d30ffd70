"""Which language a question is in, as far as its letters tell: enough to know whether an embedder understands it."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from functools import cache, lru_cache

_LETTER = re.compile(r"[^\W\d_]")
# Linear in the text's length: a question is anybody's.
_TOKEN = re.compile(r"(`[^`\n]{1,200}`|[\w./:]+(?:\(\))?)")
_NAME_MARK = re.compile(r"\w_\w|[a-z0-9][A-Z]|\w[./]\w|\w::\w|\w\(\)$")
_CYRILLIC_ONLY = {"і": "uk", "ї": "uk", "є": "uk", "ґ": "uk", "ў": "be", "ј": "sr", "љ": "sr", "њ": "sr", "ђ": "sr"}
_LATIN_ONLY = {
    "ß": "de", "ä": "de", "ñ": "es", "ã": "pt", "õ": "pt", "ł": "pl", "ż": "pl", "ś": "pl", "ř": "cs", "ě": "cs",
    "ů": "cs", "ğ": "tr", "ı": "tr", "ş": "tr", "å": "sv", "ø": "da", "œ": "fr", "ê": "fr", "ç": "fr", "ű": "hu",
    "ő": "hu", "ț": "ro",
}  # fmt: skip
_WORDS = {
    "de": "der die das und ist nicht wie wird werden ein eine mit auf für von den dem wo warum kann",
    "fr": "le la les des est une comment pourquoi dans pour avec que qui où sur pas sont peut",
    "es": "el los las es una cómo como por qué para con que dónde cuál del se puede",
    "pt": "os uma como por que para com onde qual não são pode está dos das",
    "it": "il gli una come perché per con che dove quale non sono può della nel",
    "pl": "jak jest nie się dla czy gdzie dlaczego który oraz",
    "nl": "het een hoe waarom voor met niet zijn wordt waar welke kan",
}
_WORD_LANGUAGES = {word: language for language, words in _WORDS.items() for word in words.split()}
_ENGLISH_WORDS = "the a an is are of to in how what why where which when does do can for with on not and be"
_ENGLISH = frozenset(_ENGLISH_WORDS.split())
_SCRIPTS = {
    "LATIN": "en", "CYRILLIC": "ru", "GREEK": "el", "HEBREW": "he", "ARABIC": "ar", "DEVANAGARI": "hi", "THAI": "th",
    "HANGUL": "ko", "HIRAGANA": "ja", "KATAKANA": "ja", "CJK": "zh", "GEORGIAN": "ka", "ARMENIAN": "hy",
}  # fmt: skip


def language_shares(text: str) -> dict[str, float]:
    """How the letters of the text are shared among languages, identifiers and code left out; empty without a letter.

    Letters tell the script; within one, particular letters and small words tell the language, and English and Russian
    are assumed where nothing speaks against them. Identifiers are spelt alike in every language and count for none,
    unless there is nothing else.

    >>> language_shares("Как работает SessionLock?"), language_shares("how does the lock work")
    ({'ru': 1.0}, {'en': 1.0})
    """
    pieces, names = _pieces(text)
    prose = "".join([" " if piece in names else piece for piece in pieces])
    if not _LETTER.search(prose):
        prose = text
    if prose.isascii() and _LETTER.search(prose):
        return {_latin_language(prose): 1.0}
    letters: Counter[str] = Counter()
    for letter, count in Counter(prose.lower()).items():
        if _LETTER.match(letter):
            letters[_script(letter)] += count
    if not letters:
        return {}
    if letters["ja"]:  # Japanese writes with Chinese characters too
        letters["ja"] += letters.pop("zh", 0)
    named: Counter[str] = Counter()
    for script, count in letters.items():
        named[
            _latin_language(prose) if script == "en" else _cyrillic_language(prose) if script == "ru" else script
        ] += count
    total = named.total()
    return {language: count / total for language, count in named.items()}


def identifiers(text: str) -> tuple[str, ...]:
    """The names of code in a text, as they are written, each once: snake_case, camelCase, dotted, called or in
    backquotes.

    >>> identifiers("Why does `retry` of SessionLock.acquire() fail?")
    ('retry', 'SessionLock.acquire()')
    """
    return tuple(dict.fromkeys(_pieces(text)[1].values()))


@lru_cache(maxsize=8)  # a question's languages and its identifiers are asked for one after the other
def _pieces(text: str) -> tuple[list[str], dict[str, str]]:
    """The text cut at its tokens, each second piece is one; and of those that are names of code the name."""
    pieces = _TOKEN.split(text)
    return pieces, {token: name for token in dict.fromkeys(pieces[1::2]) if (name := _name(token))}


def _name(token: str) -> str:
    """The token as a name of code, or nothing."""
    if token.startswith("`"):
        return token.strip("` ")
    if token.isalnum() and token[1:].islower():
        return ""
    stripped = token.strip("./:")
    return stripped if _NAME_MARK.search(stripped) and any(map(str.isalnum, stripped)) else ""


def known_share(shares: dict[str, float], languages: frozenset[str]) -> float:
    """How much of a text an embedder understands, 0 to 1; 1 where it declares nothing or the text has no letter."""
    if not languages or not shares:
        return 1.0
    return math.fsum(share for language, share in shares.items() if language in languages)


_ALPHABETS = {
    "\u0370-\u03ff\u1f00-\u1fff": {"el"}, "\u0400-\u052f": {"ru", "uk", "be", "bg", "sr", "mk", "kk"},
    "\u0530-\u058f": {"hy"}, "\u0590-\u05ff": {"he"}, "\u0600-\u06ff": {"ar", "fa", "ur"},
    "\u0900-\u097f": {"hi", "mr", "ne"}, "\u10a0-\u10ff": {"ka"},
}  # fmt: skip
"""Of scripts that write words with letters and spaces between them, and the languages that use them."""


@cache
def foreign_words(languages: frozenset[str]) -> re.Pattern[str] | None:
    """Words in alphabets that none of these languages uses; None where no language is named.

    >>> foreign_words(frozenset({"en"})).findall("run, беги, run")
    ['беги']
    """
    foreign = "".join(letters for letters, users in _ALPHABETS.items() if not users & languages)
    return re.compile(f"[{foreign}]+") if languages and foreign else None


def _script(letter: str) -> str:
    if letter.isascii():
        return "en"
    name = unicodedata.name(letter, "").partition(" ")[0]
    return _SCRIPTS.get(name, name.lower() or "und")


def _cyrillic_language(text: str) -> str:
    marks = Counter(_CYRILLIC_ONLY[letter] for letter in text.lower() if letter in _CYRILLIC_ONLY)
    return marks.most_common(1)[0][0] if marks else "ru"


def _latin_language(text: str) -> str:
    """English unless other languages' letters and small words outnumber English small words."""
    words = re.findall(r"[^\W\d_]+", text.lower())
    votes: Counter[str] = Counter([_WORD_LANGUAGES[word] for word in words if word in _WORD_LANGUAGES])
    if not text.isascii():
        votes.update(_LATIN_ONLY[letter] for letter in text.lower() if letter in _LATIN_ONLY)
    english = sum(map(_ENGLISH.__contains__, words))
    if votes and votes.most_common(1)[0][1] > english:
        return votes.most_common(1)[0][0]
    return "en"
