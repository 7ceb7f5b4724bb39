"""Methods: how a model learns a task. One file each, in a registry that tests walk."""

from pocketbert.methods.base import Fitted, Job, Method, Trained, get_method, list_methods

__all__ = ["Fitted", "Job", "Method", "Trained", "get_method", "list_methods"]
