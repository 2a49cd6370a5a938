"""Placeholder."""
from .errors import UnsupportedOperation
def emit_atomic(frame, op, lanes, coordinates): raise UnsupportedOperation(op, "not yet")
def emit_scalar_atomic(kernel, op): raise UnsupportedOperation(op, "not yet")
