"""Documents: Markdown, reStructuredText, notebooks and other text → catalogue (D1), facts (D2), sections (D3), rules
(D4)."""
