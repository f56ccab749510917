"""The conformance kit (TCK) of Reactive Streams: verifies publishers, subscribers and processors.

Subclass a verification, and run pytest::

    class TestMyPublisher(PublisherVerification):
        failing = staticmethod(my_failing_publisher)      # optional: more tests are run

        def publisher(self, n: int) -> Publisher[int]:    # a stream of exactly n elements
            return MyPublisher(range(n))

    class TestMyPump(PublisherVerification):              # it needs a nursery: name the parameter
        def publisher(self, n: int, nursery: trio.Nursery) -> Publisher[int]:
            return MyPump(range(n), nursery)

Or in one call, for example for several factories::

    TestMine = verify_publisher(lambda n: MyPublisher(range(n)), subscribers="one")

Each test has a name such as ``test_r3_09_...``, the marker ``rs_rule("3.9")``, and ``rs_required``
or ``rs_optional``. A violation of a required rule fails. An optional one that is not met is an
xfail. A skipped test says that its rule is not applicable, or which capability is not declared.
The plugin `rsocket_trio_tck_plugin` adds the markers, a summary by rule, and ``--rs-report=FILE``.

The modules, in reading order:

- ``rules``: the 43 rules, and how far each is checked
- ``verdicts``: what a test can find, and the decorators that make tests
- ``declarations``: what a class may declare
- ``steps``: ends a call that never comes back
- ``trials``: runs one test: clock, nursery, factories, waiting
- ``subscribers``: subscribers that the kit gives to a publisher
- ``driver``: plays the publisher for a subscriber
- ``sources``: a small publisher that feeds processors
- ``publisher_base``: what is declared about a publisher
- ``publisher_streams``: counts, ends and order of signals
- ``publisher_subscribing``: subscribe, one subscriber and many
- ``publisher_demand``: request, and what it has to survive
- ``publisher_cancelling``: cancel, and what it has to stop
- ``publisher``: the verification of publishers
- ``subscriber_base``: what is declared about a subscriber
- ``subscriber``: the verification of subscribers
- ``processor``: the verification of processors
- ``forms``: verifications in one call
"""

from .forms import verify_processor, verify_publisher, verify_subscriber
from .processor import ProcessorVerification
from .publisher import PublisherVerification
from .rules import RULES, Kind, Rule
from .subscriber import SubscriberVerification
from .subscribers import ManualSubscriber
from .trials import SignalledError, Trial, Verification
from .verdicts import Violation

__all__ = [
    "RULES",
    "Kind",
    "ManualSubscriber",
    "ProcessorVerification",
    "PublisherVerification",
    "Rule",
    "SignalledError",
    "SubscriberVerification",
    "Trial",
    "Verification",
    "Violation",
    "verify_processor",
    "verify_publisher",
    "verify_subscriber",
]
