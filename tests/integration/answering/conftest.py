from __future__ import annotations

from tests.support.aws import aws_endpoint, aws_environment, dynamodb

__all__ = ["aws_endpoint", "aws_environment", "dynamodb"]
