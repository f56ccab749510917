"""All rules, in the order of their ids: `RULES`. Each is a function that checks one peer.

The modules, in reading order:

- ``traffic``: streams of all kinds at once, and the elements of the fixtures
- ``transport``: RSIO-01 to RSIO-06, octets and messages
- ``hello``: RSIO-07 to RSIO-19, versions and extensions
- ``streams``: RSIO-20 to RSIO-30, subscribe, demand, elements, ends
- ``ids``: RSIO-31 to RSIO-41, subscribers and their ids
- ``fixed_size``: RSIO-42 to RSIO-46, plain and packed elements
- ``split``: RSIO-47 to RSIO-53, elements in parts
- ``closing``: RSIO-54 to RSIO-58, the end of a connection
- ``binding_input``: B01 to B06 and B22, input that is refused
- ``binding_states``: B07 to B14, B18, B19 and B21, states of streams and connection
- ``binding_load``: B15 to B17 and B20, what a peer may cost
"""

from __future__ import annotations

from typing import Final

from ..rule import Rule
from . import (
    binding_input,
    binding_load,
    binding_states,
    closing,
    fixed_size,
    hello,
    ids,
    split,
    streams,
    transport,
)

__all__ = ["RULES"]

_MODULES: Final = (
    transport,
    hello,
    streams,
    ids,
    fixed_size,
    split,
    closing,
    binding_input,
    binding_states,
    binding_load,
)


def _order(rule: Rule) -> tuple[bool, str]:
    return rule.id.startswith("B"), rule.id


RULES: Final[dict[str, Rule]] = {
    rule.id: rule
    for rule in sorted((each for module in _MODULES for each in module.RULES), key=_order)
}
"""All rules by their ids: RSIO-01 to RSIO-58, then B01 to B22."""
