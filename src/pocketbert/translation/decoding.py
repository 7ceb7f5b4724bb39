"""Greedy and beam search over any step function: what a decoder says about the next token, made into sentences.

A step function is given the last token of every row and a state, and gives the log-probabilities of the next token
and the new state. The state is the decoder's own business: its keys and values of all tokens so far, whatever else. The
search only puts its rows in another order when hypotheses move; for nested tuples, lists and dicts of tensors whose
first dimension is the row `reorder_rows` does that, for anything else the caller passes a function.

Shapes: B sentences, W hypotheses per sentence, V vocabulary; a row is one hypothesis, B·W of them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

StepFunction = Callable[[Tensor, Any], tuple[Tensor, Any]]  # (rows), state → log-probabilities (rows, V), state
Reorder = Callable[[Any, Tensor], Any]  # state, (rows) numbers of old rows → the state with those rows


@dataclass(frozen=True)
class Hypothesis:
    """One decoded sequence."""

    tokens: tuple[int, ...]  # without the start token; the last one is the end token where it ended
    log_probability: float  # the sum over its tokens
    score: float  # log_probability / length ** length_penalty: what hypotheses are ranked by
    ended: bool  # False: cut off at max_length


def reorder_rows(state: Any, rows: Tensor) -> Any:
    """Nested tuples, lists and dicts of tensors, each with its rows in the new order; None stays None."""
    if state is None:
        return None
    if isinstance(state, Tensor):
        return state.index_select(0, rows)
    if isinstance(state, dict):
        return {name: reorder_rows(one, rows) for name, one in state.items()}
    if isinstance(state, tuple | list):
        moved = [reorder_rows(one, rows) for one in state]
        return type(state)(*moved) if hasattr(state, "_fields") else type(state)(moved)
    raise TypeError(f"a state of {type(state).__name__} cannot be reordered by rows; pass a function as `reorder`")


def greedy(
    step: StepFunction, state: Any, start: Tensor, *, end: int, max_length: int, length_penalty: float = 0.0
) -> list[Hypothesis]:
    """The most probable token at every step, for each of B start tokens (B); arguments as `beam_search`'s."""
    _require(width=1, best=1, max_length=max_length)
    rows = len(start)
    tokens, total = start, torch.zeros(rows, dtype=torch.float64, device=start.device)
    ended = torch.zeros(rows, dtype=torch.bool, device=start.device)
    lengths = torch.zeros(rows, dtype=torch.long, device=start.device)
    history = []
    for _ in range(max_length):
        log_probabilities, state = step(tokens, state)
        log_probability, best = _checked(log_probabilities, rows, end).topk(1, dim=1)  # (B, 1)
        tokens = torch.where(ended, end, best[:, 0])
        total += torch.where(ended, 0.0, log_probability[:, 0].double())
        lengths += (~ended).long()
        ended = ended | (tokens == end)
        history.append(tokens)
        if ended.all():
            break
    written = torch.stack(history, dim=1).tolist()
    columns = (written, lengths.tolist(), total.tolist(), ended.tolist())
    return [_hypothesis(row, length_penalty) for row in zip(*columns, strict=True)]


