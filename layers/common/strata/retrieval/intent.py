"""Whether a text says what code does or should do, or asks a question: the one leads to code, the other anywhere."""

from __future__ import annotations

import re

_LONG_TEXT_WORDS = 60
"""A report of so many words is no question, whatever word it begins with."""
_QUESTION = re.compile(
    r"\W*(?:how|what|why|where|which|when|who|whose|is|are|can|could|does|do|did|should"
    r"|как|что|почему|где|какой|какая|какое|какие|когда|кто|зачем|сколько|можно|можно ли)\b"
    r"|.*\?\s*\Z",
    re.IGNORECASE | re.DOTALL,
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


def tells_what_code_does(text: str) -> bool:
    """Whether it begins with such a verb, as a docstring or an entry of a changelog does, or reports a fault.

    >>> [tells_what_code_does(text) for text in ("Returns the open file.", "Upload fails on names with blanks")]
    [True, True]
    >>> [tells_what_code_does(text) for text in ("How do I fix an upload?", "Installation", "")]
    [False, False, False]
    """
    return not _asks(text) and (_begins_with_a_telling_verb(text) or _FAULT.search(text) is not None)


def describes_code(text: str) -> bool:
    """Whether it tells what code does and no fault: such a sentence often uses the words of which names are made.

    >>> [describes_code(text) for text in ("Returns the open file.", "Fix what fails", "How to fix it")]
    [True, False, False]
    """
    return not _asks(text) and _begins_with_a_telling_verb(text) and _FAULT.search(text) is None


def _asks(text: str) -> bool:
    return _QUESTION.match(text) is not None and len(text.split()) < _LONG_TEXT_WORDS


def _begins_with_a_telling_verb(text: str) -> bool:
    first = _WORD.search(text.lower())
    return first is not None and not _forms(first.group()).isdisjoint(_VERBS)


def _forms(verb: str) -> frozenset[str]:
    """The verb as it stands, and what it is without an English ending of the third person.

    >>> sorted(_forms("tries"))
    ['tri', 'trie', 'tries', 'try']
    """
    return frozenset({verb, verb.removesuffix("s"), verb.removesuffix("es"), re.sub("ies$", "y", verb)})
