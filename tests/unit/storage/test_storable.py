from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.storage.postgres.storable import MAX_TERM_BYTES, storable_json, storable_term, storable_text

ANY_TEXT = st.text(st.characters())
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY_TEXT, inner, max_size=3),
    max_leaves=8,
)


@given(ANY_TEXT)
def test_stored_text_keeps_its_length_and_its_lines(text: str) -> None:
    stored = storable_text(text)
    assert len(stored) == len(text)
    assert stored.count("\n") == text.count("\n")
    assert "\x00" not in stored
    assert stored.encode().decode() == stored


@given(st.dictionaries(ANY_TEXT, JSON, max_size=4))
def test_stored_json_can_be_read_and_encoded(value: dict[str, object]) -> None:
    stored = storable_json(value)
    assert stored.encode()
    assert "\x00" not in json.dumps(json.loads(stored), ensure_ascii=False)
    assert "\\u0000" not in json.dumps(json.loads(stored)).replace("\\\\", "")


@given(st.text(max_size=8).map(lambda text: text * 90))
def test_stored_terms_fit_and_begin_as_they_were(term: str) -> None:
    stored = storable_term(term)
    assert len(stored.encode()) <= MAX_TERM_BYTES
    assert storable_text(term).startswith(stored)


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_json_has_no_such_number(number: float) -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        storable_json({"n": number})
