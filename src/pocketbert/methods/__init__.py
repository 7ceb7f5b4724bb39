"""Methods: how a model learns a task. One file each, in a registry that tests walk."""

from pocketbert.methods.base import (
    DEFAULT,
    SHAPE,
    WEIGHTS,
    DataSize,
    Method,
    Workload,
    baselines,
    get_method,
    list_methods,
    register,
)
from pocketbert.methods.neural import NetworkMethod

__all__ = [
    "DEFAULT",
    "SHAPE",
    "WEIGHTS",
    "DataSize",
    "Method",
    "NetworkMethod",
    "Workload",
    "baselines",
    "get_method",
    "list_methods",
    "register",
]
