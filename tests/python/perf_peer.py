"""A foreign peer of ``bentpipe perf``: aioquic, speaking ALPN perf.

    python perf_peer.py server PORT CERTIFICATE KEY
    python perf_peer.py client PORT UP DOWN...

The client opens a stream for every DOWN, sends UP bytes on each and prints as JSON what came back.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
from typing import Any

from aioquic.asyncio import connect, serve
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import QuicEvent, StreamDataReceived

HEADER = 8


class Answering(QuicConnectionProtocol):
    """Sends as many bytes as the first eight of a stream say, once it has ended."""

    def __init__(self, *arguments: Any, **words: Any) -> None:
        super().__init__(*arguments, **words)
        self.heads: dict[int, bytes] = {}

    def quic_event_received(self, event: QuicEvent) -> None:
        if isinstance(event, StreamDataReceived):
            head = self.heads.get(event.stream_id, b"") + event.data
            self.heads[event.stream_id] = head[:HEADER]
            if event.end_stream:
                length = int.from_bytes(head[:HEADER], "big")
                self._quic.send_stream_data(event.stream_id, bytes(length), end_stream=True)
                self.transmit()


async def answer(port: int, certificate: str, key: str) -> None:
    configuration = QuicConfiguration(is_client=False, alpn_protocols=["perf"])
    configuration.load_cert_chain(certificate, key)
    await serve("127.0.0.1", port, configuration=configuration, create_protocol=Answering)
    print("ready", flush=True)
    await asyncio.sleep(60)


async def ask(port: int, up: int, downs: list[int]) -> None:
    configuration = QuicConfiguration(is_client=True, alpn_protocols=["perf"], verify_mode=ssl.CERT_NONE)
    async with connect("127.0.0.1", port, configuration=configuration) as connection:

        async def one(down: int) -> int:
            reader, writer = await connection.create_stream()
            writer.write(down.to_bytes(HEADER, "big") + bytes(up - HEADER))
            writer.write_eof()
            return len(await reader.read())

        print(json.dumps(await asyncio.gather(*[one(down) for down in downs])))


if __name__ == "__main__":
    role, port, *rest = sys.argv[1:]
    if role == "server":
        asyncio.run(answer(int(port), *rest))
    else:
        up, *downs = [int(word) for word in rest]
        asyncio.run(ask(int(port), up, downs))
