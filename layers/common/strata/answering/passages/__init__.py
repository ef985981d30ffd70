"""A source's lines → passages: the sentences, items, rows, comments and code lines that an answer can quote.

A passage names the characters that it was read from, so a quote is always a slice of the source; `text` is what a
person reads: one line, without list marks and comment signs. Reading is line by line and forgiving, because a piece
may begin or end in the middle of a definition.
"""
