"""Elements of a stream into rows, by the format of their payloads.

- ``settings``: the options about payloads
- ``maker``: chooses the format, and makes rows out of payloads
- ``layout``: the columns of a row: decoded ones, facts about the element, the malformed data
- ``decoded``: decoded elements, and the malformed ones among them
- ``json_rows``: JSON objects
- ``cbor_rows``: maps in CBOR
- ``arrow_rows``: batches of Arrow
- ``fixed_rows``: records of a fixed size
- ``packed``: such records in one block of bytes
- ``values``: Python values into columns, with a reason for each value that does not fit
"""

from __future__ import annotations

__all__: list[str] = []
