"""Lesson: attention by hand, why it divides by √d_k, and whether a token is most similar to itself."""

import numpy as np
import torch

from pocketbert.encoder import Attention, Encoder
from pocketbert.lessons.figure import Panel, figure
from pocketbert.lessons.lesson import LessonPage, lesson
from pocketbert.lessons.material import MODEL, SENTENCES, attentions_of, bundled_model, watched
from pocketbert.lessons.softmax import entropy, softmax
from pocketbert.tokenizer import Tokenizer

KEYS = 32  # that a random query chooses among
DRAWS = 400


def attention_by_hand(x: np.ndarray, attention: Attention, *, scaled: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """The result (T, H) and the maps (A, T, T) for the tokens x (T, H) of one sentence: loops, and nothing hidden."""
    weights, biases = (part.detach().double().numpy() for part in attention.projections())  # (3H, H), (3H)
    query_w, key_w, value_w = np.split(weights, 3)
    query_b, key_b, value_b = np.split(biases, 3)
    tokens, width = x.shape
    size = width // attention.heads
    mixed, maps = np.zeros_like(x), np.zeros((attention.heads, tokens, tokens))
    for head in range(attention.heads):
        own = slice(head * size, (head + 1) * size)  # the rows of the matrices that are this head's
        query = x @ query_w[own].T + query_b[own]  # (T, D)
        key = x @ key_w[own].T + key_b[own]
        value = x @ value_w[own].T + value_b[own]
        for i in range(tokens):
            scores = np.array([query[i] @ key[j] for j in range(tokens)])
            maps[head, i] = softmax(scores / np.sqrt(size) if scaled else scores)
            mixed[i, own] = sum(maps[head, i, j] * value[j] for j in range(tokens))
    output = attention.output
    return mixed @ output.weight.detach().double().numpy().T + output.bias.detach().double().numpy(), maps


@lesson(
    "attention",
    "Attention: softmax(QKᵀ/√d_k) V, by hand",
    """Attention written out in loops gives what the encoder computes. Without the division by √d_k scores grow
    with d_k and softmax picks one token. A token is in general not most similar to itself.""",
)
def teach(page: LessonPage) -> None:
    encoder, tokenizer = bundled_model()
    page.section("Step by step")
    page.text(
        "A sentence is T tokens, each a row x of H numbers. Three learned matrices make three rows of each token: a "
        "query q = xW_Q + b_Q (what it looks for), a key k = xW_K + b_K (what it can be found by), a value v = xW_V + "
        "b_V (what it hands over). A head has its own share of the columns, d_k = H / number of heads. For token i "
        "and every token j:"
    )
    page.formula(
        "score   sᵢⱼ = qᵢ · kⱼ / √d_k",
        "weight  pᵢⱼ = exp(sᵢⱼ) / Σₘ exp(sᵢₘ)        softmax over the tokens m",
        "result  oᵢ  = Σⱼ pᵢⱼ vⱼ",
        "as matrices:  O = softmax(Q Kᵀ / √d_k) V;  the heads' results side by side, times W_O, plus b_O",
    )
    against_the_encoder(page, encoder, tokenizer)
    dims, measured = why_the_root(page)
    on_the_model(page, encoder, tokenizer)
    page.section("Is a token most similar to itself?")
    itself(page, encoder, tokenizer)
    panel = Panel("d_k (logarithmic)", f"entropy over {KEYS} keys, nats", (4, 1024), (0, 3.6), log_x=True, wide=470)
    panel.x_names = {float(d): str(d) for d in dims}
    panel.line([(float(d), row["scaled_entropy"]) for d, row in measured.items()], "scores divided by √d_k", markers=9)
    panel.line([(float(d), row["entropy"]) for d, row in measured.items()], "scores as they are", markers=9)
    panel.reference(y=float(np.log(KEYS)))
    page.draw(
        figure([panel], "Entropy of attention weights against the width of a head"),
        f"""How evenly a random query attends to {KEYS} random keys. Divided by √d_k: the same for every width. Not
        divided: the wider the head, the more one key takes all. The dotted line is log {KEYS}, all alike.""",
    )


def against_the_encoder(page: LessonPage, encoder: Encoder, tokenizer: Tokenizer) -> None:
    worst = worst_map = 0.0
    for sentence in SENTENCES[2:5]:
        batch = tokenizer([sentence]).tensors()
        parts = attentions_of(encoder)
        with watched({str(number): part for number, part in enumerate(parts)}) as seen, torch.inference_mode():
            encoder(**batch)  # the fast way
        with torch.inference_mode():
            maps = encoder(**batch, attentions=True).attentions
        for number, (x, result) in seen.items():
            by_hand, map_by_hand = attention_by_hand(x[0].double().numpy(), parts[int(number)])
            worst = max(worst, float(np.abs(by_hand - result[0].numpy()).max()))
            worst_map = max(worst_map, float(np.abs(map_by_hand - maps[int(number)][0].numpy()).max()))
    page.check(
        f"three sentences, all layers and heads of {MODEL}: these loops give the encoder's result, to 1e-4 (it "
        "computes in 32 bits, the loops in 64)",
        worst < 1e-4,
        result_error=worst,
    )
    page.check("and its attention maps, to 1e-5", worst_map < 1e-5, map_error=worst_map)


def why_the_root(page: LessonPage) -> tuple[list[int], dict[int, dict[str, float]]]:
    page.section("Why √d_k")
    page.text(
        "Let the d_k numbers of q and k be independent, with mean 0 and variance 1. A product qₐkₐ then has mean 0 "
        "and variance 1, and a sum of independent ones has the sum of their variances:"
    )
    page.formula("q · k = Σₐ qₐkₐ          Var(q · k) = d_k          Var(q · k / √d_k) = 1")
    random, dims = np.random.default_rng(0), [4, 16, 64, 256, 1024]
    measured = {}
    for d in dims:
        query, keys = random.normal(size=(DRAWS, 1, d)), random.normal(size=(DRAWS, KEYS, d))
        scores = (query * keys).sum(-1)  # (draws, keys)
        rows = [(softmax(row), softmax(row / np.sqrt(d))) for row in scores]
        measured[d] = {
            "variance": float(scores.var()),
            "entropy": float(np.mean([entropy(plain) for plain, _ in rows])),
            "scaled_entropy": float(np.mean([entropy(scaled) for _, scaled in rows])),
            "slope": float(np.mean([slope(plain) for plain, _ in rows])),
            "scaled_slope": float(np.mean([slope(scaled) for _, scaled in rows])),
            "largest": float(np.mean([plain.max() for plain, _ in rows])),
        }
    shown = ("largest", "entropy", "scaled_entropy")
    page.table(
        ["d_k", "Var(q·k)", "Var(q·k/√d_k)", "largest weight, undivided", "entropy, undivided", "entropy, divided"],
        [
            [d, *(f"{one:.2f}" for one in (row["variance"], row["variance"] / d, *(row[name] for name in shown)))]
            for d, row in measured.items()
        ],
    )
    off = max(abs(row["variance"] / d - 1) for d, row in measured.items())
    page.check(
        f"the variance of q·k is d_k, within 10 %, over {DRAWS} queries of {KEYS} keys each",
        off < 0.1,
        by_width=measured,
    )
    even = [row["scaled_entropy"] for row in measured.values()]
    page.check(
        "divided by √d_k, the entropy of the weights is the same for every width, within 0.1",
        max(even) - min(even) < 0.1,
    )
    falling = [row["entropy"] for row in measured.values()]
    page.check("undivided, it falls with every step of width", bool(np.all(np.diff(falling) < 0)))
    page.text(
        "That matters for learning. How much a weight pᵢ changes with the score sⱼ is ∂pᵢ/∂sⱼ = pᵢ(δᵢⱼ − pⱼ), where "
        "δᵢⱼ is 1 if i = j and else 0. Where one weight is near 1 and the others near 0, all of these are near 0: no "
        "gradient comes through."
    )
    slopes = {d: (row["slope"], row["scaled_slope"]) for d, row in measured.items()}
    page.check(
        f"the sum of all |∂pᵢ/∂sⱼ|, undivided, falls from {slopes[4][0]:.2f} at d_k = 4 to {slopes[1024][0]:.2f} at "
        f"1,024; divided by √d_k it stays at {slopes[4][1]:.2f} and {slopes[1024][1]:.2f}",
        slopes[1024][0] < slopes[4][0] / 4 and abs(slopes[1024][1] / slopes[4][1] - 1) < 0.1,
    )
    return dims, measured


def slope(shares: np.ndarray) -> float:
    """Σ |∂pᵢ/∂sⱼ| of a softmax with these shares."""
    return float(np.abs(np.diag(shares) - np.outer(shares, shares)).sum())


def on_the_model(page: LessonPage, encoder: Encoder, tokenizer: Tokenizer) -> None:
    x = _first_states(encoder, tokenizer, SENTENCES[0])
    attention = attentions_of(encoder)[0]
    both = [attention_by_hand(x, attention, scaled=scaled)[1] for scaled in (True, False)]
    divided, undivided = (float(np.mean([entropy(row) for row in maps.reshape(-1, len(x))])) for maps in both)
    page.check(
        f"the same in {MODEL}'s first layer (d_k = 64, {len(x)} tokens): mean entropy {divided:.2f} as it is, "
        f"{undivided:.2f} if the division is left out",
        undivided < divided - 0.5,
        model_entropy=divided,
        model_entropy_undivided=undivided,
    )


def _first_states(encoder: Encoder, tokenizer: Tokenizer, sentence: str) -> np.ndarray:
    with torch.inference_mode():
        states = encoder(**tokenizer([sentence]).tensors(), hidden_states=True).hidden_states
    assert states is not None
    return states[0][0].double().numpy()


def itself(page: LessonPage, encoder: Encoder, tokenizer: Tokenizer) -> None:
    page.text(
        "Take vectors of equal length and let query and key be the vector itself: by Cauchy and Schwarz, x·y ≤ "
        "‖x‖‖y‖, so nothing beats x·x. But W_Q and W_K are two matrices, learned apart, and xᵢW_Q · xᵢW_K has no "
        "reason to be the largest."
    )
    layers, equal, rows_seen = len(encoder.layers), [], 0
    own, ends = np.zeros(layers), 0
    for sentence in SENTENCES:
        with torch.inference_mode():
            maps = encoder(**tokenizer([sentence]).tensors(), attentions=True).attentions
        assert maps is not None
        x = _first_states(encoder, tokenizer, sentence)
        x = x / np.linalg.norm(x, axis=1, keepdims=True)
        equal += (np.diag(x @ x.T) >= (x @ x.T).max(axis=1) - 1e-12).tolist()
        for number, one in enumerate(maps):
            tokens, most = torch.arange(one.shape[-1]), one[0].argmax(-1)  # (T), (A, T)
            own[number] += int((most == tokens).sum())
            ends += int(((most == 0) | (most == len(tokens) - 1)).sum())
        rows_seen += maps[0][0, :, :, 0].numel()
    shares = own / rows_seen
    page.table(
        ["layer", "rows of the map in which the token's own weight is the largest"],
        [[n, f"{100 * s:.0f} %"] for n, s in enumerate(shares, 1)],
    )
    page.check("without matrices, on vectors of length 1, every token is most similar to itself", all(equal))
    page.check(
        f"with {MODEL}'s matrices it is so in {100 * shares.mean():.0f} % of {layers * rows_seen:,} rows "
        f"({len(SENTENCES)} sentences, {layers} layers, {encoder.config.heads} heads): not in general",
        shares.mean() < 0.5,
        share_most_similar_to_itself=float(shares.mean()),
        share_by_layer=shares,
    )
    total = layers * rows_seen
    page.check(
        f"[CLS] or [SEP] has the largest weight in {100 * ends / total:.0f} % of the rows, more often than the token "
        "itself",
        ends > own.sum(),
        share_at_the_ends=ends / total,
    )
    page.mistake(
        """“A token is most similar to itself, so the diagonal of the map is the largest.” That is true of the
        vectors, not of queries and keys."""
    )
