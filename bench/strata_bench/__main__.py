"""`python -m strata_bench …` is `strata bench …`."""

from __future__ import annotations

import sys

from strata_client.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main(["bench", *sys.argv[1:]]))
