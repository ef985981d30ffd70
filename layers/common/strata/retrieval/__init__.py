"""Question → candidates: by meaning, by words and by names, in the best order."""
