"""Bundle the script of the page with rsocket-js. npm installs both rsocket-js and the bundler."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Final

PAGE: Final = Path(__file__).parent / "page"
HOW: Final = "npm ci --ignore-scripts --prefix examples/pipeline/page"
"""The command that installs the modules, in the root of the repository."""

LONGEST: Final = 30.0
"""Seconds for the bundler. It needs less than one."""


def bundled(modules: Path = PAGE / "node_modules") -> bytes:
    """Return the script of the page, or one that says how to install what is missing."""
    bundler = modules / ".bin" / "esbuild"
    if not bundler.exists():
        return _saying(f"rsocket-js is not installed. Run: {HOW}")
    command = (bundler, PAGE / "page.js", "--bundle", "--define:global=globalThis")
    try:
        done = subprocess.run(
            [*command, "--log-level=warning"],
            capture_output=True,
            check=False,
            env=os.environ | {"NODE_PATH": str(modules)},
            timeout=LONGEST,
        )
    except (OSError, subprocess.TimeoutExpired) as error:  # no node, for example
        return _saying(f"the bundler did not run: {error}")
    if done.returncode != 0:
        return _saying(f"the bundler failed. Run again: {HOW}")
    return done.stdout


def _saying(text: str) -> bytes:
    return f'document.getElementById("status").textContent = {text!a};\n'.encode()
