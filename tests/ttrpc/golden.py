"""Golden vectors of ttrpc: frames with their fields, and bytes that real peers exchanged."""

from __future__ import annotations

import json
from pathlib import Path

VECTORS = json.loads((Path(__file__).parent / "vectors" / "ttrpc.json").read_text("utf-8"))
FRAMES = VECTORS["frames"]
GO_CAPTURE = VECTORS["go_capture"]
EXCHANGES = VECTORS["exchanges"]
CLIENT_SIDE = VECTORS["client_side"]
SHIM = VECTORS["debian_containerd_shim_1_6_20"]


def is_hex(text):
    """Whether an entry of an exchange is bytes; others are words such as EOF, or cut off."""
    return isinstance(text, str) and not set(text) - set("0123456789abcdef")


OBSERVED = sorted(
    {frame["hex"] for frame in GO_CAPTURE}
    | {call["request_hex"] for call in SHIM}
    | {
        text
        for exchange in EXCHANGES
        for text in exchange["client_hex"] + exchange["go_observed"]
        if is_hex(text)
    }
    | {text for exchange in CLIENT_SIDE for text in exchange["server_hex"] if is_hex(text)}
)
"""Every whole frame that a peer sent or received."""

BROKEN = {
    "000000030000000101000a01ff": "service is a string that is not UTF-8",
    "00000002000000010200ffff": "a varint is cut off",
}
"""Those of them whose envelope is malformed, and why."""
