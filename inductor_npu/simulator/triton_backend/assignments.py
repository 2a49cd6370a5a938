"""What the statements of a kernel may assign."""

from __future__ import annotations

import ast


def may_assign(statements: list[ast.stmt], names: set[str]) -> bool:
    """Whether `statements` may give one of `names` another value, or change an object in place."""
    stored = [
        part
        for statement in statements
        for part in ast.walk(statement)
        if isinstance(getattr(part, "ctx", None), ast.Store)
    ]
    return any(
        part.id in names if isinstance(part, ast.Name) else isinstance(part, (ast.Attribute, ast.Subscript))
        for part in stored
    )
