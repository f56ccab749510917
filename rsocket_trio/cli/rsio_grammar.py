"""The grammar of the group ``rsio``: its commands, options, defaults, help."""

from __future__ import annotations

from .commands import Commands, add_command, add_group
from .options import (
    above_zero,
    add_client_tls,
    add_json,
    add_verbosity,
    add_wiretap,
    positive,
    rsio_address,
)

__all__ = ["add_rsio"]


def add_rsio(commands: Commands) -> None:
    """Add the group and its commands."""
    group = add_group(
        commands,
        "rsio",
        "subscribe to publishers by rsio, Reactive Streams over a network",
        "Publishers are served by: rsocket-trio serve TARGET --listen rsio://...",
        "subscribe rsio://127.0.0.1:7980 'ticks?every=0.1' --take 5",
    )
    parser = add_command(
        group,
        "rsio subscribe",
        "rsio_subscribe",
        "print the elements of a publisher as they arrive",
        'Each element is a line. With --json it is an object with "data" if the element is\n'
        'UTF-8, else "data_hex".',
        "rsio://127.0.0.1:7980 'ticks?every=0.1' --take 5",
        "rsios://example.org:7980 prices --ca ca.pem --json",
        "rsio+ws://127.0.0.1:7981/rsio prices --prefetch 1",
    )
    parser.add_argument(
        "uri",
        metavar="URI",
        type=rsio_address,
        help="address of the server, e.g. rsio://127.0.0.1:7980",
    )
    parser.add_argument("name", metavar="NAME", help="name of the publisher")
    parser.last_positional = "name"
    parser.add_argument(
        "--prefetch",
        metavar="N",
        type=positive,
        default=64,
        help="number of elements that the server may send in advance (default 64)",
    )
    parser.add_argument(
        "--take", metavar="N", type=positive, help="cancel the subscription after N elements"
    )
    parser.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=above_zero,
        default=10.0,
        help="how long connecting may take (default 10)",
    )
    add_json(parser)
    add_client_tls(parser, "rsios:// and rsio+wss://")
    add_wiretap(parser)
    add_verbosity(parser)
