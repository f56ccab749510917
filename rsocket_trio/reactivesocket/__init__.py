"""ReactiveSocket, the draft of 2015 (version 0): what RSocket 1.0 grew out of.

`frames` reads and writes its frames.
"""

from __future__ import annotations
