"""The rules of rsio/0 as tests of any implementation, over raw connections.

``rsocket-trio conformance rsio://HOST:PORT`` runs them. The implementation publishes the fixtures
that `rsocket_trio.testing.rsio_peer` lists.

The modules, in reading order:

- ``octets``: messages as octets, also wrong ones
- ``parser``: octets as messages
- ``verdicts``: how a check ends
- ``ledger``: what was said on a connection, and the rules for each message
- ``probe``: one raw connection
- ``trial``: one run of one rule
- ``subjects``: how the implementation is reached
- ``rule``: what a rule is
- ``rules``: all rules
- ``running``: run them
"""

from .ledger import Incoming, Outgoing
from .parser import Message
from .probe import Probe, Role
from .rule import SOURCES, Check, Rule, Source
from .rules import RULES
from .running import Result, Verdict, run_rule, run_rules
from .subjects import Accepted, Dialled
from .trial import Counters, Subject, Trial
from .verdicts import Breach, Failed, Skipped

__all__ = [
    "RULES",
    "SOURCES",
    "Accepted",
    "Breach",
    "Check",
    "Counters",
    "Dialled",
    "Failed",
    "Incoming",
    "Message",
    "Outgoing",
    "Probe",
    "Result",
    "Role",
    "Rule",
    "Skipped",
    "Source",
    "Subject",
    "Trial",
    "Verdict",
    "run_rule",
    "run_rules",
]
