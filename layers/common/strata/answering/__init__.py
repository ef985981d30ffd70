"""Candidates → context → a cited answer, or an honest "not found"."""
