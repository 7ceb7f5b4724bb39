"""Pretraining: raw text in, a BERT of one's own out. Masked words, next sentences, and a bigger model to agree with.

text → corpus (memory-mapped) → examples → objective, trained by the same loop as every other method.
"""

from pocketbert.pretraining.folder import PretrainedFolder, load_pretrained
from pocketbert.pretraining.pretrain import pretrain
from pocketbert.pretraining.settings import PretrainingSettings

__all__ = ["PretrainedFolder", "PretrainingSettings", "load_pretrained", "pretrain"]