def beam_search(
    step: StepFunction,
    state: Any,
    start: Tensor,
    *,
    end: int,
    max_length: int,
    width: int,
    best: int = 1,
    length_penalty: float = 0.0,
    reorder: Reorder = reorder_rows,
) -> list[list[Hypothesis]]:
    """For each of B sentences its `best` hypotheses, the best first.

    A sentence keeps `width` hypotheses. At every step each unended one is followed by every token; the ended ones stay
    as they are; the `width` best of all these go on. It ends when all that are kept have ended, or at `max_length`. So
    with width 1 it is greedy search, and with a width that nothing falls out of, exhaustive search.

    Args:
        step: what the decoder says; its log-probabilities are those of the next token, normalised.
        state: its state before the first step, with one row per sentence.
        start: (B) the token that each sentence begins with; it is not part of the result.
        end: the token after which nothing follows.
        max_length: tokens at most, the end token counted.
        width: W.
        best: how many hypotheses to give per sentence, at most W.
        length_penalty: 0 ranks by the sum of log-probabilities, which favours short sequences; 1 by their mean.
        reorder: puts the rows of the state in a new order, repeats some and drops others.
    """
    _require(width=width, best=best, max_length=max_length)
    sentences, device = len(start), start.device
    offsets = torch.arange(sentences, device=device)[:, None] * width  # (B, 1)
    state = reorder(state, torch.arange(sentences, device=device).repeat_interleave(width))
    tokens = start[:, None].expand(-1, width)  # (B, W)
    total = torch.full((sentences, width), -torch.inf, dtype=torch.float64, device=device)
    total[:, 0] = 0.0  # all rows of a sentence are the same yet: one of them counts
    ended = torch.zeros(sentences, width, dtype=torch.bool, device=device)
    lengths = torch.zeros(sentences, width, dtype=torch.long, device=device)
    history = torch.empty(sentences, width, 0, dtype=torch.long, device=device)
    for _ in range(max_length):
        log_probabilities, state = step(tokens.flatten(), state)
        log_probabilities = _checked(log_probabilities, sentences * width, end)
        likely, following = log_probabilities.topk(
            min(width, log_probabilities.shape[1]), dim=1
        )  # (B·W, K): no more than W can be kept
        likely, following = (part.unflatten(0, (sentences, width)) for part in (likely.double(), following))
        # An ended hypothesis has one follower, itself, in the first column.
        stays = torch.full_like(likely, -torch.inf)
        stays[:, :, 0] = 0.0
        grown = total[:, :, None] + torch.where(ended[:, :, None], stays, likely)  # (B, W, K)
        long = (lengths + (~ended).long())[:, :, None].expand_as(grown)
        ranked = scored(grown, long, length_penalty).flatten(1)
        chosen = ranked.sort(dim=1, descending=True, stable=True).indices[:, :width]  # (B, W)
        parents = chosen // likely.shape[2]  # (B, W) which hypothesis of the sentence
        total, lengths = grown.flatten(1).gather(1, chosen), long.flatten(1).gather(1, chosen)
        ended = ended.gather(1, parents)
        tokens = torch.where(ended, end, following.flatten(1).gather(1, chosen))
        ended = ended | (tokens == end)
        kept = history.gather(1, parents[:, :, None].expand(-1, -1, history.shape[2]))
        history = torch.cat([kept, tokens[:, :, None]], dim=2)
        if (ended | (total == -torch.inf)).all():
            break
        state = reorder(state, (offsets + parents).flatten())
    columns = [part[:, :best].tolist() for part in (history, lengths, total, ended)]  # they are sorted
    found = []
    for rows in zip(*columns, strict=True):
        possible = [row for row in zip(*rows, strict=True) if row[2] > -torch.inf]  # fewer than W may exist
        found.append([_hypothesis(row, length_penalty) for row in possible])
    return found


def scored(log_probability: Tensor, lengths: Tensor, length_penalty: float) -> Tensor:
    """What hypotheses are ranked by."""
    return log_probability / lengths.double().clamp(min=1) ** length_penalty


def _hypothesis(row: tuple[list[int], int, float, bool], length_penalty: float) -> Hypothesis:
    tokens, length, log_probability, ended = row
    score = log_probability / max(1, length) ** length_penalty
    return Hypothesis(tuple(tokens[:length]), log_probability, score, ended)


def _checked(log_probabilities: Tensor, rows: int, end: int) -> Tensor:
    """A step's answer, or an error that says what is wrong with it: a search would go on with nonsense."""
    if log_probabilities.ndim != 2 or len(log_probabilities) != rows or not 0 <= end < log_probabilities.shape[1]:
        raise ValueError(
            f"step gave {tuple(log_probabilities.shape)}; expected ({rows}, V) with the end token {end} below V"
        )
    if not bool((log_probabilities <= 1e-4).all()):  # nor is NaN
        raise ValueError("step gave numbers that are no log-probabilities: above 0, or not a number")
    return log_probabilities


def _require(**values: int) -> None:
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(f"{name}: {value!r} is not a whole number of at least 1")
    if values["best"] > values["width"]:
        raise ValueError(f"best: {values['best']} hypotheses are asked for, but width is {values['width']}")
