"""Let errors in the body of our ``async with`` blocks leave without a group: `Block`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import trio

from ..errors import single_error

__all__ = ["Block"]


class Block:
    """Keeps an error of the body of a block out of the nurseries around it.

    A nursery would wrap the error in a group, and a cancellation while closing would replace it.
    So::

        block = Block()
        with block.around():
            async with trio.open_nursery():
                with block.body():
                    yield

    Attributes:
        error: The error that the body raised.
    """

    def __init__(self) -> None:
        self.error: BaseException | None = None

    @contextmanager
    def body(self) -> Iterator[None]:
        """Surround the ``yield``, and keep its error, unless it is a cancellation."""
        try:
            yield
        except Exception as error:  # `around` raises it
            self.error = error
        except trio.Cancelled:
            raise
        except BaseException as error:
            # `KeyboardInterrupt`, for example, must go on; but it is not grouped either.
            self.error = error
            raise

    @contextmanager
    def around(self) -> Iterator[None]:
        """Surround all that is closed with the block, and raise the error of the body.

        Raises:
            BaseException: The error of the body; or an error of the closing.
        """
        try:
            yield
        except trio.Cancelled:
            if self.error is None:
                raise
            # A cancellation interrupted the closing; the error of the body is more important.
        except BaseExceptionGroup as group:
            if self.error is None or single_error(group) is not single_error(self.error):
                raise
        error = self.error
        if error is not None:
            context = error.__context__
            try:
                raise error
            finally:
                error.__context__ = context  # without the cancellation or group of the nursery
                self.error = None
                del error
