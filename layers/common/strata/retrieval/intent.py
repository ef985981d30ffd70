"""Whether a text says what code does or should do, or asks a question: the one leads to code, the other anywhere.

Docstrings and entries of changelogs are sentences: they begin with a verb, with words that such texts begin with, or
with an article and go on, or they end with a full stop. Headings and the few words of a search do none of it.
"""

from __future__ import annotations

import re
from itertools import islice

_LONG_TEXT_WORDS = 60
"""A report of so many words is no question, whatever word it begins with."""
_QUESTION = re.compile(
    r"\W*(?:how|what|why|where|which|when|who|whose|is|are|can|could|does|do|did|should"
    r"|как|что|почему|где|какой|какая|какое|какие|когда|кто|зачем|сколько|можно|можно ли)\b"
    r"|.*\?\s*\Z",
    re.IGNORECASE | re.DOTALL,
)
_REQUEST = re.compile(
    r"\W*(?:please\s+)?(?:"
    r"(?:tell|show|give|help|teach|remind)\s+(?:me|us)\b|i\s+(?:want|need|wish|would like)\b|i['’]d like\b"
    r"|(?:explain|describe|find out|understand|learn|know)\s+(?:how|what|why|where|which|when|who)\b)"
    r"|\W*(?:пожалуйста,?\s+)?(?:расскажи|объясни|поясни|опиши|покажи|подскажи|помоги|хочу|нужно|надо)(?:те)?\b",
    re.IGNORECASE,
)
_FAULT = re.compile(
    r"\b(?:bugs?|errors?|exceptions?|traceback|crash\w*|fail\w*|incorrect\w*|wrong\w*|broken|breaks?|regression|raises?"
    r"|instead of|should(?:n['’]t)?|doesn['’]t|does not|can['’]t|cannot|fix\w*|unexpected\w*"
    r"|ошибк\w*|исправ\w*|падает|сломан\w*|не работает|вместо|должн\w*)\b",
    re.IGNORECASE,
)
_TELLING = """
add adjust allow apply ask assert assign avoid build calculate call change check choose clean clear close collect
combine compare compute configure connect convert copy correct count create decode decorate define delete deprecate
determine disable disallow display drop emit enable encode ensure enter escape evaluate execute exit expand extract
fetch fill filter find fix flush follow force format generate get give handle ignore implement improve include increase
infer initialize insert install invoke iterate join keep list load log look make map mark match merge modify move
normalize open parse pass perform pop prefer prepare preserve prevent print process produce prompt provide push put
quote raise read record reduce refer refuse register reject release remove rename render replace report reset resolve
respect restore return reuse revert run save search select send set show skip sort split start stop store strip support
switch take test track transform translate truncate try unregister update upgrade use validate verify wait warn wrap
write yield
возвращает вернуть добавить добавляет удалить удаляет создать создаёт проверить проверяет изменить изменяет обновить
обновляет получить получает установить устанавливает сохранить сохраняет
"""
_VERBS = frozenset(_TELLING.split())
_WORD = re.compile(r"[^\W\d_]+")
_ARTICLE = re.compile(r"\W*(?:an?|the|this|these)\s", re.IGNORECASE)
_NOUN_FOLLOWS = "a an the this that these its each every all any some given one no"
_BEFORE_A_NOUN = frozenset(_NOUN_FOLLOWS.split())
_SMALL = """
a about after all an and any are as at be before between both but by can do does during each either every for from he
how i if in into is it its many me more most my neither no nor not of on one only or other our over own per same she so
some such than that the their these they this those through to too under very via was we were what when where whether
which while who why with within without you your
"""
_SMALL_WORDS = frozenset(_SMALL.split())
_LEADING = re.compile(
    r"\W*(?:whether|given|like|helper|internal|shortcut for|same as|true if|false if|raised (?:if|when)"
    r"|(?:called|used) (?:by|for|to|when|with)"
    r"|(?:class|function|method|decorator|mixin|wrapper|context manager) (?:for|that|to|which))\b",
    re.IGNORECASE,
)
"""How docstrings begin that begin with no verb."""
_FULL_STOP = re.compile(r"[\w)`'\"]\.\s*\Z")
_LEAST_PHRASE_WORDS = 5
_LEAST_SENTENCE_WORDS = 4


def tells_what_code_does(text: str) -> bool:
    """Whether it says so as a docstring or an entry of a changelog does, in a sentence, or reports a fault.

    >>> told = ("Returns the open file.", "Unzip the file", "A reader of open files", "Upload fails on long names")
    >>> [tells_what_code_does(text) for text in told]
    [True, True, True, True]
    >>> [tells_what_code_does(text) for text in ("How do I fix an upload?", "Updating the branch", "Installation", "")]
    [False, False, False, False]
    """
    return not _asks(text) and (_describes(text) or _is_a_sentence(text) or _FAULT.search(text) is not None)


def describes_code(text: str) -> bool:
    """Whether it tells what code does and no fault: such a sentence often uses the words of which names are made.

    >>> [describes_code(text) for text in ("Returns the open file.", "Fix what fails", "How to fix it")]
    [True, False, False]
    """
    return not _asks(text) and _describes(text) and _FAULT.search(text) is None


def _asks(text: str) -> bool:
    return (_QUESTION.match(text) or _REQUEST.match(text)) is not None and len(text.split()) < _LONG_TEXT_WORDS


def _describes(text: str) -> bool:
    return (
        _begins_with_a_verb(text)
        or _LEADING.match(text) is not None
        or (_ARTICLE.match(text) is not None and len(text.split()) >= _LEAST_PHRASE_WORDS)
    )


def _is_a_sentence(text: str) -> bool:
    return _FULL_STOP.search(text) is not None and len(text.split()) >= _LEAST_SENTENCE_WORDS


def _begins_with_a_verb(text: str) -> bool:
    """Whether it begins with a telling verb, or with any word that an article follows and that is no small one and no
    gerund, with which headings begin. Adverbs in front do not count."""
    words = [word.group().lower() for word in islice(_WORD.finditer(text), 4)]
    while len(words) > 1 and words[0].endswith("ly") and words[0] not in _VERBS:
        del words[0]
    if not words:
        return False
    if not _forms(words[0]).isdisjoint(_VERBS):
        return True
    before_a_noun = len(words) > 1 and words[1] in _BEFORE_A_NOUN
    return before_a_noun and words[0] not in _SMALL_WORDS and not words[0].endswith("ing")


def _forms(verb: str) -> frozenset[str]:
    """The verb as it stands, and what it is without an English ending of the third person or the past.

    >>> sorted(_forms("tries"))
    ['tri', 'trie', 'tries', 'try']
    >>> "drop" in _forms("dropped"), "add" in _forms("added"), "remove" in _forms("removed"), "copy" in _forms("copied")
    (True, True, True, True)
    """
    forms = {verb, verb.removesuffix("s"), verb.removesuffix("es"), re.sub("(?:ies|ied)$", "y", verb)}
    if verb.endswith("ed"):
        forms |= {verb[:-1], verb[:-2], verb[:-3]}
    return frozenset(forms)
