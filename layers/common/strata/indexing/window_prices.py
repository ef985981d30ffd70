"""Where to cut text whose grammar is not known."""

from __future__ import annotations

import re
from collections.abc import Sequence

_CLOSING = re.compile(r"\s*(?:[)\]}]+[;,]?|</[\w:.-]+>|end(?:[a-z]+)?;?|fi|done|esac)\s*$", re.IGNORECASE)


def window_prices(lines: Sequence[str]) -> dict[int, float]:
    """The price of a cut before each line: least where a blank line stands before a line without indentation, then
    behind a closing brace or tag, the shallower the better.
    """
    prices: dict[int, float] = {}
    after_blank = True
    after_closing = False
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            prices[number] = 0.5
            after_blank = True
            continue
        if line.lstrip()[0] in ")]}" or line.lstrip().startswith("</"):
            price = 0.9
        elif after_blank or after_closing:
            price = min(0.6, 0.05 * (len(line) - len(line.lstrip())) + (0 if after_blank else 0.1))
        else:
            price = 0.4 if not line[0].isspace() else 0.7
        prices[number] = price
        after_blank = False
        after_closing = _CLOSING.match(line) is not None
    return prices
