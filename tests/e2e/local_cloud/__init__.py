"""A package, so that its cloud ends with its last module: two clouds in one process are refused."""
