"""Golden vectors of RSocket 1.0.

Load this module by path; it needs only its JSON file.
"""

from __future__ import annotations

import json
from pathlib import Path

ALL = json.loads((Path(__file__).parent.parent / "vectors" / "rsocket.json").read_text("utf-8"))
"""Every vector, as in the file: ``name``, ``kind``, ``fields``, mostly ``hex`` and ``tcp_hex``."""


def of_kind(*kinds):
    """The vectors of these kinds, in order."""
    return [vector for vector in ALL if vector["kind"] in kinds]


def frames():
    """``(name, frame)`` of every well-formed frame, also of those inside sequences."""
    found = [(v["name"], bytes.fromhex(v["hex"])) for v in of_kind("frame", "frame-lenient")]
    for vector in of_kind("sequence"):
        for number, text in enumerate(vector["frames"]):
            found.append((f"{vector['name']}-{number}", bytes.fromhex(text)))
    return found


def generated(vector):
    """The frame of a vector of kind frame-generated or malformed-generated."""
    fields = vector["fields"]
    head = bytes.fromhex(vector["hex"].partition("(")[0])
    return head + bytes.fromhex(fields["data_fill"]) * (fields["frame_length"] - len(head))
