"""Measures retrieval on judged data: what a change gains or costs, with its uncertainty."""
