"""The lines with which an exported folder is used, as its README.md has them, and docs/export.md.

Each block takes `texts` and ends with `probabilities` and `labels`. UPPER-CASE words stand for what differs from run
to run.
"""

from collections.abc import Sequence

CLASSIFIER = """\
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

folder = "exported"  # where this folder is
tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModelForSequenceClassification.from_pretrained(folder)
batch = tokenizer(texts, padding=True, truncation=True, return_tensors="pt")  # for pairs: texts, second_texts
with torch.inference_mode():
    probabilities = model(**batch).logits.softmax(dim=-1)
labels = [model.config.id2label[int(best)] for best in probabilities.argmax(dim=-1)]
"""

AUTO_MODEL = """\
import torch
from safetensors.torch import load_file
from transformers import AutoModel, AutoTokenizer

folder = "exported"  # where this folder is
tokenizer, encoder = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder)
head = load_file(f"{folder}/head.safetensors")  # linear layers 0, 1, …, tanh between them
batch = tokenizer(texts, padding=True, truncation=True, return_tensors="pt")  # for pairs: texts, second_texts
with torch.inference_mode():
    states, mask = encoder(**batch).last_hidden_state, batch["attention_mask"][:, :, None]
    vector = POOLED
    for layer in range(len(head) // 2):
        vector = vector.tanh() if layer else vector
        vector = torch.nn.functional.linear(vector, head[f"{layer}.weight"], head[f"{layer}.bias"])
    probabilities = vector.softmax(dim=-1)
labels = [encoder.config.id2label[int(best)] for best in probabilities.argmax(dim=-1)]
"""
MEAN, CLS = "(states * mask).sum(dim=1) / mask.sum(dim=1)", "states[:, 0]"

ONNX = """\
import json
import numpy as np
import onnxruntime
from tokenizers import Tokenizer

folder = "exported"  # where this folder is
tokenizer = Tokenizer.from_file(f"{folder}/tokenizer.json")
tokenizer.enable_truncation(MAX_LENGTH)
tokenizer.enable_padding()
encoded = tokenizer.encode_batch(texts)  # for pairs: list(zip(texts, second_texts))
columns = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}
batch = {name: np.array([getattr(one, own) for one in encoded], dtype=np.int64) for name, own in columns.items()}
session = onnxruntime.InferenceSession(f"{folder}/model.onnx")
logits, probabilities = session.run(["logits", "probabilities"], batch)
with open(f"{folder}/config.json", encoding="utf-8") as file:
    names = json.load(file)["id2label"]
labels = [names[str(best)] for best in probabilities.argmax(axis=1)]
"""


def readme(block: str, labels: Sequence[str], **words: str | int) -> str:
    """The README.md of an exported folder."""
    for word, value in words.items():
        block = block.replace(word.upper(), str(value))
    return (
        "A text classifier, exported from pocketbert. Labels, in the order of the probabilities: "
        f"{', '.join(labels)}.\n\n```python\n{block}```\n"
    )
