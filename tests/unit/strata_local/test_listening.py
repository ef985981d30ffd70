"""The front's connections send a reply's last bytes at once."""

from __future__ import annotations

import asyncio
import socket
from contextlib import closing

from strata_local.gateway import _listen


def test_a_reply_does_not_wait_for_the_readers_word_between_head_and_body() -> None:
    async def sends_at_once(listener: socket.socket) -> bool:
        accepted: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

        async def note(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            connection = writer.get_extra_info("socket")
            accepted.set_result(bool(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)))
            writer.close()

        async with await asyncio.start_server(note, sock=listener):
            _, writer = await asyncio.open_connection(*listener.getsockname())
            found = await accepted
            writer.close()
            return found

    with closing(_listen(0)) as listener:
        assert asyncio.run(sends_at_once(listener))
