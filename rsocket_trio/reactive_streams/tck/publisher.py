"""The verification of publishers."""

from __future__ import annotations

from .publisher_cancelling import CancellingTests
from .publisher_demand import DemandTests
from .publisher_streams import StreamTests
from .publisher_subscribing import SubscribingTests
from .verdicts import not_applicable

__all__ = ["PublisherVerification"]


class PublisherVerification(StreamTests, SubscribingTests, DemandTests, CancellingTests):
    """Verifies a publisher. Subclass it, with a name that pytest collects.

    At least ``publisher`` has to be declared: a method, or any callable as a ``staticmethod``. A
    factory may be an async function. If it has a parameter ``nursery``, it gets the nursery of the
    test, for publishers that need tasks; a parameter ``resource`` gets what ``resource`` yields.
    """

    test_r3_01_context_of_the_calls = not_applicable("3.1")
    test_r3_14_cancel_may_shut_down = not_applicable("3.14")
