"""Chat models over real HTTP and over botocore's stubs: what they send, what they read, and every way they fail."""

from __future__ import annotations

import time
from typing import Any

import boto3
import pytest
from botocore.exceptions import ConnectTimeoutError
from botocore.stub import Stubber

from strata.errors import ConfigurationError, GeneratorRejected, GeneratorUnavailable, StrataError
from strata.jobs.retrying import RetryPolicy
from strata.model.chat import ModelUsage, Prompt
from strata.providers.bedrock.chat import BedrockChat
from strata.providers.openai.chat import OpenAiChat
from strata.providers.persistence import PersistentChat
from tests.support.model_server import Reply, completion, model_server

PROMPT = Prompt(system="Rules.", user="Text “ü” \ud800", max_tokens=50)
KEY = "sk-s3cret"


def chat(url: str, timeout_s: float = 5.0) -> OpenAiChat:
    return OpenAiChat.at(f"{url}/v1/", model="small", key=KEY, timeout_s=timeout_s)


def test_a_prompt_goes_out_and_the_completion_comes_back_with_its_tokens() -> None:
    with model_server(lambda path, body: completion("  A note.\n", prompt_tokens=7, completion_tokens=3)) as server:
        answer = chat(server.url).complete(PROMPT)
    assert (answer.text, answer.usage) == ("A note.", ModelUsage(calls=1, input_tokens=7, output_tokens=3))
    ((path, body, headers),) = server.requests
    assert (path, headers["Authorization"]) == ("/v1/chat/completions", f"Bearer {KEY}")
    assert (body["model"], body["max_tokens"], body["temperature"]) == ("small", 50, 0)
    assert [message["role"] for message in body["messages"]] == ["system", "user"]
    assert body["messages"][1]["content"] == PROMPT.user


def test_without_a_key_none_is_sent_and_a_server_may_count_no_tokens() -> None:
    reply = {"choices": [{"message": {"content": "yes"}}]}
    with model_server(lambda path, body: (200, reply)) as server:
        answer = OpenAiChat.at(server.url, model="m", key="", timeout_s=5).complete(PROMPT)
    assert answer.usage == ModelUsage(calls=1)
    assert "Authorization" not in server.requests[0][2]


@pytest.mark.parametrize(
    ("reply", "error", "says"),
    [
        pytest.param((429, {}), GeneratorUnavailable, "429", id="throttled"),
        pytest.param((500, b"oops"), GeneratorUnavailable, "500", id="broken"),
        pytest.param((503, {}), GeneratorUnavailable, "503", id="away"),
        pytest.param((401, {"error": {"message": "bad key"}}), ConfigurationError, "bad key", id="wrong key"),
        pytest.param((404, {"error": "no such model"}), ConfigurationError, "no such model", id="wrong model"),
        pytest.param((302, {}), ConfigurationError, "302", id="redirected"),
        pytest.param((400, {"message": "too\nlong"}), GeneratorRejected, "too long", id="refused"),
        pytest.param((422, [1]), GeneratorRejected, "422", id="refused without a word"),
        pytest.param((200, b"<html>"), ConfigurationError, "JSON", id="something else"),
        pytest.param((200, {"choices": []}), GeneratorRejected, "shape", id="no choice"),
        pytest.param((200, [1, 2]), GeneratorRejected, "shape", id="no object"),
        pytest.param((200, {"choices": [{"message": None}]}), GeneratorRejected, "shape", id="no message"),
        pytest.param(completion(" \n"), GeneratorRejected, "nothing", id="blank"),
        pytest.param(
            (200, {"choices": [{"message": {"content": None}, "finish_reason": "length"}]}),
            GeneratorRejected,
            "length",
            id="null",
        ),
    ],
)
def test_every_failure_is_one_of_ours_and_shows_no_key(reply: Reply, error: type[StrataError], says: str) -> None:
    with model_server(lambda path, body: reply) as server, pytest.raises(error, match=says) as raised:
        chat(server.url).complete(PROMPT)
    assert KEY not in raised.value.message
    assert KEY not in repr(chat(server.url))
    assert len(server.requests) == 1


def test_a_server_that_is_not_there_is_temporary() -> None:
    with model_server(lambda path, body: completion("x")) as server:
        gone = server.url
    with pytest.raises(GeneratorUnavailable, match="reached"):
        chat(gone).complete(PROMPT)


