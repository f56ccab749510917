"""The programs of this package: `main` is ``rsocket-trio``, and ``python -m rsocket_trio``.

Before anything else is imported, a signal that stops a program gets a handler that ends the process
at once, without a traceback. So Ctrl-C works alike at each point of the start. A command that has
something to finish replaces the handler while it runs (`rsocket_trio.cli.interrupt`); what the
others leave behind survives `os._exit`, as it survives a crash.
"""

import os
import signal
import sys

__all__ = ["main", "protoc_plugin"]


def main() -> int:
    """Run the command line; return its exit status."""
    _end_at_signals()
    from rsocket_trio.cli.main import main

    return main()


def protoc_plugin() -> int:
    """Run ``protoc-gen-trio-ttrpc``; return its exit status."""
    _end_at_signals()
    from rsocket_trio.ttrpc.codegen.plugin import main

    return main()


def _end_at_signals() -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        # A shell starts programs in the background with SIGINT ignored.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _end)


def _end(number: int, _frame: object) -> None:
    # An exception could come out of an import, a destructor or trio's own code.
    os._exit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
