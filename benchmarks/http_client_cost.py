#!/usr/bin/env python3
"""What aiohttp and httpx themselves add to the time to first byte, against a server that answers at once.

python benchmarks/http_client_cost.py
"""

import asyncio
import multiprocessing
import time
from collections.abc import Awaitable, Callable
from statistics import median

import aiohttp
import httpx

LEVELS = ((1, 400), (16, 40), (64, 20))  # (requests under way, requests of each worker)
BODY = b"x" * 2000
EVENT = b"data: {}\n\n"
ANSWER = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    + b"%x\r\n%s\r\n0\r\n\r\n" % (len(EVENT), EVENT)
)

Post = Callable[[], Awaitable[None]]  # sends one request and reads its whole answer


def serve(ports: "multiprocessing.Queue[int]") -> None:
    """Answer every request at once, on a free port."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                await reader.readuntil(b"\r\n\r\n")
                await reader.readexactly(len(BODY))
                writer.write(ANSWER)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def main() -> None:
        server = await asyncio.start_server(connected, "127.0.0.1", 0)
        ports.put(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(main())


async def measure(name: str, post: Post, concurrency: int, rounds: int) -> None:
    times_s: list[float] = []

    async def work() -> None:
        for _ in range(rounds):
            begin_s = time.perf_counter()
            await post()
            times_s.append(time.perf_counter() - begin_s)

    cpu_s = time.process_time()
    await asyncio.gather(*(work() for _ in range(concurrency)))
    cpu_s = time.process_time() - cpu_s
    each_us = cpu_s / len(times_s) * 1e6
    print(f"{name:8} {concurrency:3} under way: median {median(times_s) * 1e3:7.2f} ms, {each_us:5.0f} us of CPU each")


async def main(url: str) -> None:
    for concurrency, rounds in LEVELS:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

            async def by_aiohttp(session: aiohttp.ClientSession = session) -> None:
                async with session.post(url, data=BODY) as response:
                    async for _ in response.content.iter_any():
                        pass

            await measure("aiohttp", by_aiohttp, concurrency, rounds)
        async with httpx.AsyncClient(limits=httpx.Limits(max_connections=None)) as client:

            async def by_httpx(client: httpx.AsyncClient = client) -> None:
                async with client.stream("POST", url, content=BODY) as response:
                    async for _ in response.aiter_raw():
                        pass

            await measure("httpx", by_httpx, concurrency, rounds)


if __name__ == "__main__":
    queue: "multiprocessing.Queue[int]" = multiprocessing.Queue()
    server = multiprocessing.Process(target=serve, args=(queue,), daemon=True)
    server.start()
    try:
        asyncio.run(main(f"http://127.0.0.1:{queue.get()}/"))
    finally:
        server.terminate()