@pytest.mark.parametrize("how", [{"delay_s": 20.0}, {"trickle_s": 0.1}], ids=["silent", "trickling"])
def test_the_time_limit_holds_for_the_whole_reply(how: dict[str, float]) -> None:
    with model_server(lambda path, body: completion("x"), **how) as server:
        started = time.monotonic()
        with pytest.raises(GeneratorUnavailable):
            chat(server.url, timeout_s=0.3).complete(PROMPT)
        assert time.monotonic() - started < 8  # the whole reply takes about 20 s, however it comes


@pytest.mark.parametrize("url", ["", "models.example.com", "ftp://x/v1", "http://", "http://u:p@x/", "http://x/?key=1"])
def test_an_address_that_is_none_names_its_setting(url: str) -> None:
    with pytest.raises(ConfigurationError, match="STRATA_CHAT_URL"):
        OpenAiChat.at(url, model="m", key="", timeout_s=1)


def test_a_model_that_is_away_for_a_moment_is_asked_again() -> None:
    replies = [(503, {}), (429, {}), completion("at last")]
    policy = RetryPolicy(attempts=3, sleep=lambda seconds: None)
    with model_server(lambda path, body: replies.pop(0)) as server:
        persistent = PersistentChat(chat=chat(server.url), policy=policy)
        assert persistent.complete(PROMPT).text == "at last"
    refusing = [(400, {}), completion("never asked")]
    with model_server(lambda path, body: refusing.pop(0)) as server, pytest.raises(GeneratorRejected):
        PersistentChat(chat=chat(server.url), policy=policy).complete(PROMPT)
    assert len(server.requests) == 1


# --- Bedrock ---


def bedrock() -> tuple[BedrockChat, Stubber]:
    client = boto3.client(
        "bedrock-runtime", region_name="eu-central-1", aws_access_key_id="test", aws_secret_access_key="test"
    )
    return BedrockChat(model_id="some.model-v1:0", client=client), Stubber(client)


def converse_reply(text: str, reason: str = "end_turn") -> dict[str, Any]:
    return {
        "output": {"message": {"role": "assistant", "content": [{"text": text}]}},
        "stopReason": reason,
        "usage": {"inputTokens": 9, "outputTokens": 4, "totalTokens": 13},
        "metrics": {"latencyMs": 12},
    }


def test_bedrock_is_asked_by_its_converse_api() -> None:
    model, stub = bedrock()
    stub.add_response(
        "converse",
        converse_reply("Yes."),
        {
            "modelId": "some.model-v1:0",
            "system": [{"text": "Rules."}],
            "messages": [{"role": "user", "content": [{"text": "Text"}]}],
            "inferenceConfig": {"maxTokens": 50, "temperature": 0.0},
        },
    )
    with stub:
        answer = model.complete(Prompt(system="Rules.", user="Text", max_tokens=50))
    assert (answer.text, answer.usage) == ("Yes.", ModelUsage(calls=1, input_tokens=9, output_tokens=4))


@pytest.mark.parametrize(
    ("text", "reason"), [("", "end_turn"), ("I may not say that.", "guardrail_intervened"), ("x", "content_filtered")]
)
def test_what_a_guardrail_says_is_no_answer(text: str, reason: str) -> None:
    model, stub = bedrock()
    stub.add_response("converse", converse_reply(text, reason))
    with stub, pytest.raises(GeneratorRejected, match=reason):
        model.complete(PROMPT)


@pytest.mark.parametrize(
    ("code", "status", "error"),
    [
        ("ThrottlingException", 429, GeneratorUnavailable),
        ("ModelTimeoutException", 408, GeneratorUnavailable),
        ("ModelNotReadyException", 429, GeneratorUnavailable),
        ("SomethingNew", 503, GeneratorUnavailable),
        ("ValidationException", 400, GeneratorRejected),
        ("AccessDeniedException", 403, ConfigurationError),
        ("ResourceNotFoundException", 404, ConfigurationError),
    ],
)
def test_bedrocks_errors_are_ours(code: str, status: int, error: type[StrataError]) -> None:
    model, stub = bedrock()
    stub.add_client_error("converse", code, "no", http_status_code=status)
    with stub, pytest.raises(error, match=code):
        model.complete(PROMPT)


def test_a_bedrock_that_can_not_be_reached_is_temporary() -> None:
    class Unreachable:
        def converse(self, **request: Any) -> Any:
            raise ConnectTimeoutError(endpoint_url="https://bedrock")

    with pytest.raises(GeneratorUnavailable, match="ConnectTimeoutError"):
        BedrockChat(model_id="m", client=Unreachable()).complete(PROMPT)
