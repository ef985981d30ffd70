"""Settings: frozen sections, read from the environment once, all faults reported together."""
