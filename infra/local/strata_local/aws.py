"""S3, DynamoDB and Step Functions on this machine: moto's server in our process, with what the template names.

They start empty every time. moto's S3 events lack the `sequencer` and the version, and would go to moto's own idea of a
function; two of its private functions are replaced while the server runs, so that the events are whole and invoke the
real ones. `states` does the same for Lambda and Step Functions. moto keeps its state in the process: one of these at a
time.
"""

from __future__ import annotations

import inspect
import itertools
import logging
import time
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

import boto3
from moto.moto_server.threaded_moto_server import ThreadedMotoServer
from moto.s3 import notifications

from strata_local.errors import LocalCloudError
from strata_local.serial import serialise_dynamodb
from strata_local.stack import REGION, Function, Stack
from strata_local.states import Call, Invoke, LocalStates

_TALKATIVE = {"werkzeug": logging.INFO, "moto": logging.WARNING}
_REPLACED = {
    "_get_s3_event": ["event_name", "bucket", "key", "notification_id"],
    "_invoke_awslambda": ["account_id", "event_body", "fn_arn", "region_name"],
}
for _name, _parameters in _REPLACED.items():
    if list(inspect.signature(getattr(notifications, _name)).parameters) != _parameters:
        raise ImportError(f"moto.s3.notifications.{_name} has changed: strata_local.aws must be adapted to this moto.")


class LocalAws:
    """`start` makes the server and everything in it; `environment` lets boto3 find it."""

    def __init__(self, stack: Stack, *, invoke: Invoke, call: Call, log_path: Path) -> None:
        self._stack = stack
        self._invoke = invoke
        self._states = LocalStates(stack, invoke=invoke, call=call)
        self._log_path = log_path
        self._server: ThreadedMotoServer | None = None
        self._log_handler: logging.Handler | None = None
        self._originals: dict[str, Any] = {}
        self._sequence = itertools.count(time.time_ns())

    @property
    def environment(self) -> dict[str, str]:
        """For function processes and clients. No file of the user's own AWS set-up is read beside it."""
        if self._server is None:
            raise LocalCloudError("The local AWS is not running.")
        _, port = self._server.get_host_and_port()
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
            "AWS_ACCESS_KEY_ID": "local",
            "AWS_SECRET_ACCESS_KEY": "local",
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": "/dev/null",
            "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
        }

    def start(self) -> None:
        """Serve empty buckets and tables, as the template has them. Raises `LocalCloudError` where this process has a
        local cloud already: moto's state is the process'.
        """
        if notifications._invoke_awslambda.__module__ != notifications.__name__:
            raise LocalCloudError("Another local cloud runs in this process.")
        self._redirect_log()
        self._replace_notifications()
        serialise_dynamodb()
        self._server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        self._server.start()
        self._states.start(self._server.get_host_and_port()[1])
        reset = urllib.request.Request(f"{self.environment['AWS_ENDPOINT_URL']}/moto-api/reset", method="POST")  # noqa: S310
        with urllib.request.urlopen(reset, timeout=30):  # noqa: S310 - our own server
            pass
        self._make_tables()
        self._make_buckets()
        self._states.make(self.client("stepfunctions"))

    def stop(self) -> None:
        self._states.stop()
        if self._server is not None:
            self._server.stop()
            self._server = None
        for name, original in self._originals.items():
            setattr(notifications, name, original)
        self._originals.clear()
        if self._log_handler is not None:
            for name in _TALKATIVE:
                logging.getLogger(name).removeHandler(self._log_handler)
            self._log_handler.close()
            self._log_handler = None

    def client(self, service: str) -> Any:
        """A boto3 client of this server."""
        environment = self.environment
        return boto3.session.Session().client(
            service,  # type: ignore[call-overload]
            endpoint_url=environment["AWS_ENDPOINT_URL"],
            region_name=REGION,
            aws_access_key_id=environment["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=environment["AWS_SECRET_ACCESS_KEY"],
        )

    def _make_tables(self) -> None:
        dynamodb = self.client("dynamodb")
        for table in self._stack.tables:
            dynamodb.create_table(**table.definition)
            if table.ttl_attribute is not None:
                dynamodb.update_time_to_live(
                    TableName=table.name,
                    TimeToLiveSpecification={"Enabled": True, "AttributeName": table.ttl_attribute},
                )

    def _make_buckets(self) -> None:
        s3 = self.client("s3")
        for bucket in self._stack.buckets:
            s3.create_bucket(Bucket=bucket.name)
            if bucket.versioned:
                s3.put_bucket_versioning(Bucket=bucket.name, VersioningConfiguration={"Status": "Enabled"})
            configurations = [
                configuration
                for function in self._stack.functions.values()
                for configuration in _notifications_of(function, bucket.name)
            ]
            if configurations:
                s3.put_bucket_notification_configuration(
                    Bucket=bucket.name, NotificationConfiguration={"LambdaFunctionConfigurations": configurations}
                )

    def _replace_notifications(self) -> None:
        self._originals = {name: getattr(notifications, name) for name in _REPLACED}
        make_event = self._originals["_get_s3_event"]

        def whole_event(event_name: str, bucket: Any, key: Any, notification_id: str) -> dict[str, Any]:
            event: dict[str, Any] = make_event(event_name, bucket, key, notification_id)
            described = event["Records"][0]["s3"]["object"]
            described["key"] = quote_plus(key.name, safe="/")
            described["sequencer"] = f"{next(self._sequence):016X}"
            if bucket.is_versioned:
                described["versionId"] = key.version_id
            return event

        def invoke_function(account_id: str, event_body: Any, fn_arn: str, region_name: str) -> None:  # noqa: ARG001
            self._invoke(fn_arn.rsplit(":", 1)[1], event_body)

        for name, replacement in (("_get_s3_event", whole_event), ("_invoke_awslambda", invoke_function)):
            setattr(notifications, name, replacement)

    def _redirect_log(self) -> None:
        """Requests, and what moto has to say, go to a file of ours instead of the terminal."""
        self._log_handler = logging.FileHandler(self._log_path, encoding="utf-8")
        for name, level in _TALKATIVE.items():
            talkative = logging.getLogger(name)
            talkative.addHandler(self._log_handler)
            talkative.propagate = False
            talkative.setLevel(level)


def _notifications_of(function: Function, bucket: str) -> list[dict[str, Any]]:
    return [
        {
            "LambdaFunctionArn": function.arn,
            "Events": list(trigger.events),
            "Filter": {
                "Key": {
                    "FilterRules": [
                        {"Name": name, "Value": value}
                        for name, value in (("prefix", trigger.prefix), ("suffix", trigger.suffix))
                        if value
                    ]
                }
            },
        }
        for trigger in function.triggers
        if trigger.bucket == bucket
    ]
