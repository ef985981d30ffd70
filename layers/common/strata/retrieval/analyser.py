"""Text → terms, the same for what is indexed and for what is asked.

A token is a run of letters, digits and underscores, with the parts that code joins by ``.``, ``::``, ``-``, ``/``
or ``@``. It gives its whole form and its parts, largest first: ``rag/BlobStore.py`` gives the path, ``blobstore.py``,
``blobstore``, ``blob``, ``store`` and the rest. So an identifier, a version, a UUID or an error code is found letter
for letter, and also by the words in it.

Every term is NFKC, case folded, with ``е`` for ``ё``; words are stemmed (Snowball: Russian where there is a Cyrillic
letter, English where all letters are Latin). Russian stems also lose the suffixes that make a noun, a participle or an
adjective of a verb: a heading says "включение" where the text says "включить". What Snowball leaves apart of one word's
own forms is one stem first: "ошибка" and "ошибок", "имя" and "имени", "требует" and "требовать".

The index keeps every word, so that a name such as ``is_not`` or ``all`` is findable; a question drops the words that
only hold a sentence together, unless it has no others. Measured (mean nDCG@10 of BM25 alone over twelve runs on nine
public sets): stop words nowhere 0.671, dropped from both sides 0.688, from questions only 0.694. In code such words are
rare, so idf alone takes "how" or "does" for a strong sign.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Mapping
from functools import cache, lru_cache
from itertools import chain

import Stemmer

MAX_TERM_CHARACTERS = 128
"""A longer word is cut, a longer compound is not kept whole; at most four bytes a character, so 512 bytes."""

_LONGEST_CACHED_TOKEN = 256
"""Longer tokens (minified code, embedded data) are analysed each time: as cache keys they would fill the memory."""
_MOST_CACHED_TOKENS = 1 << 15
"""Twice as many at most are remembered, up to 45 MB: names and paths of a large project are new in every file."""

# Marks that survive NFKC: stress marks and vowel signs belong to their word. A soft hyphen and the joiners do not
# divide a word either; they are removed before.
_MARKS = "\u0300-\u036f\u0483-\u0487\u0591-\u05c7\u064b-\u065f\u0900-\u0963\u0966-\u0dff\u0e31-\u0e4e"
_RUN = rf"\w[\w{_MARKS}]*+"
_LANGUAGE = r"[CcFf](?:\+\+|\#)(?!\w)"
_TOKEN = re.compile(rf"{_LANGUAGE}|{_RUN}(?:[./@'’-]{_RUN}|::{_RUN})*+")
_ASCII_TOKEN = re.compile(rf"(?=\w)(?:{_LANGUAGE}|\w++(?:[./@'-]\w++|::\w++)*+)", re.ASCII)
"""The same for ASCII, where it is faster."""
_LETTER_OR_DIGIT = re.compile(r"[^\W_]")
_INVISIBLE = re.compile("[\u00ad\u200c\u200d\u2060\ufeff]")
_STRESS = re.compile("(?<=[\u0400-\u04ff])[\u0300\u0301]")

_CLITICS = frozenset({"s", "t", "re", "ll", "ve", "d", "m"})
_VERSION = re.compile(r"v?\d+(?:\.\d+){1,5}", re.IGNORECASE)
_HEX = re.compile(r"0x[0-9a-f]+|(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,}", re.IGNORECASE)

_LEAST_ROOT = 5
"""Letters that a Russian stem keeps, whatever it ends in: shorter ones have too little in common."""
_DERIVED = re.compile(
    f"(.{{{_LEAST_ROOT},}}?)(?:"
    "ирова(?:н|ни)?|ировк|иру(?:ет|ем)?|ац|[оеиы]в(?:а[нт]?|к)|[аеия]|[еа]ни|[еа]н|[еи]т|[ая]т|[еи]м"  # of verbs
    "|[еа]?нн|[аяую]ющ|[уая]щ|вш"  # of participles
    "|тел|ств|ост|ник|[чщ]ик|(?<![аеиоуыэюя])к|ир"  # of nouns
    "|(?:тел)?ьн|ствен|(?:ич)?еск|ск|(?<![аеиоуыэюя])н)"  # of adjectives
)

_OF_TIME = re.compile("(им|врем|плем|знам|плам|брем)(?:я|ен|ени|енем|ена|енам|енами|енах)")
"""Neuter nouns in -мя: Snowball takes "имя" and "имени" for two words, and "имена" for a form of "им"."""
_FORMS = {
    **dict.fromkeys(("день", "дня", "дню", "днем", "дне", "дни", "дней", "дням", "днями", "днях"), "дн"),
    **{f"{stem}ень": f"{stem}н" for stem in ("уров", "переч", "кор", "кам", "рем", "стерж")},
    **{"узел": "узл", "угол": "угл", "чисел": "числ", "писем": "письм", "окон": "окн", "ядер": "ядр"},
}
"""Forms with a vowel that the word's others have not, where no rule tells them from "степень", "модель" or "тон"."""
_OF_NOW = re.compile("(.{3,})у(?:ет|ют|ем|ете|ешь|й|йте)(?:ся|сь)?")
"""Verbs in -овать in the present: what Snowball leaves of "требует", "требуем" and "требовать" are three stems."""
_FLEETING = re.compile(
    "(?!.*(?:поток|исток|восток|игрок|урок)$)(?:(.*[аеиоуыэюя].*[бвгджзклмнпрстфхцчшщ])[ео]([кц])|(.*[аоуы])е(к))"
)
"""Stems whose last vowel, or й, is there in some forms only: "ошибок" and "ошибк", "столбец" and "столбц", "строек"."""
_ENDS_ANEW = re.compile("([а-я]{3,}[бвгджзклмнпрстфхцчшщ])[кц]|([а-я]{3,}[аоуы])йк?|([а-я]{4,})ов")
"""Stems before whose end other forms have another letter."""

