"""Measures speed through the real use cases, adapters and database."""
