"""Step Functions: executions for large jobs."""
