"""Where requests come in and replies go out: HTTP, identity, events of S3, streams."""
