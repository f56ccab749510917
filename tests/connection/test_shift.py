"""What one task of the crew remembers, and what becomes of what came out of a handler."""

from __future__ import annotations

import contextvars

import pytest
import trio

from rsocket_trio.connection.shift import Shift, differ, settle

VARIABLE = contextvars.ContextVar("VARIABLE", default=None)


class Uncomparable:
    def __eq__(self, other):
        raise TypeError("no")

    __hash__ = None


class Closed:
    """Stands for an operation: notes how it was closed."""

    def __init__(self):
        self.outcomes = []

    def close(self, error):
        self.outcomes.append(error)


def context_with(value):
    context = contextvars.copy_context()
    context.run(VARIABLE.set, value)
    return context


async def test_contexts_differ():
    """By any value; also where two values cannot be compared, which is no reason to fail."""
    clean = contextvars.copy_context()
    assert not differ(contextvars.copy_context(), clean)
    assert differ(context_with(1), clean)
    assert not differ(context_with(1), context_with(1))
    assert differ(context_with(Uncomparable()), context_with(Uncomparable()))


async def test_the_first_scope_is_for_one_request():
    """So what a handler always leaves open is found in each new task."""
    shift = Shift({})
    assert shift.task is trio.lowlevel.current_task()
    assert (shift.served, shift.longest) == (0, 1)


def test_what_came_out_is_the_outcome():
    """An exception as it is; what is none in one that tells of it."""
    failure = ValueError("no")
    operation = Closed()
    settle(operation, failure)
    settle(operation, GeneratorExit())
    assert operation.outcomes[0] is failure
    assert isinstance(operation.outcomes[1], RuntimeError)
    assert isinstance(operation.outcomes[1].__cause__, GeneratorExit)


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_what_ends_the_program(error):
    """It goes on, and the stream is over all the same."""
    operation = Closed()
    with pytest.raises(error):
        settle(operation, error())
    assert operation.outcomes == [None]