_UPPER, _LOWER = "A-ZА-ЯЁ", "a-zа-яё"
_HUMPS = re.compile(
    rf"(?<=[{_LOWER}\d])(?=[{_UPPER}])"  # blob|Sha, sha256|Sum
    rf"|(?<=[{_UPPER}])(?=[{_UPPER}][{_LOWER}])(?!.s(?![{_LOWER}]))"  # HTTP|Server; but not UR|Ls
)
_LETTERS_THEN_DIGITS = re.compile(r"([^\W\d_]{2,})(\d+)")
_CYRILLIC = re.compile("[\u0400-\u04ff]")
_ONE_ALPHABET = re.compile("[a-z\u00df-\u00f6\u00f8-\u024f]+|[\u0400-\u04ff]+")
_SCRIPT_RUNS = re.compile(r"[\u0400-\u04ff\d_]+|(?:[^\W\d_\u0400-\u04ff]|\d|_)+")
_UNSPACED = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]+|[^\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]+")
_IS_UNSPACED = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]")
_LOOKALIKES = str.maketrans("aceopxyABCEHKMOPTXY", "асеорхуАВСЕНКМОРТХУ")


def analyse(text: str) -> list[str]:
    """The terms of a text in order of appearance, with repetitions; of a compound first the whole, then its parts.

    A term holds no blank, at least one letter or digit, at most 128 characters and at most 512 bytes. Punctuation is
    never syntax: text without a letter or digit has no terms.

    >>> analyse("Reset BlobStore.put_all: ORA-00942!")
    ['reset', 'blobstore.put_all', 'blobstor', 'blob', 'store', 'put_all', 'put', 'all', 'ora-00942', 'ora', '00942']
    """
    return list(chain.from_iterable(map(terms_of, tokens(text))))


