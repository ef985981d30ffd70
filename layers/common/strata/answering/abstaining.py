"""The honest "not found": an answer that says what was searched."""

from __future__ import annotations

from strata.answering.words import is_russian
from strata.model.asking import Answer, Context, Retrieved

_SHOWN_PATHS = 3


def not_found(context: Context, retrieved: Retrieved) -> Answer:
    """An answer without a claim and without a citation, in the question's language.

    It names the session, how many sources were looked at and which came nearest; only what the caller may read is in
    the context, so only that is named.
    """
    question = context.question
    paths = list(dict.fromkeys(piece.path for piece in context.pieces))[:_SHOWN_PATHS]
    nearest = ", ".join(f"`{path}`" for path in paths)
    count = len(context.pieces)
    if is_russian(question.text):
        text = f"Ответа на этот вопрос в сессии «{question.session_id}» не нашлось. "
        if count:
            text += f"Просмотрено источников: {count}; ближе всего были {nearest}, но ответа в них нет."
        elif retrieved.candidates:
            text += "Найденное не помещается в отведённый объём контекста, поэтому отвечать не по чему."
        else:
            text += "Поиск не дал ни одного источника, который вам доступен."
    else:
        text = f"I found no answer to this in the session “{question.session_id}”. "
        if count:
            sources = "1 source" if count == 1 else f"{count} sources"
            text += f"I looked at {sources}; the nearest were {nearest}, but they do not answer it."
        elif retrieved.candidates:
            text += "What was found does not fit into the room for sources, so there is nothing to answer from."
        else:
            text += "The search gave no source that you may read."
    return Answer(text=text, citations=(), grounded=False, abstained=True)
