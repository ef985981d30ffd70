"""Documents: Markdown and other text → catalogue (D1) and sections (D3)."""
