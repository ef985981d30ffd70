"""What of CloudFormation and SAM the local cloud knows, by name: what it reads, and what it passes over on purpose."""

from __future__ import annotations

from collections.abc import Mapping

IGNORED = "passed over here"
READ = "implemented"

RESOURCE_ATTRIBUTES = {"Type", "Properties", "Metadata", "DeletionPolicy", "UpdateReplacePolicy", "DependsOn"}
PROPERTIES: Mapping[str, Mapping[str, str]] = {
    "AWS::Serverless::LayerVersion": {
        "ContentUri": READ,
        "Description": IGNORED,
        "CompatibleRuntimes": IGNORED,
        "RetentionPolicy": IGNORED,
    },
    "AWS::Serverless::Api": {
        "StageName": READ,
        "GatewayResponses": READ,
        "EndpointConfiguration": IGNORED,
    },
    "AWS::Serverless::Function": {
        "CodeUri": READ,
        "Handler": READ,
        "Timeout": READ,
        "MemorySize": READ,
        "Layers": READ,
        "Environment": READ,
        "Events": READ,
        "EventInvokeConfig": READ,
        "Runtime": IGNORED,
        "Description": IGNORED,
        "Policies": IGNORED,
        "EphemeralStorage": IGNORED,
    },
    "AWS::S3::Bucket": {
        "BucketName": READ,
        "VersioningConfiguration": READ,
        "BucketEncryption": IGNORED,
        "OwnershipControls": IGNORED,
        "PublicAccessBlockConfiguration": IGNORED,
        "LifecycleConfiguration": IGNORED,
    },
    "AWS::S3::BucketPolicy": {"Bucket": IGNORED, "PolicyDocument": IGNORED},
    "AWS::DynamoDB::Table": {
        "AttributeDefinitions": READ,
        "KeySchema": READ,
        "GlobalSecondaryIndexes": READ,
        "TimeToLiveSpecification": READ,
        "BillingMode": READ,
        "PointInTimeRecoverySpecification": IGNORED,
        "SSESpecification": IGNORED,
    },
    "AWS::Serverless::StateMachine": {
        "Name": READ,
        "DefinitionUri": READ,
        "DefinitionSubstitutions": READ,
        "Type": IGNORED,
        "Policies": IGNORED,
    },
    "AWS::SQS::Queue": {"MessageRetentionPeriod": IGNORED, "SqsManagedSseEnabled": IGNORED},
}
EVENT_PROPERTIES: Mapping[str, set[str]] = {
    "Api": {"RestApiId", "Method", "Path", "ResponseTransferMode", "TimeoutInMillis"},
    "S3": {"Bucket", "Events", "Filter"},
    "EventBridgeRule": {"Pattern"},
    "ScheduleV2": {"ScheduleExpression", "RetryPolicy"},
}
SECTIONS = {
    "AWSTemplateFormatVersion", "Transform", "Description", "Parameters", "Globals", "Resources", "Outputs", "Metadata",
}  # fmt: skip
