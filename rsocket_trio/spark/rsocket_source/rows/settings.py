"""The options about the payloads of elements: `RowSettings`."""

from __future__ import annotations

from typing import Final

import attrs

from ....metadata import MIME
from ...options import Options

__all__ = ["FORMATS", "MODES", "RowSettings", "read_row_settings"]

FORMATS: Final = {
    "binary": MIME.OCTET_STREAM,
    "utf8": MIME.TEXT,
    "json": MIME.JSON,
    "cbor": MIME.CBOR,
    "arrow": "application/vnd.apache.arrow.stream",
}
"""The formats of payloads, and the MIME type of each."""

MODES: Final = ("PERMISSIVE", "DROPMALFORMED", "FAILFAST")
"""A malformed element is a row of nulls, is left out, or is an error."""


@attrs.frozen
class RowSettings:
    """What the options say about elements.

    Attributes:
        payload_format: One of `FORMATS`.
        mode: What happens to malformed elements.
        corrupt: The name of the column with the data of malformed elements.
    """

    payload_format: str
    mode: str
    corrupt: str


def read_row_settings(options: Options) -> RowSettings:
    """Read the options about elements.

    Raises:
        ValueError: An option is wrong.
    """
    return RowSettings(
        options.choice("payloadFormat", list(FORMATS), "binary"),
        options.choice("mode", MODES, "PERMISSIVE"),
        options.text("columnNameOfCorruptRecord", "_corrupt_record"),
    )
