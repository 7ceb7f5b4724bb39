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
from pocketbert.pretraining.distillation import DistillationBatch, Words, word_means
from pocketbert.pretraining.distributed import Processes
from pocketbert.pretraining.examples import Batch
from pocketbert.training.network import mean_pool

UNASKED = -100  # instead of a word's id, where nothing is asked


@dataclass
class Told:
    """What a model says about a batch, before any division."""

    word_loss: Tensor  # summed over the places
    words_right: Tensor | None = None  # how many
    next_loss: Tensor | None = None  # summed over the rows
    next_right: Tensor | None = None


def read_batch(model: Pretraining, batch: Batch, *, count_right: bool = False) -> Told:
    """Both losses. The masked-word head, and most of the last layer, are computed at the asked places only."""
    more = batch.computed - len(batch.places)
    places, words = F.pad(batch.places, (0, more)), F.pad(batch.words, (0, more), value=UNASKED)
    encoding = model.encoder(batch.input_ids, batch.attention_mask, batch.token_type_ids, places=places)
    logits = model.words(encoding.last_hidden_state, model.encoder.embeddings.word.weight).float()  # (M + more, V)
    told = Told(F.cross_entropy(logits, words, ignore_index=UNASKED, reduction="sum"))
    if batch.next_sentence_labels is not None:
        following = model.next_sentence(encoding.pooler_output).float()  # (B, 2)
        told.next_loss = F.cross_entropy(following, batch.next_sentence_labels, reduction="sum")
        if count_right:
            told.next_right = (following.argmax(dim=1) == batch.next_sentence_labels).sum()
    if count_right:
        told.words_right = (logits.argmax(dim=1) == words).sum()
    return told


class Student(nn.Module):
    """A model that is pretrained, and what maps its vectors of sentences and words to a teacher's width."""

    def __init__(
        self, model: Pretraining, teacher_width: int | None, pooling: str, seed: int, *, of_words: bool = False
    ) -> None:
        super().__init__()
        self.model = model
        self.pooling = pooling
        self.projection: nn.Linear | None = None
        self.word_projection: nn.Linear | None = None
        if teacher_width is not None:
            self.projection = _linear(model.encoder.config.width, teacher_width, seed)
            if of_words:
                self.word_projection = _linear(model.encoder.config.width, teacher_width, seed + 1)

    def read_sentences(self, input_ids: Tensor, attention_mask: Tensor) -> tuple[Tensor, Tensor]:
        """(S, H) vectors of the sentences and (S, T, H) states."""
        only_cls = self.pooling == "pooler" and self.word_projection is None
        encoding = self.model.encoder(input_ids, attention_mask, only_cls=only_cls)
        states = encoding.last_hidden_state.float()
        if self.pooling == "pooler":
            return encoding.pooler_output.float(), states
        return mean_pool(states, attention_mask), states


def _linear(inputs: int, outputs: int, seed: int) -> nn.Linear:
    with torch.device("meta"):
        layer = nn.Linear(inputs, outputs)
    initialise(layer, inputs**-0.5, seed)
    return layer


def distillation_losses(
    student: Student, distillation_batch: DistillationBatch, group: Processes
) -> tuple[Tensor | None, Tensor, Tensor]:
    """How far a student is from its teacher: this process's part of the mean cosine distance of words' states; of all
    processes' sentences, the mean cosine distance and the mean squared difference of similarities.

    The distance is taken after the projection. The similarities of sentences to each other are the student's own,
    before it: what is learned there is a property of the vectors that fine-tuning will find.
    """
    assert student.projection is not None
    own, states = student.read_sentences(**distillation_batch.sentences)
    words = None if distillation_batch.words is None else _distance_of_words(student, states, distillation_batch.words)
    teacher = distillation_batch.vectors  # (S, D), rows of length one
    with torch.autocast(own.device.type, enabled=False):  # small products, whose last digits matter
        projected = group.gather(student.projection(own))  # (S, D)
        vectors = F.normalize(group.gather(own), dim=1)  # (S, H)
        cosine = 1 - F.cosine_similarity(projected, teacher, dim=1).mean()
        similarity = (vectors @ vectors.T - teacher @ teacher.T).pow(2).mean()
    return words, cosine, similarity


def _distance_of_words(student: Student, states: Tensor, words: Words) -> Tensor:
    assert student.word_projection is not None
    count, more = len(words.states), words.computed - len(words.places)
    places = F.pad(words.places, (0, more))
    numbers = F.pad(words.numbers, (0, more), value=count)  # the tokens too many are of a word that is nobody's
    own = word_means(states, places, numbers, words.computed + 1)  # (computed + 1, H): never fewer than W + 1
    theirs = F.pad(words.states, (0, 0, 0, len(own) - count))
    distance = 1 - F.cosine_similarity(student.word_projection(own).float(), theirs, dim=1)
    return distance[:count].sum() / max(1, words.everywhere)
