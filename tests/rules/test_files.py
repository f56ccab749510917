"""What is made on the disk is made by `rsocket_trio.private_files`, which closes it to others."""

from __future__ import annotations

import ast

from tests.rules.sources import FILES, none_of, tree_of

MAKERS = {"mkdir", "makedirs", "mkfifo", "mkstemp", "touch", "write_bytes", "write_text"}
EXCEPTIONS = {
    "private_files.py:mkdir": "it is the one that makes directories",
    "private_files.py:open": "it is the one that makes files",
    "logfiles/registry.py:open": "a file object for a descriptor of open_private",
    "spark/java_wrapper.py:mkdir": "checks the owner, and makes them for this user",
    "spark/java_wrapper.py:mkstemp": "makes files for this user",
    "cli/access_log.py:open": "a file object for a descriptor of open_private",
    "spark/java_wrapper.py:open": "a file object for the descriptor of mkstemp",
    "spark/spool_source/embedded.py:mkdir": "checks that nobody else may use it",
    "spool/schema.py:connect": "after close_database, or for reading only",
    "spark/sinks/receiving/sqlite_store.py:connect": "after close_database",
    "cli/ttrpc_generate.py:mkdir": "source code, for all who may read the project",
    "cli/ttrpc_generate.py:write_text": "as above",
    "cli/standard_streams.py:open": "/dev/null, and standard error",
}


def test_makers() -> None:
    """Each other place that makes a file says here why nobody else gets it."""
    found = {f"{name}:{call}" for name in FILES for call in _calls(tree_of(name))}
    none_of(sorted(found - EXCEPTIONS.keys()))
    none_of(f"{name} is none any more" for name in sorted(EXCEPTIONS.keys() - found))


def _calls(tree: ast.AST) -> list[str]:
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return [name for call in calls if (name := _maker(call)) is not None]


def _maker(call: ast.Call) -> str | None:
    text = ast.unparse(call)
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ast.unparse(call.func)
    if name in MAKERS:
        return name
    if ast.unparse(call.func) == "sqlite3.connect":
        return name
    if name == "open" and (
        "O_CREAT" in text
        or (ast.unparse(call.func) == "os.open" and "O_RDONLY" not in text)
        or any(isinstance(a, ast.Constant) and str(a.value)[:1] in set("wax") for a in call.args)
    ):
        return name
    return None
