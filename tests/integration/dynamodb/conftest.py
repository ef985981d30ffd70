from __future__ import annotations

from tests.support.aws import aws_endpoint, aws_environment, bucket, cache_table, dynamodb, jobs_table, s3

__all__ = ["aws_endpoint", "aws_environment", "bucket", "cache_table", "dynamodb", "jobs_table", "s3"]
