"""The losses, against the written formulas and against `transformers`."""

import numpy as np
import pytest
import torch
from conftest import VOCABULARY, hugging_face_bert, random_batch
from torch.nn import functional as F

from pocketbert.catalog import load_pretraining
from pocketbert.config import Config
from pocketbert.encoder import Encoder
from pocketbert.heads import Pretraining
from pocketbert.pretraining.distillation import DistillationBatch, Words
from pocketbert.pretraining.distributed import Processes
from pocketbert.pretraining.examples import Batch
from pocketbert.pretraining.objective import Student, distillation_losses, read_batch
from pocketbert.training.batches import round_up_to_bucket

SMALL = Config(vocabulary=50, width=24, layers=2, heads=3, inner=40, positions=32)


def make_batch(config, *, rows: int = 6, length: int = 20, seed: int = 0, masked: int = 9, more: int = 3) -> Batch:
    given = random_batch(config, rows=rows, length=length, seed=seed)
    random = np.random.default_rng(seed)
    real = np.flatnonzero(given["attention_mask"].numpy())
    places = np.sort(random.choice(real, masked, replace=False))
    words = random.integers(5, config.vocab_size, masked)
    next_sentence_labels = torch.from_numpy(random.integers(0, 2, rows))
    places, words = torch.from_numpy(places), torch.from_numpy(words)
    return Batch(
        **given,
        places=places,
        words=words,
        next_sentence_labels=next_sentence_labels,
        computed=masked + more,
        masked_everywhere=masked,
        rows_everywhere=rows,
        tokens_everywhere=len(real),
    )


class _Sizes:
    vocab_size = SMALL.vocabulary


def test_two_masked_words_cost_what_the_formula_says():
    model = Pretraining(Encoder(SMALL, seed=1), seed=2).eval()
    batch = make_batch(_Sizes, masked=2)
    everything = model(batch.input_ids, batch.attention_mask, batch.token_type_ids)
    p = everything.words.flatten(0, 1).softmax(dim=1)[batch.places, batch.words].double()
    expected = (-torch.log(p[0]) - torch.log(p[1])) / 2
    assert abs(read_batch(model, batch).word_loss.item() / 2 - expected.item()) < 1e-6


def test_computing_only_the_masked_places_equals_computing_all():
    model = Pretraining(Encoder(SMALL, seed=1), seed=2).eval()
    batch = make_batch(_Sizes)
    told = read_batch(model, batch, count_right=True)
    told.word_loss.backward()
    gradients = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    everything = model(batch.input_ids, batch.attention_mask, batch.token_type_ids).words.flatten(0, 1)
    labels = torch.full((everything.shape[0],), -100)
    labels[batch.places] = batch.words
    whole = F.cross_entropy(everything, labels, ignore_index=-100, reduction="sum")
    whole.backward()
    assert abs(whole.item() - told.word_loss.item()) < 1e-4
    for name, gradient in gradients.items():
        assert torch.allclose(gradient, dict(model.named_parameters())[name].grad, atol=1e-5), name
    assert int(told.words_right) == int((everything.argmax(dim=1) == labels).sum())


