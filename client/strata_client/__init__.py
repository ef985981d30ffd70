"""The client of Strata: SDK and command line.

from strata_client import StrataClient, Delta

with StrataClient("http://127.0.0.1:8000") as strata:
    for event in strata.ask("demo", "How are jobs kept in order?"):
        if isinstance(event, Delta):
            print(event.text, end="")
"""

from strata_client.async_client import AsyncStrataClient
from strata_client.client import StrataClient
from strata_client.errors import ApiUnreachable, ClientError, PackingError, StrataApiError, StreamBroken
from strata_client.events import Citation, Delta, Done, JobEvent, Meta, Sources
from strata_client.packing import Snapshot, pack
from strata_client.retrying import RetryPolicy

__all__ = [
    "ApiUnreachable",
    "AsyncStrataClient",
    "Citation",
    "ClientError",
    "Delta",
    "Done",
    "JobEvent",
    "Meta",
    "PackingError",
    "RetryPolicy",
    "Snapshot",
    "Sources",
    "StrataApiError",
    "StrataClient",
    "StreamBroken",
    "pack",
]
