"""The state of one task of the crew, and the outcome of a handler."""

from __future__ import annotations

import contextvars

import pytest
import trio

from rsocket_trio.connection.shift import Shift, settle
from rsocket_trio.interactions.leftovers import differ

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


async def test_contexts_that_differ():
    """Contexts differ by any value, also where two values cannot be compared."""
    clean = contextvars.copy_context()
    assert not differ(contextvars.copy_context(), clean)
    assert differ(context_with(1), clean)
    assert not differ(context_with(1), context_with(1))
    assert differ(context_with(Uncomparable()), context_with(Uncomparable()))


async def test_the_first_scope_is_for_one_request():
    """So each new task finds the scope that a handler always leaves open."""
    shift = Shift({}, contextvars.copy_context())
    assert shift.task is trio.lowlevel.current_task()
    assert (shift.served, shift.longest) == (0, 1)


def test_an_error_of_a_handler_is_the_outcome():
    """An `Exception` is the outcome as it is; another error is wrapped in one."""
    failure = ValueError("no")
    operation = Closed()
    settle(operation, failure)
    settle(operation, GeneratorExit())
    assert operation.outcomes[0] is failure
    assert isinstance(operation.outcomes[1], RuntimeError)
    assert isinstance(operation.outcomes[1].__cause__, GeneratorExit)


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_errors_that_end_the_program(error):
    """They are raised further, and the stream is over as well."""
    operation = Closed()
    with pytest.raises(error):
        settle(operation, error())
    assert operation.outcomes == [None]
