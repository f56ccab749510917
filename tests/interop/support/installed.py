"""The peers' packages: where they are, and how to install one that is absent."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

HERE = Path(__file__).parent.parent
JS = HERE / "js"
JAVA = HERE / "java/target"
SPRING = HERE / "spring/target"
GO = HERE / "go"
RUST = HERE / "rust/ttrpc"
CONTAINERD_SCRIPT = HERE / "containerd/unpack.sh"
PY = HERE / "py_peer"
SETUP = "tests/interop/setup.sh"


def _cached(name: str, files: Sequence[Path]) -> Path:
    """Return the directory that a script has made from these files."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    checksum = hashlib.sha256(b"".join(map(Path.read_bytes, files))).hexdigest()
    return Path(cache) / "rsocket_trio/peers" / f"{name}-{checksum[:8]}"


def built(name: str, version: str) -> Path:
    """Return the directory where ``go/build.sh`` puts the programs of that module."""
    source = GO / name
    files = [file for ending in ("mod", "sum", "go") for file in sorted(source.glob(f"*.{ending}"))]
    return _cached(f"{name}-{version}", files)


def _built_by_cargo() -> Path:
    """Return the directory where ``rust/build.sh`` puts its program."""
    names = ("Cargo.lock", "Cargo.toml", "build.rs", "streaming.proto")
    files = [*(RUST / name for name in names), *sorted(RUST.glob("src/*.rs"))]
    return _cached("ttrpc-rust-0.9.0", files)


LUMBER = built("lumber", "0.2.0")
FILEBEAT = built("filebeat", "7.17.28") / "filebeat"
TTRPC_GO = built("ttrpc", "1.2.8") / "ttrpc"
TTRPC_RUST = _built_by_cargo() / "ttrpc-peer"
NRIS = {version: built("nri", version) / "nri" for version in ("0.10.0", "0.12.5")}
SHIM = built("shim", "2.4.2") / "containerd-shim-runc-v2"
CONTAINERD = _cached("containerd-debian", [CONTAINERD_SCRIPT])
"""The directory of ``containerd``, its shim, ``ctr`` and ``runc``."""


def _distribution(name: str) -> str | None:
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed: pip install 'rsocket-trio[peers]'"
    return None


def missing(name: str) -> str | None:
    """Return how to install that peer, or ``None`` if it is installed."""
    match name:
        case "rsocket-js" | "lumberjack-protocol":
            module = "rsocket-core" if name == "rsocket-js" else name
            there = shutil.which("node") and (JS / "node_modules" / module).is_dir()
            return None if there else f"Node or its modules are not installed: run {SETUP}"
        case "rsocket-java" | "logstash-input-beats":
            there = shutil.which("java") and (JAVA / "peer.jar").is_file()
            return None if there else f"Java or its programs are not installed: run {SETUP}"
        case "reactive-streams-examples":
            there = shutil.which("java") and (JAVA / "lib" / f"{name}-1.0.4.jar").is_file()
            return None if there else f"Java or its programs are not installed: run {SETUP}"
        case _ if name.startswith("spring-boot-"):
            jar = SPRING / name.removeprefix("spring-boot-") / "spring.jar"
            there = shutil.which("java") and jar.is_file()
            return None if there else f"Java or its programs are not installed: run {SETUP}"
        case "rsocket-py":
            return _distribution("rsocket")
        case "pylogbeat":
            return _distribution("pylogbeat")
        case "go-lumber":
            return None if LUMBER.is_dir() else f"not built: run {SETUP}; it needs Go"
        case "filebeat":
            return None if FILEBEAT.is_file() else f"not built: run {SETUP}; it needs Go"
        case "ttrpc (Go)":
            return None if TTRPC_GO.is_file() else f"not built: run {SETUP}; it needs Go"
        case "ttrpc (Rust)":
            return None if TTRPC_RUST.is_file() else f"not built: run {SETUP}; it needs Rust"
        case "NRI":
            there = all(program.is_file() for program in NRIS.values())
            return None if there else f"not built: run {SETUP}; it needs Go"
        case "containerd":
            there = (CONTAINERD / "containerd").is_file()
            return None if there else f"not unpacked: run {SETUP}; it needs Debian's packages"
        case "shim of containerd 2":
            return None if SHIM.is_file() else f"not built: run {SETUP}; it needs Go"
        case "chromium":
            return None if shutil.which("chromium") else f"not installed: run {SETUP}"
    raise ValueError(name)


def require(*names: str) -> None:
    """Skip the test if a peer is absent, or fail if the environment requires the peers."""
    for name in names:
        if how := missing(name):
            if os.environ.get("INTEROP") == "required":
                pytest.fail(f"{name}: {how}", pytrace=False)
            pytest.skip(f"{name}: {how}")
