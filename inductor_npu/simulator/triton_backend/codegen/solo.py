from .errors import UnsupportedOperation
def emit(kernel, op): raise UnsupportedOperation(op, "not yet")
