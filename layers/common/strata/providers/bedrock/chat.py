"""`BedrockChat`: the chat models of Bedrock, by its Converse API."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from strata.errors import GeneratorRejected, GeneratorUnavailable
from strata.model.chat import Completion, ModelUsage, Prompt
from strata.providers.bedrock.errors import bedrock_errors


@dataclass(frozen=True, slots=True, kw_only=True)
class BedrockChat:
    """A `ChatModel`. `client` is boto3's of `bedrock-runtime`, with its time limits."""

    model_id: str
    client: Any = field(repr=False)

    def complete(self, prompt: Prompt) -> Completion:
        with bedrock_errors("The chat model", unavailable=GeneratorUnavailable, rejected=GeneratorRejected):
            reply = self.client.converse(
                modelId=self.model_id,
                system=[{"text": prompt.system}],
                messages=[{"role": "user", "content": [{"text": prompt.user}]}],
                inferenceConfig={"maxTokens": prompt.max_tokens, "temperature": 0.0},
            )
        reason, used = reply.get("stopReason"), reply.get("usage", {})
        parts = reply.get("output", {}).get("message", {}).get("content", [])
        text = "".join(part.get("text", "") for part in parts).strip()
        # A guardrail answers with a sentence of its own: that is no answer of the model.
        if not text or reason in ("guardrail_intervened", "content_filtered"):
            raise GeneratorRejected(f"The chat model did not answer (it ended with {str(reason)[:40]!r}).")
        usage = ModelUsage(calls=1, input_tokens=used.get("inputTokens", 0), output_tokens=used.get("outputTokens", 0))
        return Completion(text=text, usage=usage)
