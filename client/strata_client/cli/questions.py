"""What the demo asks. This repository's `.strataignore` leaves this file out: it would answer with the question."""

DEFAULT_QUESTION = "How does Strata keep readers from seeing a half-written index?"
OTHER_QUESTION = "What does this project do?"
OWN_EXAMPLES = ("How are jobs of one session kept in order?", "content-addressed cache")
OTHER_EXAMPLES = ("How is an error handled?", "configuration")
"""A question and a search to try next."""
