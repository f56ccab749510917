"""The options about the payloads of elements: `RowSettings`."""

from __future__ import annotations

from typing import Final

import attrs

from ...metadata import MIME
from ..options import Options

__all__ = ["BYTE_ORDERS", "FORMATS", "MODES", "RowSettings", "read_row_settings"]

FORMATS: Final = {
    "binary": MIME.OCTET_STREAM,
    "utf8": MIME.TEXT,
    "json": MIME.JSON,
    "cbor": MIME.CBOR,
    "arrow": "application/vnd.apache.arrow.stream",
    "fixed": MIME.OCTET_STREAM,
}
"""The formats of payloads, and the MIME type of each."""

BYTE_ORDERS: Final = ("big", "little")
"""Which byte of a number comes first. The order of networks is the default."""

MODES: Final = ("PERMISSIVE", "DROPMALFORMED", "FAILFAST")
"""A malformed element is a row of nulls, is left out, or is an error."""


@attrs.frozen
class RowSettings:
    """What the options say about elements.

    Attributes:
        payload_format: One of `FORMATS`.
        mode: What happens to malformed elements.
        corrupt: The name of the column with the data of malformed elements.
        byte_order: One of `BYTE_ORDERS`, for the format ``fixed``.
    """

    payload_format: str
    mode: str
    corrupt: str
    byte_order: str = BYTE_ORDERS[0]


def read_row_settings(options: Options) -> RowSettings:
    """Read the options about elements.

    Raises:
        ValueError: An option is wrong.
    """
    return RowSettings(
        options.choice("payloadFormat", list(FORMATS), "binary"),
        options.choice("mode", MODES, "PERMISSIVE"),
        options.text("columnNameOfCorruptRecord", "_corrupt_record"),
        options.choice("byteOrder", BYTE_ORDERS, BYTE_ORDERS[0]),
    )
