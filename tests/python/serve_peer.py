"""A foreign client of ``bentpipe-rt serve``: aioquic with HTTP/3. It prints the result as JSON.

- ``python serve_peer.py PORT get PATH...``: status, length and SHA-256 of each, at once on one connection
- ``python serve_peer.py PORT resume PATH``: twice, the second time on a resumed session with early data
- ``python serve_peer.py PORT hostile KIND...``: how each connection ended: its error code, null if it did not
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import ssl
import sys
from typing import Any

from aioquic.asyncio.client import connect
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import DataReceived, H3Event, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ConnectionTerminated, QuicEvent
from aioquic.tls import SessionTicket

PATIENCE_S = 5.0
HEADERS_FRAME, DATA_FRAME, SETTINGS_FRAME = b"\x01", b"\x00", b"\x04"


class Client(QuicConnectionProtocol):
    """Send requests and store the responses."""

    def __init__(self, *arguments: Any, **words: Any) -> None:
        super().__init__(*arguments, **words)
        self.http = H3Connection(self._quic)
        self.answers: dict[int, dict[str, Any]] = {}
        self.waiting: dict[int, asyncio.Future[None]] = {}
        self.error: int | None = None
        self.over = asyncio.Event()

    def quic_event_received(self, event: QuicEvent) -> None:
        if isinstance(event, ConnectionTerminated):
            self.error = event.error_code
            self.over.set()
        for one in self.http.handle_event(event):
            self._take(one)

    def _take(self, event: H3Event) -> None:
        if not isinstance(event, (HeadersReceived, DataReceived)):
            return
        answer = self.answers.setdefault(event.stream_id, {"body": b"", "headers": {}})
        if isinstance(event, HeadersReceived):
            answer["headers"] = {name.decode(): value.decode() for name, value in event.headers}
        else:
            answer["body"] += event.data
        if event.stream_ended and event.stream_id in self.waiting:
            self.waiting[event.stream_id].set_result(None)

    def ask(self, path: str, method: str = "GET", *, send: bool = True) -> int:
        stream = self._quic.get_next_available_stream_id()
        fields = {":method": method, ":scheme": "https", ":authority": "origin.example", ":path": path}
        block = [(name.encode(), value.encode()) for name, value in fields.items()]
        self.http.send_headers(stream, block, end_stream=True)
        self.waiting[stream] = asyncio.get_running_loop().create_future()
        if send:
            self.transmit()
        return stream

    async def answer(self, stream: int) -> dict[str, Any]:
        await asyncio.wait_for(self.waiting[stream], 30)
        found = self.answers[stream]
        return {
            "status": int(found["headers"][":status"]),
            "length": len(found["body"]),
            "sha256": hashlib.sha256(found["body"]).hexdigest(),
            "headers": found["headers"],
            "retries": self._quic._retry_count,
        }

    def raw(self, data: bytes, *, end: bool = False) -> int:
        """A request stream of these bytes."""
        stream = self._quic.get_next_available_stream_id()
        self._quic.send_stream_data(stream, data, end_stream=end)
        self.transmit()
        return stream

    def uni(self, data: bytes) -> int:
        """A unidirectional stream of these bytes."""
        stream = self._quic.get_next_available_stream_id(is_unidirectional=True)
        self._quic.send_stream_data(stream, data)
        self.transmit()
        return stream


def configuration() -> QuicConfiguration:
    return QuicConfiguration(is_client=True, alpn_protocols=H3_ALPN, verify_mode=ssl.CERT_NONE)


async def get(port: int, paths: list[str]) -> Any:
    async with connect(
        "127.0.0.1", port, configuration=configuration(), create_protocol=Client
    ) as connection:
        assert isinstance(connection, Client)
        streams = [connection.ask(path) for path in paths]
        return [await connection.answer(stream) for stream in streams]


async def resume(port: int, path: str) -> Any:
    tickets: list[SessionTicket] = []
    results = []
    for _ in range(2):
        settings = configuration()
        settings.session_ticket = tickets[-1] if tickets else None
        async with connect(
            "127.0.0.1",
            port,
            configuration=settings,
            create_protocol=Client,
            session_ticket_handler=tickets.append,
            wait_connected=not tickets,
        ) as connection:
            assert isinstance(connection, Client)
            answer = await connection.answer(connection.ask(path))
            tls = connection._quic.tls
            results.append(
                answer | {"resumed": tls.session_resumed, "early": connection._quic.tls.early_data_accepted}
            )
            await asyncio.sleep(0.1)  # for the tickets
    return results


def varint(value: int) -> bytes:
    return (value | 0x8000_0000).to_bytes(4, "big")


async def endless_header(client: Client) -> None:
    """Announce 1 GB and send a part of it."""
    stream = client.raw(HEADERS_FRAME + varint((1 << 30) - 1))
    for _ in range(200):
        client._quic.send_stream_data(stream, bytes(1000))
        client.transmit()
        await asyncio.sleep(0.001)


async def many_fields(client: Client) -> None:
    block = b"\x00\x00" + (b"\x23abc" + b"\x7f\x00" + b"x" * 127) * 300
    client.raw(HEADERS_FRAME + varint(len(block)) + block, end=True)


async def encoder_flood(client: Client) -> None:
    """Instructions for a table that was never allowed, on our three streams, one of which is for them."""
    for stream in (2, 6, 10):
        client._quic.send_stream_data(stream, b"\x3f\xe1\xff\x03" * 50_000)
    client.transmit()


async def rapid_reset(client: Client) -> None:
    for _ in range(3000):
        following = client._quic.get_next_available_stream_id()
        while following // 4 >= client._quic._remote_max_streams_bidi and not client.over.is_set():
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(client.over.wait(), 0.002)
        if client.over.is_set():
            return
        # Unsent data is never sent: the server sees a cancelled request before it could answer.
        stream = client.ask("/", send=False)
        client._quic.reset_stream(stream, 0x10C)
        client._quic.stop_stream(stream, 0x10C)
        client.transmit()


RAW = {
    "garbage": HEADERS_FRAME + varint(64) + bytes(range(192, 256)),
    "data first": DATA_FRAME + varint(3) + b"abc",
    "settings on a request": SETTINGS_FRAME + varint(0),
}
ATTACKS = {
    "endless header": endless_header,
    "many fields": many_fields,
    "encoder flood": encoder_flood,
    "rapid reset": rapid_reset,
}


async def hostile(port: int, kind: str) -> Any:
    async with connect(
        "127.0.0.1", port, configuration=configuration(), create_protocol=Client
    ) as connection:
        assert isinstance(connection, Client)
        if kind in RAW:
            connection.raw(RAW[kind], end=True)
        elif kind == "second control stream":
            connection.uni(b"\x00" + SETTINGS_FRAME + varint(0))
        else:
            await ATTACKS[kind](connection)
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(connection.over.wait(), 0.5 if kind == "many fields" else PATIENCE_S)
        statuses = [answer["headers"].get(":status") for answer in connection.answers.values()]
        return statuses if kind == "many fields" else connection.error


async def attacks(port: int, kinds: list[str]) -> Any:
    return {kind: await hostile(port, kind) for kind in kinds}


async def main() -> None:
    port, action, *rest = sys.argv[1:]
    calls = {
        "get": lambda: get(int(port), rest),
        "resume": lambda: resume(int(port), rest[0]),
        "hostile": lambda: attacks(int(port), rest),
    }
    print(json.dumps(await calls[action]()))


if __name__ == "__main__":
    asyncio.run(main())
