"""Jobs: how content becomes work, and how a session's work is done once and in order."""
