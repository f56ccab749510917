"""The options of the Lumberjack sink: `LumberjackSinkSettings`."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from .... import Retry, lumberjack
from ....lumberjack.addresses import lumberjack_uri
from ...options import Options
from ...tls_options import TlsSettings

__all__ = ["LumberjackSinkSettings"]


@attrs.frozen(kw_only=True)
class LumberjackSinkSettings:
    """Where and how events are shipped. Spark pickles it for the executors. Times are in seconds.

    Attributes:
        hosts: The addresses, e.g. ``lumberjack://host:5044``.
        compression: The level, 0 to 9.
        window: The largest number of events in one window.
        load_balance: Whether each task ships to all hosts.
        attempts: A task gives up after so many failures in a row.
        timeout: The longest time without an acknowledgement.
        connect_timeout: The longest time for one attempt to connect.
        tls: The settings of TLS.
    """

    hosts: tuple[str, ...]
    compression: int
    window: int
    load_balance: bool
    attempts: int
    timeout: float
    connect_timeout: float
    tls: TlsSettings

    @classmethod
    def read(cls, given: Mapping[str, str], *, overwrite: bool) -> LumberjackSinkSettings:
        """Read and check the options of a write.

        Raises:
            ValueError: An option is wrong, missing or unknown; or the mode is "overwrite".
        """
        if overwrite:
            raise ValueError(
                'format("lumberjack") ships events and cannot overwrite: use mode("append"), or '
                'the output mode "append"'
            )
        options = Options(given)
        tls = options.tls()
        options.text("hosts")
        hosts = tuple(_uri(each, encrypted=tls.given) for each in options.list("hosts"))
        found = cls(
            hosts=hosts,
            compression=options.integer("compression", 3, 0, 9),
            window=options.integer("window", 2048, 1, 65536),
            load_balance=options.flag("loadBalance", default=False),
            attempts=options.integer("maxAttempts", 10, 1, 1_000_000),
            timeout=options.milliseconds("timeoutMs", 300_000),
            connect_timeout=options.milliseconds("connectTimeoutMs", 10_000),
            tls=tls,
        )
        options.finish()
        if not hosts:
            raise ValueError("the option hosts names no host")
        if tls.given and not any(each.startswith("lumberjacks:") for each in hosts):
            raise ValueError("the options of TLS need a host with lumberjacks://")
        return found

    def config(self) -> lumberjack.ShipperConfig:
        """Return the settings of the client."""
        return lumberjack.ShipperConfig(
            compression_level=self.compression,
            initial_window=min(64, self.window),
            max_window=self.window,
            load_balance=self.load_balance,
            retry=Retry(max_attempts=self.attempts),
            connect_timeout=self.connect_timeout,
        )


def _uri(host: str, *, encrypted: bool) -> str:
    """Return the address of a host: ``host``, ``host:port``, or an address already."""
    uri = host if "://" in host else f"lumberjack{'s' if encrypted else ''}://{host}"
    try:
        lumberjack_uri(uri)
    except ValueError as error:
        raise ValueError(f"the option hosts: {error}") from error
    return uri
