"""The 43 rules of Reactive Streams: what each says, and how far this kit can check it.

The numbers are those of the specification for the JVM and for JavaScript, which are the same. A
text is a summary: the specification has the exact words.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import attrs

__all__ = ["RULES", "Kind", "Rule"]

Kind: TypeAlias = Literal["required", "optional", "report", "not applicable"]
"""How far a rule is checked. Of a rule that is only reported, the kit prints a measurement."""


@attrs.frozen
class Rule:
    """A rule: its number, what it says, how far it is checked.

    Attributes:
        number: Chapter and rule, such as ``"3.9"``.
        text: What the rule says, in one sentence.
        kind: How far this kit checks it.
        why: Why it is not checked, or not required. Empty for a required rule.
    """

    number: str
    text: str
    kind: Kind = "required"
    why: str = ""


_ONE_THREAD = "in one thread this is always so"

_ALL: Final = (
    Rule("1.1", "A publisher signals at most as many elements as were requested."),
    Rule("1.2", "A publisher may signal fewer elements than requested, and terminate."),
    Rule("1.3", "Signals to a subscriber are serial: none begins while another one runs."),
    Rule("1.4", "A publisher that fails signals on_error."),
    Rule("1.5", "A publisher whose finite stream ends signals on_complete."),
    Rule("1.6", "After on_error or on_complete the subscription counts as cancelled."),
    Rule("1.7", "After on_error or on_complete there are no more signals."),
    Rule("1.8", "A subscriber that has cancelled eventually gets no more signals."),
    Rule(
        "1.9",
        "subscribe calls on_subscribe before any other signal and returns normally; for None it "
        "raises TypeError; each other failure is an on_error after on_subscribe.",
    ),
    Rule(
        "1.10",
        "subscribe is called with a different subscriber each time.",
        "optional",
        "it binds those who call subscribe",
    ),
    Rule(
        "1.11",
        "A publisher may support several subscribers.",
        "optional",
        "the publisher may decide",
    ),
    Rule("2.1", "A subscriber signals demand by Subscription.request to get elements."),
    Rule(
        "2.2",
        "A subscriber that takes long for a signal should process it elsewhere.",
        "report",
        "only its author knows what is long",
    ),
    Rule("2.3", "on_complete and on_error call no method of the subscription or the publisher."),
    Rule("2.4", "After on_complete or on_error a subscriber considers its subscription cancelled."),
    Rule("2.5", "A subscriber cancels a second subscription while its first one is active."),
    Rule(
        "2.6",
        "A subscriber cancels a subscription that it no longer needs.",
        "optional",
        "only its author knows what it needs",
    ),
    Rule("2.7", "Calls of request and cancel are serial.", "not applicable", _ONE_THREAD),
    Rule("2.8", "A subscriber is prepared for elements after it has cancelled."),
    Rule("2.9", "A subscriber is prepared for on_complete, with or without a request before."),
    Rule("2.10", "A subscriber is prepared for on_error, with or without a request before."),
    Rule(
        "2.11",
        "Calls of signal methods happen before the processing of the signals.",
        "not applicable",
        _ONE_THREAD,
    ),
    Rule("2.12", "on_subscribe is called at most once for a subscriber."),
    Rule(
        "2.13",
        "Signal methods return normally, or raise TypeError for None. The subscription of a "
        "subscriber that breaks this counts as cancelled.",
    ),
    Rule(
        "3.1",
        "request and cancel are called only inside of the subscriber's context.",
        "not applicable",
        "nobody can observe who calls",
    ),
    Rule("3.2", "request may be called from inside on_next and on_subscribe."),
    Rule("3.3", "The recursion between request and on_next has an upper bound."),
    Rule(
        "3.4",
        "request respects the responsivity of its caller: it returns in a timely manner.",
        "optional",
        "the specification only recommends it",
    ),
    Rule(
        "3.5",
        "cancel returns in a timely manner and may be called again.",
        "optional",
        "what is timely is a matter of degree; rule 3.7 checks further calls",
    ),
    Rule("3.6", "After cancel, request has no effect."),
    Rule("3.7", "After cancel, cancel has no effect."),
    Rule("3.8", "request adds to the demand."),
    Rule("3.9", "request of a number <= 0 signals on_error with a ValueError."),
    Rule("3.10", "request may call on_next at once.", "optional", "the publisher may decide"),
    Rule(
        "3.11",
        "request may call on_complete or on_error at once.",
        "optional",
        "the publisher may decide",
    ),
    Rule("3.12", "cancel makes the publisher eventually stop its signals."),
    Rule("3.13", "cancel makes the publisher eventually drop its references to the subscriber."),
    Rule(
        "3.14",
        "cancel may shut the publisher down if it has no other subscription.",
        "not applicable",
        "the publisher may decide, and both decisions look the same",
    ),
    Rule("3.15", "cancel returns normally."),
    Rule("3.16", "request returns normally."),
    Rule("3.17", "A subscription supports a demand of up to 2**63 - 1."),
    Rule("4.1", "A processor obeys the rules of subscribers and of publishers."),
    Rule(
        "4.2",
        "A processor passes on_error on at once, or recovers and considers its upstream "
        "subscription cancelled.",
    ),
)

RULES: Final = {rule.number: rule for rule in _ALL}
"""All rules, by number."""
