"""Servers, fakes, factories and contract suites that tests share."""
