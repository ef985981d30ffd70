"""Tests; `tests.support` holds what they share."""
