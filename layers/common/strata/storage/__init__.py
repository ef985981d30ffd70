"""Adapters of what is kept: Postgres, DynamoDB, S3, and the calls to other functions."""
