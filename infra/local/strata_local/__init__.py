"""The whole stack on one machine: Postgres, S3 and DynamoDB, function processes and an API, read from the template."""
