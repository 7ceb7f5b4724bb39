"""The teacher's word vectors, reduced."""

import numpy as np
import pytest

from pocketbert.errors import UserError
from pocketbert.pretraining.teacher import find_teacher, principal_components, word_table


@pytest.fixture(scope="module")
def teacher(big_teacher):
    return find_teacher(big_teacher)


def test_principal_components_keep_the_distances_that_matter():
    random = np.random.default_rng(0)
    flat = random.normal(size=(300, 5)) @ random.normal(size=(5, 40))  # five directions in forty
    reduced = principal_components(flat, 8)
    between = [np.linalg.norm(x[:50, None] - x[None, :50], axis=2) for x in (flat, reduced)]
    assert np.allclose(between[0], between[1])
    assert np.allclose(reduced.mean(axis=0), 0)
    spread = reduced.std(axis=0)
    assert (np.diff(spread[:5]) <= 1e-9).all()
    assert np.allclose(spread[5:], 0, atol=1e-6)


def test_word_vectors_come_from_the_teachers_pieces(corpus, teacher):
    table = word_table(teacher, corpus.tokenizer, 16, 0.02)
    tokens, theirs = corpus.tokenizer.tokens, teacher.tokenizer.tokens
    assert table.shape == (len(tokens), 16)
    assert abs(table.std() - 0.02) < 2e-3
    assert (table[corpus.tokenizer.padding_id] == 0).all()
    # At full width nothing is reduced: angles between centred vectors are the teacher's own.
    wide = word_table(teacher, corpus.tokenizer, 48, 0.02).astype(np.float64)
    original = teacher.model.encoder().embeddings.word.weight.detach().double().numpy()
    shared = [token for token in tokens if token in theirs][1:]
    ours = wide[[tokens.index(token) for token in shared]]
    own = original[[theirs.index(token) for token in shared]]
    differences = [np.linalg.norm(x[:, None] - x[None], axis=2) for x in (ours, own)]
    ratio = differences[0][differences[1] > 0] / differences[1][differences[1] > 0]
    assert ratio.std() / ratio.mean() < 1e-4


def test_a_shape_cannot_teach():
    with pytest.raises(UserError, match="no pretrained weights"):
        find_teacher("tiny")
    with pytest.raises(UserError, match="no model 'nobody'"):
        find_teacher("nobody")


def test_a_layer_that_the_teacher_has_not_is_refused(big_teacher):
    assert find_teacher(big_teacher, 2).width == 48
    with pytest.raises(UserError, match="teacher_layer: 3, but .* has 2 layers"):
        find_teacher(big_teacher, 3)
