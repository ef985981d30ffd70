"""What the local cloud raises; each text says what to do."""

from __future__ import annotations


class LocalCloudError(Exception):
    """The local cloud can't do that."""


class UnsupportedTemplate(LocalCloudError):
    """The template asks for something that the local cloud does not implement."""


class PostgresUnavailable(LocalCloudError):
    """The bundled Postgres can't run here."""


class AlreadyRunning(LocalCloudError):
    """A local cloud runs in this data directory already."""


class NotRunning(LocalCloudError):
    """No local cloud runs in this data directory."""


class PortTaken(LocalCloudError):
    """Something else listens on the port."""