def tokens(text: str) -> list[str]:
    """The tokens of a text in order of appearance, with repetitions."""
    if text.isascii():
        return _ASCII_TOKEN.findall(text)
    text = unicodedata.normalize("NFKC", _INVISIBLE.sub("", text))
    return _TOKEN.findall(_STRESS.sub("", text))


def terms_of(token: str) -> tuple[str, ...]:
    """The terms of one token."""
    return _terms_by_token[token]


@lru_cache(maxsize=64)  # the search and the reranker ask for the same ones
def question_terms(text: str) -> tuple[str, ...]:
    """What `analyse` gives for a question, which is asked for more than once."""
    return tuple(analyse(text))


@lru_cache(maxsize=64)
def query_terms(text: str) -> tuple[str, ...]:
    """The distinct terms of a question in order of first appearance, without stop words if there are other words.

    >>> query_terms("Какие плагины и сколько плагинов?"), query_terms("what is this")
    (('плагин',), ('what', 'is', 'this'))
    """
    stop_terms = _stop_terms()
    kept = {term: None for term in question_terms(text) if term not in stop_terms or term in _told_apart(text)}
    return tuple(kept) or tuple(dict.fromkeys(question_terms(text)))


@lru_cache(maxsize=64)
def _told_apart(text: str) -> frozenset[str]:
    """Stems of stop words that other Russian words of the text have, too: "меню" that of "меня", "почта" of "почти"."""
    if text.isascii():
        return frozenset()
    others = {token for token in tokens(text) if token.isalpha() and not token.isascii()}
    return frozenset(terms_of(token)[0] for token in others if _folded(token) not in _stop_words() and terms_of(token))


def leading_terms(text: str) -> tuple[str, ...]:
    """The terms of a question's first line, where others follow; none where it has but one.

    >>> leading_terms("Upload fails\\n\\nI sent a file and got a timeout."), leading_terms("Why do uploads fail?")
    (('upload', 'fail'), ())
    """
    first, _, rest = text.strip().partition("\n")
    return query_terms(first) if rest else ()


# Words that hold a sentence together, and the small talk of questions. Words that also name things are left out: "том"
# is a volume, "быть" shares its stem with "быт", "get" is half of what functions do.
_STOP_WORDS = """
a about after again all also am an and any anybody anyone anything are as at be because been before being between both
but by can cannot could did do does doing done during each either else ever every few for from further
had has have having he hello her here hers herself hi him himself his how however i if in into is it its itself
just kindly let may me might mine more most much must my myself neither no nor not of off on once only onto or other
our ours ourselves out over own per please quite rather really same shall she should so some somebody someone
something such tell than thank thanks that the their theirs them themselves then there therefore these they this those
though through thus to too under until up upon us very via want was we were what whatever when whenever where wherever
whether which while who whoever whom whose why will with within without would yes yet you your yours yourself
yourselves
а без более больше будем будет будете будешь будто буду будут бы был была были было в вам вами вас ваш ваша ваше
вашего вашей вашем вашему ваши вашим вашими ваших вашу ведь весь во вот все всё всегда всего всей всем всеми всему
всех всю вся вы где да даже для до его едва её ей если есть еще ещё ею ж же за зачем здесь здравствуйте и из изо или
им именно ими их к каждая каждого каждое каждой каждом каждому каждую каждые каждый каждым каждыми каждых как какая
какие каким какими каких каков какова каково каковы какого какое какой каком какому какую ко когда кого кое которая
которого которое которой котором которому которую которые который которым которыми которых кто куда ли либо лишь лучше
между менее меня мне мной мог могу могут мое моё моём моего моей моему моею может можете можно мои моим моими моих мой
моя мы на над надо нам нами нас наш наша наше нашего нашей нашем нашему наши нашим нашими наших нашу не нём него нее
неё ней нельзя нем нему нет неужели ни нибудь никогда ним ними них ничего но ну нужен нужна нужно нужны о об оба обе
обо однако он она они оно от откуда ото очень перед по под подскажите пожалуйста пока потом потому почему почти при
про с сам сама самая сами само самого самое самой самом самому самую самые самый самым самыми самых свое своё своём
своего своей своему свои своим своими своих свой свою своя себе себя сейчас скажи скажите сколько со собой так такая
также такие таким такими таких такого такое такой таком такую там твой те тебе тебя тем теми тех то тобой тогда того
тоже той только тот ту тут ты у уж уже хотим хотите хоть хотя хотят хочу чего чей чем чему через что чтобы чуть чьи
эта эти этим этими этих это этого этой этом этому этот эту я
"""


