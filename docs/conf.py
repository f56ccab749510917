"""How Sphinx builds this documentation: ``make docs``. Nothing is fetched from anywhere."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.nodes import make_refnode

sys.path.insert(0, str(Path(__file__).parent.parent))

import rsocket_trio.codecs
import rsocket_trio.frames
import rsocket_trio.metadata
import rsocket_trio.reactive_streams
import rsocket_trio.spool
from rsocket_trio.cli.grammar import build_parser, subcommands

project = "rsocket-trio"
author = "the rsocket-trio authors"
version = release = rsocket_trio.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"rsocket-trio {version}"
html_copy_source = False

myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence"]

default_role = "py:obj"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
autodoc_default_options = {"members": True, "show-inheritance": True}
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = False
napoleon_custom_sections = [("Yields", "params_style")]
add_module_names = False

nitpicky = True
# What belongs to others has no page here, and nothing is fetched; what is not public has none.
NOT_HERE = re.compile(
    r"(trio|trio_websocket|asyncio|array|ssl|socket|logging|pytest|outcome|enum|abc|typing|collections|contextlib|types|hypothesis|prometheus_client|opentelemetry)\b"
    r"|[RT]$|(TypeForm|AsyncI|Awaitable|Callable|Itera|Sequence|Mapping|AbstractAsync|ContextManager|Protocol|Enum)"
    r"|(os\.PathLike|secrets|random|contextvars|SearchStrategy|attrs|cbor2|wsproto|ReceiveChannel|OnSetup|OnResume|Authenticate|AnyPayload|AnyItems|Connection$|.*FrameDecoder|SparkSession|StreamingQuery)"
)
PRIVATE = re.compile(
    r"rsocket_trio\.(_|connection|interactions|protocol|cli)|_|(Reply|Stream)$|.*\.(_\w+|C|F|P|Q|R|S|T|T_co|T_contra|R_co|Req|Res|Messages|MemoryTransport)$|HEADER|split_metadata|encode_"
)
BUILTINS = frozenset(dir(__builtins__) if not isinstance(__builtins__, dict) else __builtins__)


PACKAGES = (
    rsocket_trio.metadata,
    rsocket_trio.frames,
    rsocket_trio.codecs,
    rsocket_trio.spool,
    rsocket_trio.reactive_streams,
)


def documented_name(target: str) -> str:
    """The name under which something public is documented, from the module it is defined in."""
    for package in PACKAGES:
        if target.startswith(package.__name__) and target.split(".")[-1] in package.__all__:
            return f"{package.__name__}.{target.split('.')[-1]}"
    for exported in (target.split(".")[-1], ".".join(target.split(".")[-2:])):
        if exported.split(".")[0] in rsocket_trio.__all__:
            return f"rsocket_trio.{exported}"
    return target


def resolve(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, contents: nodes.Element
) -> nodes.Node | None:
    """Find what is public by its short name, and let the names of others stand as text."""
    if node.get("refdomain") != "py":
        return None
    target: Any = node.get("reftarget", "")
    domain = env.domains.python_domain
    candidates = [documented_name(target)]
    candidates += [
        name for name in domain.objects if name.endswith(f".{target}") and name != target
    ]
    for name in candidates:
        entry = domain.objects.get(name)
        if entry is not None:
            return make_refnode(
                app.builder, node["refdoc"], entry.docname, entry.node_id, contents, name
            )
    if NOT_HERE.match(target) or PRIVATE.match(target) or target in BUILTINS:
        return contents
    return None


def show_promises(
    app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]
) -> None:
    """Make a paragraph each of the two promises that close the docstring of a coroutine."""
    for index in reversed(range(len(lines))):
        for promise in ("Checkpoint:", "If cancelled:"):
            if lines[index].startswith(promise):
                lines[index] = lines[index].replace(promise, f"**{promise}**", 1)
                lines.insert(index, "")


def hide_maps(
    app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]
) -> None:
    """Leave out the map of a package's modules: it is for those who read the code."""
    for index, line in enumerate(lines):
        if what == "module" and line.startswith("The modules, in reading order"):
            del lines[index:]
            return


class Options(Directive):
    """The arguments and options of a command, as its parser has them: ``{options} ttrpc call``."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        """Return a table for each group of options."""
        parser: argparse.ArgumentParser = build_parser()
        for name in self.arguments[0].split():
            parser = subcommands(parser)[name]
        found: list[nodes.Node] = []
        for group in parser._action_groups:  # noqa: SLF001  argparse has no public way
            rows = [
                option_row(action)
                for action in group._group_actions  # noqa: SLF001  as above
                if action.help is not argparse.SUPPRESS and action.dest != "help"
            ]
            if rows:
                if group.title not in {"positional arguments", "options"}:
                    found.append(nodes.paragraph(text=group.title))
                widths = [nodes.colspec(colwidth=width) for width in (35, 65)]
                body = nodes.tbody("", *rows)
                found.append(nodes.table("", nodes.tgroup("", *widths, body, cols=2)))
        return found


def option_row(action: argparse.Action) -> nodes.row:
    """What is written for an argument, and its help."""
    value = action.metavar or ("|".join(map(str, action.choices)) if action.choices else "VALUE")
    names = [f"{name} {value}" if action.nargs != 0 else name for name in action.option_strings]
    written = nodes.literal(text=", ".join(names) or str(value))
    parts = re.split(r"(--[\w-]+)", (action.help or "") % vars(action))  # every second is an option
    text = [nodes.literal(text=part) if n % 2 else nodes.Text(part) for n, part in enumerate(parts)]
    cells = [nodes.paragraph("", "", written), nodes.paragraph("", "", *text)]
    return nodes.row("", *(nodes.entry("", cell) for cell in cells))


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.add_directive("options", Options)
    app.connect("autodoc-process-docstring", show_promises)
    app.connect("autodoc-process-docstring", hide_maps)
    app.connect("missing-reference", resolve)
