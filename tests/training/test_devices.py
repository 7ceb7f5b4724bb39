"""A GPU without one: forward passes on tensors that have a device and a shape and no numbers (torch's FakeTensorMode).

An operation on tensors of two devices fails there as it would on a GPU, so that a tensor left on the CPU fails a test.
"""

import numpy as np
import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode

from pocketbert.encoder import Encoder
from pocketbert.heads import HEADS, make_head
from pocketbert.methods.finetune import FinetuneSettings
from pocketbert.training.learners import NetworkLearner, TaskTexts
from pocketbert.training.network import Network

GPU = torch.device("cuda:0")


class Indexing(TorchFunctionMode):
    """x[…] by the operations it stands for: the syntax itself asks for a real device, which a CPU build lacks."""

    def __torch_function__(self, function, types, arguments=(), named=None):
        if function is not torch.Tensor.__getitem__:
            return function(*arguments, **(named or {}))
        x, places = arguments
        place = 0
        for one in places if isinstance(places, tuple) else (places,):
            if one is None:
                x = x.unsqueeze(place)
            elif isinstance(one, int):
                x = x.select(place, one)
                place -= 1
            elif isinstance(one, slice):
                x = torch.ops.aten.slice(x, place, one.start, one.stop, one.step or 1)
            else:
                x = torch.ops.aten.index(x, [*[None] * place, one])
            place += 1
        return x


class OnGpu(Network):
    def to(self, *places):
        return self  # it is there already


def on_gpu(encoder, head, pooling, only_cls):
    network = OnGpu(encoder, {"toy": head}, pooling, only_cls=only_cls)
    for module in network.modules():
        for name, parameter in list(module._parameters.items()):
            module._parameters[name] = nn.Parameter(torch.empty(parameter.shape, device=GPU))
    return network


@pytest.mark.parametrize("head", [name for name, kind in HEADS.items() if not kind.reads_states])  # these want values
@pytest.mark.parametrize("pooling", ["pooler", "cls", "mean"])
@pytest.mark.parametrize("plain", [False, True])
def test_training_and_prediction_leave_no_tensor_on_the_cpu(task, tokenizer, config, head, pooling, plain):
    settings = FinetuneSettings(
        learning_rate=1e-3, epochs=1, batch_size=16, pooling=pooling, head=head, device=str(GPU), class_weights=True,
        only_cls=not plain, vocabulary_slice=not plain, group_by_length=not plain,
    )  # fmt: skip
    train, dev = tokenizer(task.train.texts), tokenizer(task.dev.texts)
    texts = TaskTexts("toy", 2, train, task.train.labels, dev, task.dev.labels)
    made = make_head(head, config.width, 2), Encoder(config, seed=1)
    with FakeTensorMode(allow_non_fake_inputs=False), Indexing(), torch.no_grad():
        network = on_gpu(made[1], made[0], pooling, not plain)
        learner = NetworkLearner(network, lambda part: part.read, [texts], settings, 1e-3)
        network.train()
        loss = learner.loss(np.arange(16))
        assert loss.device == GPU
        network.eval()
        batch = {name: tensor.to(GPU) for name, tensor in learner.tasks[0].dev.tensors(np.arange(8)).items()}
        logits = network(batch, "toy")
        assert (logits.device, tuple(logits.shape)) == (GPU, (8, 2))
        assert network.pool(batch).shape == (8, config.width)


def test_a_tensor_that_is_left_on_the_cpu_fails_here(config):
    encoder, head = Encoder(config, seed=1), make_head("linear", config.width, 2)
    with FakeTensorMode(allow_non_fake_inputs=False), Indexing(), torch.no_grad():
        network = on_gpu(encoder, head, "pooler", True)
        ids = torch.ones(2, 5, dtype=torch.int64)
        batch = {"input_ids": ids.to(GPU), "attention_mask": ids.to(GPU), "token_type_ids": ids}
        with pytest.raises(RuntimeError, match="[Dd]evice"):
            network(batch, "toy")
