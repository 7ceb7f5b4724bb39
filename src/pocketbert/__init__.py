"""pocketbert: small BERTs, honest results.

Names are imported when first used, so that `import pocketbert` and `pocketbert --help` stay quick.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_WHERE = {
    "AdapterSet": "pocketbert.adapter_set",
    "Classifier": "pocketbert.classifier",
    "Config": "pocketbert.config",
    "Encoder": "pocketbert.encoder",
    "Study": "pocketbert.study",
    "Task": "pocketbert.tasks",
    "Tokenizer": "pocketbert.tokenizer",
    "UserError": "pocketbert.errors",
    "PretrainingSettings": "pocketbert.pretraining",
    "audit": "pocketbert.audits",
    "check_task": "pocketbert.tasks",
    "encode": "pocketbert.embed",
    "evaluate_run": "pocketbert.evaluate",
    "export_run": "pocketbert.export",
    "fill": "pocketbert.fill_mask",
    "load_run": "pocketbert.runs",
    "load_encoder": "pocketbert.loading",
    "load_pretraining": "pocketbert.loading",
    "load_task": "pocketbert.tasks",
    "load_tokenizer": "pocketbert.loading",
    "predict_file": "pocketbert.predict",
    "predict_shards": "pocketbert.shards",
    "pretrain": "pocketbert.pretraining",
    "save_model": "pocketbert.checkpoints",
    "train_run": "pocketbert.train",
}
__all__ = ["__version__", *_WHERE]


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return getattr(import_module(_WHERE[name]), name)
    raise AttributeError(f"module 'pocketbert' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
