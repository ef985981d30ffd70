"""`ExtractiveChat`: the place of a chat model without one: it answers with a line of what it is shown.

No model, no network: for trying the options out and for measuring what a real model must beat.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from strata.model.chat import Completion, ModelUsage, Prompt
from strata.retrieval.analyser import analyse

_FENCED = re.compile(r"<(document|passage|question)>\n(.*?)\n</\1>", re.DOTALL)
_LEAST_TERMS = 3
_CHARACTERS_PER_TOKEN = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractiveChat:
    """A `ChatModel`. About a passage of a document it says the line outside the passage that shares most with it, under
    the document's first line; a question it repeats. Tokens are those of a tokenizer of four characters a token.
    """

    model_id: str = "extractive"

    def complete(self, prompt: Prompt) -> Completion:
        found = dict(_FENCED.findall(prompt.user))
        text = found.get("question") or _about(found.get("document", ""), found.get("passage", "")) or "-"
        text = text[: prompt.max_tokens * _CHARACTERS_PER_TOKEN].strip() or "-"
        usage = ModelUsage(
            calls=1,
            input_tokens=-(-(len(prompt.system) + len(prompt.user)) // _CHARACTERS_PER_TOKEN),
            output_tokens=-(-len(text) // _CHARACTERS_PER_TOKEN),
        )
        return Completion(text=text, usage=usage)


def _about(document: str, passage: str) -> str:
    lines = [line.strip() for line in document.split("\n") if line.strip()]
    within = set(map(str.strip, passage.split("\n")))
    terms = set(analyse(passage))
    outside = [line for line in lines[1:] if line not in within]
    best = max(outside, key=lambda line: len(terms & set(analyse(line))), default="")
    parts = [*lines[:1], *([best] if len(terms & set(analyse(best))) >= _LEAST_TERMS else outside[:1])]
    return ": ".join(dict.fromkeys(parts))