@cache
def _stop_words() -> frozenset[str]:
    return frozenset(map(_folded, _STOP_WORDS.split()))


@cache
def _stop_terms() -> frozenset[str]:
    return frozenset(analyse(_STOP_WORDS))


@cache
def _stop_stems() -> frozenset[str]:
    return frozenset(map(_snowball, _stop_words()))


class _TermsByToken(dict[str, tuple[str, ...]]):
    """The terms of the tokens that were met lately; when there are many, those not met any more are forgotten."""

    def __init__(self) -> None:
        super().__init__()
        self._earlier: Mapping[str, tuple[str, ...]] = {}

    def __missing__(self, token: str) -> tuple[str, ...]:
        found = self._earlier.get(token)
        if found is None:
            terms: list[str] = []
            _compound(token, terms)
            found = tuple(terms)
        if len(token) <= _LONGEST_CACHED_TOKEN:
            if len(self) >= _MOST_CACHED_TOKENS:
                self._earlier = self.copy()
                self.clear()
            self[token] = found
        return found


_terms_by_token = _TermsByToken()


def _compound(token: str, terms: list[str]) -> None:
    """Append the terms of a token: the whole, then what its strongest connector joins."""
    if token.isascii() and token.isalpha() and token.islower():
        _word(token, terms)
        return
    if token[-1:].isdigit() and _VERSION.fullmatch(token):
        _version(token, terms)
        return
    for connector in ("/", "@", "::", ".", "-"):
        if connector in token:
            _keep(_folded(token), terms)
            for part in token.split(connector):
                terms.extend(_terms_by_token[part])
            return
    if "'" in token or "’" in token:
        parts = re.split("['’]", token)
        for position, part in enumerate(parts):
            if position == 0 or part.lower() not in _CLITICS:
                _compound(part, terms)
        return
    _identifier(token, terms)


def _version(token: str, terms: list[str]) -> None:
    """``v4.2.1`` gives 4.2.1, 4.2 and 4: a question names as much of a version as it knows."""
    numbers = token.removeprefix("v").removeprefix("V").split(".")
    for count in range(len(numbers), 0, -1):
        _keep(".".join(numbers[:count]), terms)


def _identifier(name: str, terms: list[str]) -> None:
    """Append a name and, where it has more than one, its words."""
    name = name.strip("_")
    if _HEX.fullmatch(name):
        _word(name, terms)
        return
    if not name.isascii() and _CYRILLIC.search(name):
        name = _one_script(name)
        if len(scripts := _SCRIPT_RUNS.findall(name)) > 1:
            _keep(_folded(name), terms)
            for run in scripts:
                _identifier(run, terms)
            return
    words: list[str] = []
    for piece in name.split("_"):
        if piece.islower():  # without a capital there are no humps
            words.append(piece)
        elif piece:
            words += _HUMPS.split(piece)
    if len(words) > 1:
        if "_" in name:
            _keep(_folded(name), terms)
        else:
            _word(name, terms)
    for word in words:
        _word(word, terms)
        if not word.isalpha() and (match := _LETTERS_THEN_DIGITS.fullmatch(word)):
            _word(match[1], terms)
            _word(match[2], terms)


