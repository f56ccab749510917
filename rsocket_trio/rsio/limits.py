"""The memory that one peer may take from us: `RsioLimits`. The draft has no limits."""

from __future__ import annotations

from typing import Final

import attrs

from ..field_checks import COUNT, check_order, largest, smallest

__all__ = ["DEFAULT_LIMITS", "RsioLimits"]


@attrs.frozen(kw_only=True)
class RsioLimits:
    """The memory that one peer may take from us.

    Each length is checked as soon as it has arrived, before its bytes are there. All sizes are in
    bytes. A peer that exceeds a limit breaks the protocol and the connection ends, unless another
    consequence stands here.

    A limit that is not given fits those that are: whoever lowers ``max_element_size`` need not
    lower ``split_size``. Limits that are given and contradict one another are a `ValueError`.

    Attributes:
        max_publisher_size: The name of a publisher in a subscribe. 1024: names are paths with a
            query, not documents.
        max_text_size: The text of an onError or goodbye that we receive. 8192: a text explains, it
            carries no data.
        sent_text_size: Our own texts are cut here, so that a receiver with stricter limits takes
            them. 1024.
        max_extensions: The ids in a hello. 64: there are none in use today.
        max_extension_size: The content of one message of an extension. 1 MiB, as for a part.
        max_element_size: One element, whole or joined; also the size that a stream of elements of
            one size declares, and all elements of one packed message together. We send no longer
            element either. 16 MiB: larger values are files, and belong in many elements.
        max_part_size: One part of a split element. 1 MiB: a part delays all other streams.
        split_size: Longer elements of ours are sent in parts of this size. 16 KiB: it takes about a
            millisecond on 100 Mbit/s.
        max_open_elements: The split elements of one stream that have begun and not ended. 16:
            senders need one.
        max_parts_memory: The bytes of all begun elements of a connection. 64 MiB: four of the
            largest.
        max_subscriptions: The streams that the peer may have open with our publishers. One more is
            answered with an error, and the connection goes on. 1024. Resolvers and sources of
            cancelled streams may take long to end: there are at most twice as many tasks of them.
        max_cancelled: Streams that we have cancelled and whose end the publisher has not confirmed.
            From this number on nothing can be subscribed to, until it has confirmed some. Streams
            that are open then may be cancelled all the same. 4096: four times what a peer may have
            open by default.
    """

    max_publisher_size: int = attrs.field(default=1024, validator=COUNT)
    max_text_size: int = attrs.field(default=8192, validator=COUNT)
    sent_text_size: int = attrs.field(validator=COUNT)
    max_extensions: int = attrs.field(default=64, validator=COUNT)
    max_extension_size: int = attrs.field(default=2**20, validator=COUNT)
    max_element_size: int = attrs.field(default=16 * 2**20, validator=COUNT)
    max_part_size: int = attrs.field(validator=COUNT)
    split_size: int = attrs.field(validator=COUNT)
    max_open_elements: int = attrs.field(default=16, validator=COUNT)
    max_parts_memory: int = attrs.field(validator=COUNT)
    max_subscriptions: int = attrs.field(default=1024, validator=COUNT)
    max_cancelled: int = attrs.field(default=4096, validator=COUNT)

    @sent_text_size.default
    def _default_sent_text_size(self) -> int:
        return smallest(1024, self.max_text_size)

    @max_part_size.default
    def _default_part_size(self) -> int:
        return smallest(2**20, self.max_element_size)

    @split_size.default
    def _default_split_size(self) -> int:
        return smallest(16 * 2**10, self.max_part_size)

    @max_parts_memory.default
    def _default_parts_memory(self) -> int:
        return largest(64 * 2**20, self.max_element_size)

    def __attrs_post_init__(self) -> None:
        own = "our own messages would break the limit that we set for the peer"
        check_order(self, "sent_text_size", "max_text_size", own)
        check_order(self, "split_size", "max_part_size", own)
        check_order(
            self, "max_part_size", "max_element_size", "a part would be longer than its element"
        )
        check_order(
            self,
            "max_element_size",
            "max_parts_memory",
            "the largest element could not be joined from its parts",
        )


DEFAULT_LIMITS: Final = RsioLimits()