def test_the_loss_is_that_of_transformers(tmp_path):
    theirs = hugging_face_bert("BertForPreTraining")
    theirs.save_pretrained(tmp_path / "model")
    (tmp_path / "model" / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n")
    ours = load_pretraining(tmp_path / "model", quiet=True)
    for seed in range(3):
        batch = make_batch(theirs.config, seed=seed)
        labels = torch.full_like(batch.input_ids, -100)
        labels.view(-1)[batch.places] = batch.words
        with torch.no_grad():
            expected = theirs(
                input_ids=batch.input_ids,
                attention_mask=batch.attention_mask,
                token_type_ids=batch.token_type_ids,
                labels=labels,
                next_sentence_label=batch.next_sentence_labels,
            ).loss
            told = read_batch(ours, batch)
        assert told.next_loss is not None
        found = told.word_loss / batch.masked_everywhere + told.next_loss / batch.rows_everywhere
        assert abs(found.item() - expected.item()) < 1e-5


def test_left_to_right_a_later_word_changes_nothing_before_it():
    encoder = Encoder(SMALL, seed=3).eval()
    ids = torch.randint(5, 50, (3, 12), generator=torch.Generator().manual_seed(0))
    mask = torch.tril(torch.ones(12, 12, dtype=torch.int64)).expand(3, 12, 12)
    changed = ids.clone()
    changed[:, 7:] = 6
    with torch.no_grad():
        before, after = (encoder(x, mask).last_hidden_state for x in (ids, changed))
        by_formula = encoder(ids, mask, attentions=True)
        only_first = encoder(ids, mask, only_cls=True).last_hidden_state
    assert torch.equal(before[:, :7], after[:, :7])
    assert not torch.allclose(before[:, 7:], after[:, 7:])
    assert torch.allclose(by_formula.last_hidden_state, before, atol=1e-5)
    assert all((torch.triu(attention, diagonal=1) == 0).all() for attention in by_formula.attentions)
    assert torch.allclose(only_first[:, 0], before[:, 0], atol=1e-5)


def test_a_mask_of_rows_that_all_see_the_same_is_the_plain_mask():
    encoder = Encoder(SMALL, seed=3).eval()
    given = random_batch(_Sizes, rows=4, length=10, seed=1)
    with torch.no_grad():
        plain = encoder(given["input_ids"], given["attention_mask"]).last_hidden_state
        rows = encoder(given["input_ids"], given["attention_mask"][:, None].expand(4, 10, 10)).last_hidden_state
    assert torch.allclose(plain, rows, atol=1e-6)


def test_agreeing_with_the_teacher_costs_nothing_and_differing_what_the_formula_says():
    student = Student(Pretraining(Encoder(SMALL, seed=1), seed=2), 24, "mean", seed=3).eval()
    given = random_batch(_Sizes, rows=5, length=9, seed=2)
    batch = {name: given[name] for name in ("input_ids", "attention_mask")}
    with torch.no_grad():
        own, _ = student.read_sentences(**batch)
        student.projection.weight.copy_(torch.eye(24))
        none, *agreed = distillation_losses(
            student, DistillationBatch(batch, F.normalize(own, dim=1), None), Processes()
        )
        assert none is None
        assert max(value.item() for value in agreed) < 1e-6
        teacher = F.normalize(torch.randn(5, 24, generator=torch.Generator().manual_seed(1)), dim=1)
        _, cosine, similarity = distillation_losses(student, DistillationBatch(batch, teacher, None), Processes())
    unit = F.normalize(own, dim=1)
    assert abs(cosine.item() - (1 - (unit * teacher).sum(dim=1)).mean().item()) < 1e-6
    expected = np.mean([(unit[i] @ unit[j] - teacher[i] @ teacher[j]).item() ** 2 for i in range(5) for j in range(5)])
    assert abs(similarity.item() - expected) < 1e-6
    pooled, _ = Student(student.model, 24, "pooler", seed=3).eval().read_sentences(**batch)
    assert torch.allclose(pooled, student.model.encoder(**batch).pooler_output, atol=1e-5)


@pytest.mark.parametrize("pooling", ["mean", "pooler"])
def test_the_distance_of_words_is_what_the_formula_says(pooling):
    """Three words of a batch of two sentences: tokens 1 and 2, token 3, and token 1 of the second."""
    student = Student(Pretraining(Encoder(SMALL, seed=1), seed=2), 20, pooling, seed=3, of_words=True).eval()
    given = random_batch(_Sizes, rows=2, length=9, seed=2)
    batch = {name: given[name] for name in ("input_ids", "attention_mask")}
    taught = torch.randn(3, 20, generator=torch.Generator().manual_seed(1))
    words = Words(torch.tensor([1, 2, 3, 10]), torch.tensor([0, 0, 1, 2]), taught, everywhere=4, computed=5)
    with torch.no_grad():
        told, _, _ = distillation_losses(
            student, DistillationBatch(batch, F.normalize(torch.randn(2, 20), dim=1), words), Processes()
        )
        states = student.model.encoder(**batch).last_hidden_state
        own = torch.stack([(states[0, 1] + states[0, 2]) / 2, states[0, 3], states[1, 1]])
        projected = student.word_projection(own)
    expected = sum(1 - F.cosine_similarity(projected[i], taught[i], dim=0).item() for i in range(3)) / 4
    assert abs(told.item() - expected) < 1e-5


def test_words_are_learned_as_the_formula_says():
    """Also where more are computed than there are."""
    student = Student(Pretraining(Encoder(SMALL, seed=1), seed=2), 20, "mean", seed=3, of_words=True).eval()
    given = random_batch(_Sizes, rows=9, length=9, seed=2)
    batch = {name: given[name] for name in ("input_ids", "attention_mask")}
    taught = torch.randn(35, 20, generator=torch.Generator().manual_seed(1))
    words = Words(torch.arange(69), torch.arange(69) // 2, taught, everywhere=35, computed=72)
    distillation_losses(student, DistillationBatch(batch, taught[:9], words), Processes())[0].backward()
    found = {name: p.grad.clone() for name, p in student.named_parameters() if p.grad is not None}
    student.zero_grad()
    states = student.model.encoder(**batch).last_hidden_state.flatten(0, 1)
    own = torch.stack([states[2 * i : min(2 * i + 2, 69)].mean(dim=0) for i in range(35)])
    (1 - F.cosine_similarity(student.word_projection(own), taught, dim=1)).mean().backward()
    expected = {name: p.grad for name, p in student.named_parameters() if p.grad is not None}
    assert found.keys() == expected.keys()
    for name, gradient in found.items():
        assert torch.allclose(gradient, expected[name], atol=1e-6), name


@pytest.mark.parametrize("most", [0, 1, 16, 30, 64, 128, 1_229])
def test_what_is_computed_comes_in_sixteen_kinds(most):
    made = [round_up_to_bucket(count, most) for count in range(1, most + 1)]
    assert len(set(made)) <= 16
    assert all(count <= found <= min(most, count + -(-most // 16)) for count, found in enumerate(made, start=1))
    assert round_up_to_bucket(0, most) == 0
    assert round_up_to_bucket(most + 1, most) > most  # more than was thought is not cut
