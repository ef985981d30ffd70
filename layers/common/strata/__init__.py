"""Strata: question answering over a code base and its documents, with citations that can be checked.

Data goes one way: files → documents → chunks → vectors → rows, and
question → candidates → context → answer.
"""

__version__ = "0.1.0"
