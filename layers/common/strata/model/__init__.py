"""The nouns of Strata: frozen, validated, without I/O."""
