"""A responder with a sink, for tests that kill it: ``python -m ... DIRECTORY DATABASE PORT``.

The application writes rows, query and number of a batch in one transaction. It prints the port, and
then a line for each call of the handler.
"""

from __future__ import annotations

import sqlite3
import sys

import trio

from rsocket_trio import Router, serve
from rsocket_trio.spark import CommittedBatch, sink_receiver


async def main(directory: str, path: str, port: str) -> None:
    """Serve until the end of the process."""
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("CREATE TABLE IF NOT EXISTS rows (query, batch, v)")
    database.execute("CREATE TABLE IF NOT EXISTS batches (query, batch, UNIQUE (query, batch))")

    async def store(batch: CommittedBatch) -> None:
        rows = [(batch.query, batch.batch, row["v"]) async for row in batch.rows()]
        database.execute("BEGIN")
        new = database.execute(
            "INSERT OR IGNORE INTO batches VALUES (?, ?)", (batch.query, batch.batch)
        ).rowcount
        if new:
            database.executemany("INSERT INTO rows VALUES (?, ?, ?)", rows)
        database.execute("COMMIT")
        print("handled", batch.batch, flush=True)
        await trio.sleep(0.01)  # a kill here comes before the batch is remembered

    router = Router()
    async with sink_receiver(router, "alerts", store, directory=directory):
        async with trio.open_nursery() as nursery:
            server = await nursery.start(serve, router, f"tcp://127.0.0.1:{port}")
            print(server.uris[0], flush=True)


if __name__ == "__main__":
    trio.run(main, *sys.argv[1:])
