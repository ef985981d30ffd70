from __future__ import annotations

import pytest

from strata.errors import CorruptArchive, EmbedderUnavailable, HandedOver, StoreUnavailable
from strata.jobs.retrying import RetryPolicy, retried


class Calls:
    """Raises the errors that it is given, one a call, then answers."""

    def __init__(self, *errors: BaseException) -> None:
        self.errors = list(errors)
        self.count = 0

    def __call__(self) -> str:
        self.count += 1
        if self.errors:
            raise self.errors.pop(0)
        return "answer"


def policy(pauses: list[float], *, attempts: int = 4) -> RetryPolicy:
    return RetryPolicy(attempts=attempts, sleep=pauses.append, draw=lambda: 1.0)


@pytest.mark.parametrize(
    "error",
    [StoreUnavailable(), EmbedderUnavailable(), TimeoutError(), ConnectionResetError(), OSError(28, "no space")],
    ids=lambda error: type(error).__name__,
)
def test_a_temporary_error_is_tried_again(error: Exception) -> None:
    pauses: list[float] = []
    assert retried(Calls(error, error), policy(pauses)) == "answer"
    assert pauses == [0.5, 1.0]


@pytest.mark.parametrize(
    "error", [CorruptArchive(), HandedOver(), ValueError()], ids=lambda error: type(error).__name__
)
def test_any_other_error_comes_through_at_once(error: Exception) -> None:
    calls = Calls(error)
    with pytest.raises(type(error)):
        retried(calls, policy([]))
    assert calls.count == 1


def test_the_last_temporary_error_comes_through() -> None:
    pauses: list[float] = []
    calls = Calls(*(StoreUnavailable(f"number {n}") for n in range(9)))
    with pytest.raises(StoreUnavailable, match="number 2"):
        retried(calls, policy(pauses, attempts=3))
    assert (calls.count, len(pauses)) == (3, 2)


def test_pauses_grow_up_to_a_limit_and_are_drawn_at_random() -> None:
    full = RetryPolicy(first_pause_s=1, longest_pause_s=5, draw=lambda: 1.0)
    half = RetryPolicy(first_pause_s=1, longest_pause_s=5, draw=lambda: 0.5)
    assert [full.pause_s(retry) for retry in range(5)] == [1, 2, 4, 5, 5]
    assert half.pause_s(1) == 1
    assert 0 <= RetryPolicy().pause_s(1_000) <= 8


def test_what_runs_before_a_retry_may_stop_it() -> None:
    def stop(error: Exception) -> None:
        raise HandedOver from error

    calls = Calls(StoreUnavailable())
    with pytest.raises(HandedOver):
        retried(calls, policy([]), before_retry=stop)
    assert calls.count == 1
