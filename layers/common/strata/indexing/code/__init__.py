"""Code → source chunks (C0) and symbols (C1). One parser a language; see `parsing.CODE_PARSERS`."""
