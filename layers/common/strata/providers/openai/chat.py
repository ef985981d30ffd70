"""`OpenAiChat`: any server that speaks OpenAI's `POST /chat/completions`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from strata.errors import GeneratorRejected, GeneratorUnavailable
from strata.model.chat import Completion, ModelUsage, Prompt
from strata.providers.http import JsonApi, checked_url


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAiChat:
    """A `ChatModel`. The server's own limits on a prompt show as `GeneratorRejected`."""

    model_id: str
    api: JsonApi

    @classmethod
    def at(cls, url: str, *, model: str, key: str, timeout_s: float) -> OpenAiChat:
        """`url` is the part before `/chat/completions`, say `https://api.openai.com/v1`."""
        api = JsonApi(
            name="The chat model",
            url=checked_url(url, "STRATA_CHAT_URL"),
            key=key,
            timeout_s=timeout_s,
            unavailable=GeneratorUnavailable,
            rejected=GeneratorRejected,
        )
        return cls(model_id=model, api=api)

    def complete(self, prompt: Prompt) -> Completion:
        reply = self.api.post(
            "/chat/completions",
            {
                "model": self.model_id,
                "messages": [
                    {"role": "system", "content": prompt.system},
                    {"role": "user", "content": prompt.user},
                ],
                "max_tokens": prompt.max_tokens,
                "temperature": 0,
            },
        )
        try:
            choice = reply["choices"][0]
            text, reason = choice["message"].get("content") or "", choice.get("finish_reason")
            used: dict[str, Any] = reply.get("usage") or {}
            usage = ModelUsage(
                calls=1,
                input_tokens=int(used.get("prompt_tokens", 0)),
                output_tokens=int(used.get("completion_tokens", 0)),
            )
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            raise GeneratorRejected("The chat model's reply has not the shape of a chat completion.") from error
        if not isinstance(text, str) or not text.strip():
            raise GeneratorRejected(f"The chat model answered with nothing (it ended with {str(reason)[:40]!r}).")
        return Completion(text=text.strip(), usage=usage)
