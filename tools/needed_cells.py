"""Runs of a notebook what one of its cells needs: the cells that bind the names it reads, and what these read."""

import ast
import contextlib
import io
from collections.abc import Iterable

from nbformat import NotebookNode

_BODIES = ("body", "orelse", "finalbody")
_OWN_SCOPE = (ast.FunctionDef, ast.ClassDef, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class Running:
    """A notebook whose cells run as they are asked for, each once, in one set of names."""

    def __init__(self, notebook: NotebookNode):
        self._notebook = notebook
        self._names = {"__name__": "running"}
        self._done: dict[str, object] = {}

    def shown_by(self, cell_id: str) -> object:
        """What the last line of a cell is, None where it is no expression."""
        for cell in cells_for(self._notebook, cell_id):
            self._run(cell)
        return self._done[cell_id]

    def run_before(self, cell_id: str) -> None:
        """Runs what a cell needs, and not itself."""
        for cell in cells_for(self._notebook, cell_id)[:-1]:
            self._run(cell)

    def _run(self, cell: NotebookNode) -> None:
        if cell.id in self._done:
            return
        self._done[cell.id] = None
        with contextlib.suppress(Exception if "raises-exception" in cell.metadata.get("tags", []) else ()):
            self._done[cell.id] = self.value_of(cell.source)

    def value_of(self, source: str) -> object:
        """The value of a source's last expression; what it prints is dropped."""
        *before, end = ast.parse(source).body
        with contextlib.redirect_stdout(io.StringIO()):
            if not isinstance(end, ast.Expr):
                exec(source, self._names)
                return None
            exec(compile(ast.Module(before, []), "cell", "exec"), self._names)
            return eval(compile(ast.Expression(end.value), "cell", "eval"), self._names)


def cells_for(notebook: NotebookNode, cell_id: str) -> list[NotebookNode]:
    """The code cells that a cell needs, in their order, and the cell itself.

    Counts: of cells that bind a name, the last one before it is read; what changes a thing and binds nothing is unseen.
    """
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    last = next(place for place, cell in enumerate(code) if cell.id == cell_id)
    chosen, wanted = [code[last]], names(code[last].source)[0]
    for cell in reversed(code[:last]):
        reads, binds = names(cell.source)
        if binds & wanted:
            chosen.insert(0, cell)
            wanted = (wanted - binds) | reads
    return chosen


def names(source: str) -> tuple[set[str], set[str]]:
    """The names that a cell reads before it has bound them, and those that it binds."""
    return _of_statements(ast.parse(source).body)


def _of_statements(statements: Iterable[ast.stmt]) -> tuple[set[str], set[str]]:
    reads, binds = set(), set()
    for statement in statements:
        read, bound = _of_statement(statement)
        reads |= read - binds
        binds |= bound
    return reads, binds


def _of_statement(statement: ast.stmt) -> tuple[set[str], set[str]]:
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return set(), {(one.asname or one.name).split(".")[0] for one in statement.names}
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return _loads(statement) - _stores(statement), {statement.name}
    bodies = [getattr(statement, name, []) for name in _BODIES]
    bodies += [handler.body for handler in getattr(statement, "handlers", [])]
    if not any(bodies):
        changed = {statement.target.id} if _is_change_of_a_name(statement) else set()
        return _loads(statement) | changed, _stores(statement)
    inner = {id(node) for body in bodies for one in body for node in ast.walk(one)}
    head = [node for node in ast.iter_child_nodes(statement) if id(node) not in inner]
    reads, binds = set().union(*map(_loads, head)), set().union(*map(_stores, head))
    for body in bodies:
        read, bound = _of_statements(body)
        reads |= read - binds
        binds |= bound
    return reads, binds


def _is_change_of_a_name(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name)


def _loads(node: ast.AST) -> set[str]:
    """Names that are read in it, but for those that a comprehension or a function within it binds for itself."""
    if isinstance(node, ast.Name):
        return {node.id} if isinstance(node.ctx, ast.Load) else set()
    found = set().union(*map(_loads, ast.iter_child_nodes(node)))
    return found - _own(node) if isinstance(node, _OWN_SCOPE) else found


def _stores(node: ast.AST) -> set[str]:
    """Names that are bound in it, but for those of a comprehension or a function within it."""
    if isinstance(node, ast.Name):
        return {node.id} if isinstance(node.ctx, ast.Store) else set()
    found = set().union(*map(_stores, ast.iter_child_nodes(node)))
    return found - _own(node) if isinstance(node, _OWN_SCOPE) else found


def _own(node: ast.AST) -> set[str]:
    """What a comprehension or a function binds for itself: its arguments and whatever it gives a value."""
    arguments = {one.arg for one in ast.walk(node) if isinstance(one, ast.arg)}
    return arguments | {
        one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)
    }
