"""The single changes that scripts/mutants.py makes to a module, one at a time.

A change replaces a piece of the source text, so the rest of the file stays the same and the
difference is one line or a few. Each kind of change stands for a common mistake: a boundary that is
off by one, a missing checkpoint, an empty ``finally``.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import Final

__all__ = ["KINDS", "Mutant", "mutants"]

KINDS: Final = {
    "boundary": "swap < and <=, > and >=",
    "comparison": "swap == and !=, is and is not, in and not in",
    "logic": "swap and and or; negate a condition",
    "constant": "add 1 to or subtract 1 from a whole number; swap True and False",
    "arithmetic": "swap + and -, * and //",
    "checkpoint": "remove an await of a checkpoint",
    "call": "remove a statement that is a call",
    "assignment": "remove an assignment to an attribute, or one with an operator",
    "jump": "remove raise, break, continue or a bare return",
    "result": "always return the same bool; return None",
    "finally": "empty a finally block",
    "except": "raise the caught exception again",
}
"""The kinds of changes."""

_COMPARISONS: Final = {
    ast.Lt: ("boundary", r"<", "<="),
    ast.LtE: ("boundary", r"<=", "<"),
    ast.Gt: ("boundary", r">", ">="),
    ast.GtE: ("boundary", r">=", ">"),
    ast.Eq: ("comparison", r"==", "!="),
    ast.NotEq: ("comparison", r"!=", "=="),
    ast.Is: ("comparison", r"\bis\b", "is not"),
    ast.IsNot: ("comparison", r"\bis\s+not\b", "is"),
    ast.In: ("comparison", r"\bin\b", "not in"),
    ast.NotIn: ("comparison", r"\bnot\s+in\b", "in"),
}

_ARITHMETIC: Final = {
    ast.Add: (r"\+", "-"),
    ast.Sub: (r"-", "+"),
    ast.Mult: (r"\*", "//"),
    ast.FloorDiv: (r"//", "*"),
}


@dataclass(frozen=True)
class Mutant:
    """A module with one change.

    Attributes:
        file: The path of the module in the checkout.
        line: The first line of the change.
        kind: One of `KINDS`.
        source: The whole text with the change.
        was: The changed lines before the change, without their indentation.
        becomes: The same lines after the change.
    """

    file: str
    line: int
    kind: str
    source: str
    was: str
    becomes: str


def mutants(file: str, source: str) -> list[Mutant]:
    """Return every mutant of a module, in the order of its text.

    Args:
        file: The path of the module, for the mutants.
        source: The text of the module.
    """
    text = source.encode()
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    finder = _Finder(text, starts)
    finder.visit(ast.parse(source))
    found = []
    for start, end, kind, new in sorted(finder.found):
        changed = text[:start] + new + text[end:]
        first = text.rfind(b"\n", 0, start) + 1
        last = (text + b"\n").find(b"\n", end)
        was, becomes = text[first:last], text[first:start] + new + text[end:last]
        line = text.count(b"\n", 0, start) + 1
        if b"pragma: no cover" in was or was == becomes:
            continue
        try:
            ast.parse(changed)
        except SyntaxError:
            continue  # this replacement is not valid Python here
        found.append(Mutant(file, line, kind, changed.decode(), _dedented(was), _dedented(becomes)))
    return found


def _dedented(lines: bytes) -> str:
    return "\n".join(line.strip() for line in lines.decode().splitlines())


class _Finder(ast.NodeVisitor):
    """Walks a module and collects ``(start, end, kind, new text)``, with offsets in bytes."""

    def __init__(self, text: bytes, starts: list[int]) -> None:
        self.found: set[tuple[int, int, str, bytes]] = set()
        self._text = text
        self._starts = starts
        self._functions: list[ast.FunctionDef | ast.AsyncFunctionDef] = []

    # Places in the text.

    def _start(self, node: ast.AST) -> int:
        # The visited nodes all have positions.
        return self._starts[node.lineno - 1] + node.col_offset  # type: ignore[attr-defined]

    def _end(self, node: ast.AST) -> int:
        # The visited nodes all have positions.
        return self._starts[node.end_lineno - 1] + node.end_col_offset  # type: ignore[attr-defined]

    def _replace(self, first: ast.AST, last: ast.AST, kind: str, new: str) -> None:
        self.found.add((self._start(first), self._end(last), kind, new.encode()))

    def _replace_token(
        self, before: ast.AST, behind: ast.AST, pattern: str, kind: str, new: str
    ) -> None:
        """Replace the operator between two operands, but not inside a comment."""
        start, end = self._end(before), self._start(behind)
        between = re.sub(rb"#[^\n]*", lambda comment: b" " * len(comment[0]), self._text[start:end])
        if token := re.search(pattern.encode(), between):
            at = start + token.start()
            self.found.add((at, start + token.end(), kind, new.encode()))

    def _code(self, node: ast.AST) -> str:
        return self._text[self._start(node) : self._end(node)].decode()

    # Code that stays unchanged: texts, assertions and annotations.

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Change nothing in texts. Before Python 3.12 positions inside an f-string are wrong."""

    def visit_Assert(self, node: ast.Assert) -> None:
        """Change nothing: an assertion has no effect in correct code."""

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self._statement(node)
        if node.value is not None:
            self.visit(node.value)

    def visit_arguments(self, node: ast.arguments) -> None:
        for default in (*node.defaults, *node.kw_defaults):
            if default is not None:
                self.visit(default)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        if not any("Protocol" in ast.unparse(base) for base in node.bases):
            self._visit_all(node.body)

    def _visit_function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        marks = {ast.unparse(mark).split(".")[-1] for mark in node.decorator_list}
        if marks & {"overload", "abstractmethod"}:
            return
        self.visit(node.args)
        self._functions.append(node)
        self._visit_all(node.body)
        self._functions.pop()

    visit_FunctionDef = _visit_function
    visit_AsyncFunctionDef = _visit_function

    def _visit_all(self, nodes: list[ast.stmt]) -> None:
        for node in nodes:
            self.visit(node)

    # Expressions.

    def visit_Compare(self, node: ast.Compare) -> None:
        operands = [node.left, *node.comparators]
        for number, operator in enumerate(node.ops):
            kind, pattern, new = _COMPARISONS[type(operator)]
            self._replace_token(operands[number], operands[number + 1], pattern, kind, new)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for before, behind in zip(node.values, node.values[1:], strict=False):
            self._replace_token(before, behind, rf"\b{old}\b", "logic", new)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not) and ast.unparse(node.operand) != "TYPE_CHECKING":
            start = self._start(node)
            self.found.add((start, start + len("not"), "logic", b""))
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        texts = (ast.Constant, ast.JoinedStr)
        sides = (node.left, node.right)
        if (change := _ARITHMETIC.get(type(node.op))) and not any(
            isinstance(side, texts) and not isinstance(getattr(side, "value", None), int)
            for side in sides
        ):
            self._replace_token(*sides, change[0], "arithmetic", change[1])
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        match node.value:
            case bool():
                self._replace(node, node, "constant", str(not node.value))
            case int():
                self._replace(node, node, "constant", str(node.value + 1))
                self._replace(node, node, "constant", str(node.value - 1))

    def _condition(self, test: ast.expr) -> None:
        match test:
            case ast.Constant() | ast.UnaryOp(op=ast.Not()):
                pass  # `while True`; and removing `not` negates the condition already
            case ast.Name(id="TYPE_CHECKING"):
                pass
            case _:
                self._replace(test, test, "logic", f"not ({self._code(test)})")

    def visit_If(self, node: ast.If) -> None:
        self._condition(node.test)
        if ast.unparse(node.test) == "TYPE_CHECKING":
            self._visit_all(node.orelse)
        else:
            self.generic_visit(node)

    def visit_While(self, node: ast.While) -> None:
        self._condition(node.test)
        if isinstance(node.test, ast.Constant):
            self._visit_all(node.body)
        else:
            self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._condition(node.test)
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        for test in node.ifs:
            self._condition(test)
        self.generic_visit(node)

    # Statements.

    def _remove(self, node: ast.stmt, kind: str) -> None:
        self._replace(node, node, kind, "pass")

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant):
            return  # a docstring, or `...`
        waits = isinstance(node.value, ast.Await)
        checkpoint = waits and re.search(r"checkpoint|sleep\(0\)", self._code(node))
        if waits or isinstance(node.value, ast.Call):
            self._remove(node, "checkpoint" if checkpoint else "call")
        self.generic_visit(node)

    def _statement(self, node: ast.Assign | ast.AnnAssign) -> None:
        """Remove an assignment to an attribute, except in `__init__`, which any test notices."""
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        made = self._functions and self._functions[-1].name in {"__init__", "__attrs_post_init__"}
        changing = (ast.Attribute, ast.Subscript)
        if node.value is not None and not made and isinstance(targets[0], changing):
            self._remove(node, "assignment")

    def visit_Assign(self, node: ast.Assign) -> None:
        if ast.unparse(node.targets[0]) != "__all__":
            self._statement(node)
            self.visit(node.value)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if change := _ARITHMETIC.get(type(node.op)):
            self._replace_token(
                node.target, node.value, change[0] + "=", "arithmetic", change[1] + "="
            )
        self._remove(node, "assignment")
        self.visit(node.value)

    def visit_Delete(self, node: ast.Delete) -> None:
        self._remove(node, "assignment")

    def visit_Raise(self, node: ast.Raise) -> None:
        if "AssertionError" not in self._code(node):
            self._remove(node, "jump")
            self.generic_visit(node)

    def _visit_jump(self, node: ast.Break | ast.Continue) -> None:
        self._remove(node, "jump")

    visit_Break = _visit_jump
    visit_Continue = _visit_jump

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is None:
            self._remove(node, "jump")
            return
        returns = self._functions[-1].returns if self._functions else None
        annotation = ast.unparse(returns) if returns else ""
        if not isinstance(node.value, ast.Constant):
            if annotation == "bool":
                self._replace(node, node, "result", "return True")
                self._replace(node, node, "result", "return False")
            elif "None" in annotation:
                self._replace(node, node, "result", "return None")
        self.generic_visit(node)

    def visit_Try(self, node: ast.Try) -> None:
        for handler in node.handlers:
            if self._code(handler.body[0]) != "raise":
                self._replace(handler.body[0], handler.body[-1], "except", "raise")
        if node.finalbody:
            self._replace(node.finalbody[0], node.finalbody[-1], "finally", "pass")
        self.generic_visit(node)

    def visit_TryStar(self, node: ast.TryStar) -> None:
        self.visit_Try(node)  # type: ignore[arg-type]  # it has the same fields

    def visit_Call(self, node: ast.Call) -> None:
        if ast.unparse(node.func).split(".")[-1] == "suppress" and node.args:
            self._replace(node.args[0], node.args[-1], "except", "")
        self.generic_visit(node)
