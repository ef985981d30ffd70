from __future__ import annotations

from tests.support.aws import aws_endpoint, aws_environment, cache_table, dynamodb

__all__ = ["aws_endpoint", "aws_environment", "cache_table", "dynamodb"]
