"""What `strata.bootstrap` has built in this process."""

from __future__ import annotations

from strata.bootstrap import environment, jobs, models, questions, stores, workers

MODULES = (environment, stores, models, jobs, workers, questions)


def forget_what_was_built() -> None:
    """The next call of every factory builds anew, from the environment as it is then."""
    for module in MODULES:
        for factory in vars(module).values():
            if hasattr(factory, "cache_clear"):
                factory.cache_clear()
