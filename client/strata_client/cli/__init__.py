"""The command line: `strata`."""
