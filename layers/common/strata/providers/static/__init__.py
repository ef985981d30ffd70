"""Embeds by a table of word vectors: no model runtime, thousands of texts a second."""