def _word(word: str, terms: list[str]) -> None:
    """Append a word without inner borders, stemmed; of a script without spaces, each two neighbours."""
    if word.isascii() and len(word) <= MAX_TERM_CHARACTERS:
        terms.append(_stemmed(word.lower()) if word.isalpha() else word.lower())
        return
    folded = _folded(word)[:MAX_TERM_CHARACTERS]
    if folded.isascii():
        terms.append(_stemmed(folded) if folded.isalpha() else folded)
        return
    if not _LETTER_OR_DIGIT.search(folded):
        return  # marks without a letter
    if _IS_UNSPACED.search(folded):
        for run in _UNSPACED.findall(folded):
            if _IS_UNSPACED.search(run) and len(run) > 1:
                terms.extend(run[i : i + 2] for i in range(len(run) - 1))
            else:
                terms.append(run)
        return
    terms.append(_stemmed(folded) if _ONE_ALPHABET.fullmatch(folded) else folded)


def _one_script(word: str) -> str:
    """A Russian word typed with some look-alike Latin letters, in Cyrillic; any other word as it is."""
    latin = [letter for letter in word if letter.isascii() and letter.isalpha()]
    if not latin or any(ord(letter) not in _LOOKALIKES for letter in latin) or len(latin) * 2 > len(word):
        return word
    return word.translate(_LOOKALIKES)


def _keep(compound: str, terms: list[str]) -> None:
    if len(compound) <= MAX_TERM_CHARACTERS and _LETTER_OR_DIGIT.search(compound):
        terms.append(compound)


def _folded(text: str) -> str:
    return text.casefold().replace("ё", "е")


@lru_cache(maxsize=1 << 16)
def _stemmed(word: str) -> str:
    stem = _snowball(word)
    return stem if stem.isascii() or not _CYRILLIC.search(stem) else _root(_stem_of_forms(word, stem))


def _stem_of_forms(word: str, stem: str) -> str:
    """A Russian word's stem, the same for forms that Snowball leaves apart.

    >>> [_stem_of_forms(word, _snowball(word)) for word in ("ошибка", "ошибок", "настроек", "имена", "требует")]
    ['ошибк', 'ошибк', 'настройк', 'имен', 'требова']
    """
    if word in _FORMS:
        return _FORMS[word]
    if match := _OF_TIME.fullmatch(word):
        return "имен" if match[1] == "им" else match[1]
    if match := _OF_NOW.fullmatch(word):
        return f"{match[1]}ова"
    if match := _FLEETING.fullmatch(stem):
        return f"{match[1]}{match[2]}" if match[1] else f"{match[3]}й{match[4]}"
    return stem


def _root(stem: str) -> str:
    """A Russian stem without its derivational suffixes; never one that would take it for a stop word.

    >>> [_root(stem) for stem in ("использован", "использова", "надежност", "переда")]
    ['использ', 'использ', 'надеж', 'переда']
    """
    while (match := _DERIVED.fullmatch(stem)) and match[1] not in _stop_stems():
        stem = match[1]
    return stem


def beginning_of(stem: str) -> str:
    """What every form of a stem's word begins with, in lower case and with ``е`` for ``ё``, or nearly every one.

    >>> [beginning_of(stem) for stem in ("ошибк", "настройк", "требов", "queri")]
    ['ошиб', 'настро', 'треб', 'quer']
    """
    if match := _ENDS_ANEW.fullmatch(stem):
        return match[match.lastindex or 0]
    return stem[:-1] if len(stem) > 3 and stem.endswith("i") else stem  # Snowball writes i for a last y


def _snowball(word: str) -> str:
    # A stemmer keeps state while it works and must not be shared by threads at the same time.
    with _STEMMERS_LOCK:
        language = "english" if word.isascii() or not _CYRILLIC.search(word) else "russian"
        stem: str = _stemmer(language).stemWord(word)
    return stem


_STEMMERS_LOCK = threading.Lock()


@cache
def _stemmer(language: str) -> Stemmer.Stemmer:
    return Stemmer.Stemmer(language, 0)
