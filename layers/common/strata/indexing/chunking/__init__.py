"""Parsed documents → chunks that fit the embedder, cut where it hurts least.

A chunk takes as many whole lines as fit; among the places to cut, the cheapest wins, where a cut that leaves the
chunk half empty costs a half. So a chunk ends at the border of a section, a definition or a paragraph if one is near
the limit, and a definition, a fence or a table that fits by itself is not cut. Blank lines at the ends are left out:
no chunk is blank, and between the lines of its span the source is its content.

One exception: a line that is over the limit by itself is cut inside, after a sentence, else at a blank, else between
two characters. Its pieces are chunks of their own that share the line's span; each is a part of that line. Where such a
line comes right after a section's heading, the first piece begins with the heading, which says nothing alone.

Tokens are counted once a distinct line, in one call for many files. A line also weighs at least a token per
`weighing.CHARACTERS_PER_TOKEN` characters: tokenizers make a single token of a very long word.
"""
