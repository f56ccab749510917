"""Remote publishers, and publishers of elements of one size, pass the conformance kit."""

from __future__ import annotations

from functools import partial

import trio

from rsocket_trio import rsio
from rsocket_trio.reactive_streams import failed, from_iterable, just
from rsocket_trio.reactive_streams.tck import verify_publisher
from rsocket_trio.rsio.carrier import as_transport
from rsocket_trio.rsio.connection.connection import Connection
from rsocket_trio.rsio.connection.link import Link
from rsocket_trio.sealed import make
from tests.rsio.engine_scenes import numbers, words


def then_fail(elements):
    yield from elements
    raise rsio.PublisherError("the source fails")


def remote(nursery, publisher):
    """A publisher as the other end of a connection sees it."""
    ours, theirs = trio.testing.memory_stream_pair()
    nursery.start_soon(rsio.serve_stream, {"it": publisher}, theirs)
    link = Link(as_transport(ours), "client", rsio.RsioConfig(), lambda name: None, {})
    link.queue.put(link.session.hello())
    nursery.start_soon(link.run)
    return make(Connection, link, None).publisher("it")


def long_words(n):
    return [bytes([number % 256]) * 40_000 for number in range(n)]


TestRemote = verify_publisher(
    lambda n, nursery: remote(nursery, from_iterable(numbers(n))),
    failing=lambda n, nursery: remote(nursery, from_iterable(partial(then_fail, numbers(n)))),
    max_elements=2000,
)
TestRemoteOfOneSize = verify_publisher(
    lambda n, nursery: remote(nursery, rsio.fixed_size(words(n), 8)), max_elements=2000
)
TestRemoteOfLongElements = verify_publisher(
    lambda n, nursery: remote(nursery, from_iterable(long_words(n))), max_elements=20
)
TestFixedSize = verify_publisher(
    lambda n: rsio.fixed_size(words(n), 8),
    failing=lambda n: (
        rsio.fixed_size(partial(then_fail, words(n)), 8)
        if n
        else failed(rsio.PublisherError("at once"))
    ),
    max_elements=2000,
)
TestFixedSizeOfBlocks = verify_publisher(
    lambda n: rsio.fixed_size([b"".join(words(n))] if n else [], 8, packed=True), max_elements=2000
)
TestFixedSizeOfPublisher = verify_publisher(
    lambda n: rsio.fixed_size(from_iterable(words(n)), 8), max_elements=2000
)
TestFixedSizeOfPublishedBlocks = verify_publisher(
    lambda n: rsio.fixed_size(just(*([b"".join(words(n))] if n else [])), 8, packed=True),
    max_elements=2000,
)
