"""What pretraining minimises: masked words, next sentences, agreement with a teacher.

Losses are sums over this process's rows divided by the number over all processes, so that adding up the processes'
gradients gives the gradient of the whole batch's mean, wherever its masked words are.

Shapes: B rows, T tokens, M places, H width, V vocabulary, S sentences, D the teacher's width.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pocketbert.encoder import initialise
from pocketbert.heads import Pretraining
from pocketbert.pretraining.distributed import Processes
from pocketbert.pretraining.examples import Batch
from pocketbert.training.network import mean_pool


@dataclass
class Told:
    """What a model says about a batch, before any division."""

    word_loss: Tensor  # summed over the places
    words_right: Tensor | None = None  # how many
    next_loss: Tensor | None = None  # summed over the rows
    next_right: Tensor | None = None


def read_batch(model: Pretraining, batch: Batch, *, count_right: bool = False) -> Told:
    """Both losses. The masked-word head, and most of the last layer, are computed at the asked places only."""
    encoding = model.encoder(batch.input_ids, batch.attention_mask, batch.token_type_ids, places=batch.places)
    logits = model.words(encoding.last_hidden_state, model.encoder.embeddings.word.weight).float()  # (M, V)
    told = Told(F.cross_entropy(logits, batch.words, reduction="sum"))
    if batch.strange is not None:
        following = model.next_sentence(encoding.pooler_output).float()  # (B, 2)
        told.next_loss = F.cross_entropy(following, batch.strange, reduction="sum")
        if count_right:
            told.next_right = (following.argmax(dim=1) == batch.strange).sum()
    if count_right:
        told.words_right = (logits.argmax(dim=1) == batch.words).sum()
    return told


class Student(nn.Module):
    """A model that is pretrained, and what maps its sentence vectors to a teacher's width."""

    def __init__(self, model: Pretraining, teacher_width: int | None, pooling: str, seed: int) -> None:
        super().__init__()
        self.model = model
        self.pooling = pooling
        self.projection: nn.Linear | None = None
        if teacher_width is not None:
            with torch.device("meta"):
                self.projection = nn.Linear(model.encoder.config.width, teacher_width)
            initialise(self.projection, model.encoder.config.width**-0.5, seed)

    def sentence_vectors(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        encoding = self.model.encoder(input_ids, attention_mask, only_cls=self.pooling == "pooler")
        if self.pooling == "pooler":
            return encoding.pooler_output.float()  # (S, H)
        return mean_pool(encoding.last_hidden_state.float(), attention_mask)


def distillation(
    student: Student, batch: dict[str, Tensor], teacher: Tensor, group: Processes
) -> tuple[Tensor, Tensor]:
    """(mean cosine distance, mean squared difference of similarities) between a student and its teacher.

    The distance is taken after the projection. The similarities of sentences to each other are the student's own,
    before it: what is learned there is a property of the vectors that fine-tuning will find.

    `teacher`: (S, D) of the whole batch, rows of length one; `batch` holds this process's sentences.
    """
    assert student.projection is not None
    own = student.sentence_vectors(**batch)
    with torch.autocast(own.device.type, enabled=False):  # small products, whose last digits matter
        projected = group.gather(student.projection(own))  # (S, D)
        vectors = F.normalize(group.gather(own), dim=1)  # (S, H)
        cosine = 1 - F.cosine_similarity(projected, teacher, dim=1).mean()
        similarity = (vectors @ vectors.T - teacher @ teacher.T).pow(2).mean()
    return cosine, similarity
