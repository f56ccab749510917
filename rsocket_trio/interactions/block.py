"""What the body of an ``async with`` block of ours raises comes out as itself: `Block`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import trio

from ..errors import single_error

__all__ = ["Block"]


class Block:
    """Keeps what the body of a block raises out of the nurseries around it.

    A nursery would put it into a group, and a cancellation while closing would take its place. So::

        block = Block()
        with block.around():
            async with trio.open_nursery():
                with block.body():
                    yield

    Attributes:
        error: What the body raised.
    """

    def __init__(self) -> None:
        self.error: BaseException | None = None

    @contextmanager
    def body(self) -> Iterator[None]:
        """Around the ``yield``: what comes out of it is kept, unless it is a cancellation."""
        try:
            yield
        except Exception as error:
            self.error = error
        except trio.Cancelled:
            raise
        except BaseException as error:
            # Not to be kept from what it ends; but it is not grouped either.
            self.error = error
            raise

    @contextmanager
    def around(self) -> Iterator[None]:
        """Around all that is closed with the block: raises what the body raised.

        Raises:
            BaseException: That; or what came out of the closing beside it.
        """
        try:
            yield
        except trio.Cancelled:
            if self.error is None:
                raise
            # The close was cut short; what the body raised is what has happened.
        except BaseExceptionGroup as group:
            if self.error is None or single_error(group) is not single_error(self.error):
                raise
        error = self.error
        if error is not None:
            context = error.__context__
            try:
                raise error
            finally:
                error.__context__ = context  # and not what it was kept out of
                self.error = None
                del error
