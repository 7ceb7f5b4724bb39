"""Lesson: what is asked about BERT, with answers, sources, and what can be checked in the code checked there."""

from collections.abc import Sequence

from torch import nn

from pocketbert.catalog import count_parameters
from pocketbert.config import HEADS, SHAPES
from pocketbert.encoder import Encoder
from pocketbert.heads import HEADS as HEAD_KINDS
from pocketbert.heads import BiLSTMHead, MaskedWordHead, NextSentenceHead, Pretraining, make_head
from pocketbert.lessons.figure import Panel, figure
from pocketbert.lessons.lesson import LessonPage, lesson
from pocketbert.lessons.material import MODEL
from pocketbert.loading import load_tokenizer
from pocketbert.pretraining.examples import MASKED, RANDOM, Drawing
from pocketbert.training.optimizer import BETAS

RATE, WARMUP, STEPS = 1e-4, 10_000, 1_000_000  # section A.2
WORDS = {"BooksCorpus": 800_000_000, "English Wikipedia": 2_500_000_000}  # section 3.1
TASKS = ("MNLI-m", "QNLI", "MRPC", "SST-2", "SQuAD F1")
TABLE_5 = {  # dev results of Table 5
    "BERT-base": (84.4, 88.4, 86.7, 92.7, 88.5),
    "without next-sentence prediction": (83.9, 84.9, 86.5, 92.6, 87.9),
    "left to right, without it": (82.1, 84.3, 77.5, 92.1, 77.8),
    "the same + BiLSTM": (82.1, 84.1, 75.7, 91.6, 84.9),
}


def learning_rate(step: float) -> float:
    """Up in a line for 10,000 steps, then down in a line to 0 at the last."""
    return RATE * min(step / WARMUP, (STEPS - step) / (STEPS - WARMUP))


def answers() -> Sequence[tuple[str, str, str]]:
    """Question, answer, and where in Devlin et al. 2019 it stands."""
    return (
        ("What does BERT stand for?", "Bidirectional Encoder Representations from Transformers", "abstract"),
        (
            "What was it pretrained on?",
            "BooksCorpus, 800 M words, and English Wikipedia (text only), 2,500 M words",
            "3.1",
        ),
        ("How large is BERT-base?", "12 layers, 12 heads, width 768", "3"),
        ("How large is BERT-large?", "24 layers, 16 heads, width **1,024**", "3"),
        (
            "How does it know the order of words?",
            "learned position embeddings, added to word and segment embeddings",
            "3, Figure 2",
        ),
        ("What was it trained to do?", "masked words (MLM) and next-sentence prediction (NSP), both at once", "3.1"),
        (
            "How are words masked?",
            "15 % are chosen; of these 80 % become [MASK], 10 % another word, 10 % stay",
            "3.1, A.1",
        ),
        (
            "With which optimiser?",
            "Adam, rate 1e-4, β₁ 0.9, β₂ 0.999, weight decay 0.01; warm-up over 10,000 steps, then linear decay",
            "A.2",
        ),
        ("For how long?", "1,000,000 steps of 256 sequences of at most 512 tokens: about 40 epochs", "A.2"),
        ("On what?", "BERT-base: 4 Cloud TPUs (16 chips); BERT-large: 16 Cloud TPUs (64 chips); 4 days each", "A.2"),
        ("Is MLM better than left-to-right?", "yes, on all five tasks of Table 5", "5.1"),
        (
            "Does it converge faster?",
            "no, a little slower: only 15 % of the words are predicted; but it is soon ahead in accuracy",
            "C.1, Figure 5",
        ),
        ("What is fine-tuned?", "all parameters, and a new output layer", "3.2"),
        ("What is [CLS]?", "the first token of every input; its last state is what a classifier reads", "3, 3.2"),
        (
            "What heads can sit on it?",
            "one linear layer on [CLS] in the paper; any network over the hidden states, such as a BiLSTM, can",
            "4; 5.3",
        ),
    )


@lesson(
    "bert-facts",
    "BERT: what is asked about it, with sources",
    """BERT-large has 24 layers, 16 heads and width 1,024 (335,141,888 parameters), not width 768; and the other
    facts that are asked about BERT, each with its source.""",
)
def teach(page: LessonPage) -> None:
    page.section("Questions and answers")
    page.text(
        "All from Devlin, Chang, Lee and Toutanova (2019), “BERT: Pre-training of Deep Bidirectional Transformers for "
        "Language Understanding”; the last column says where. What is said there of machines, corpora and scores "
        "cannot be checked here; what is a property of the architecture is, below."
    )
    page.table(["question", "answer", "where"], answers())
    page.mistake(
        "Student reports give BERT-large a width of 768. That is BERT-base's; with 24 layers and 16 heads it would "
        "not even be 64 per head, but 48."
    )
    page.section("What the code says")
    large, base = SHAPES["large"], SHAPES["base"]
    count = count_parameters(large)["parameters"]
    shape = (large.layers, large.heads, large.width)
    page.check(
        f"BERT-large: {large.layers} layers, {large.heads} heads, width {large.width:,}: {count:,} parameters",
        shape == (24, 16, 1024) and count == 335_141_888,
        large_layers=large.layers,
        large_heads=large.heads,
        large_width=large.width,
        large_parameters=count,
    )
    page.check(
        f"a head has {large.head_width} numbers in both, {base.width}/{base.heads} and {large.width:,}/{large.heads}",
        large.head_width == base.head_width == 64,
    )
    encoder = Encoder(SHAPES["tiny"], seed=None)
    page.check(
        "positions are a table of parameters, 512 rows, that trains with the rest",
        isinstance(encoder.embeddings.position.weight, nn.Parameter)
        and encoder.embeddings.position.num_embeddings == 512,
    )
    model = Pretraining(encoder, seed=None)
    page.check(
        "a pretraining model has two heads on one encoder: masked words, next sentence",
        isinstance(model.words, MaskedWordHead) and isinstance(model.next_sentence, NextSentenceHead),
    )
    page.check(
        f"{Drawing().share:.0%} of the words are chosen here too, {MASKED:.0%} of them masked and {RANDOM:.0%} "
        "replaced".replace("%", " %"),
        (Drawing().share, MASKED, RANDOM) == (0.15, 0.8, 0.1),
    )
    page.check(
        "every parameter of an encoder may train: none is fixed", all(one.requires_grad for one in encoder.parameters())
    )
    tokenizer = load_tokenizer(MODEL)
    first = tokenizer.tokens[int(tokenizer(["any sentence"]).ids[0])]
    page.check(f"the first token of an input is {first}", first == "[CLS]")
    bilstm = next(name for name in HEADS if HEAD_KINDS[name] is BiLSTMHead)
    page.check(
        "a BiLSTM over all hidden states is one of the heads here, and reads states, not [CLS] alone",
        make_head(bilstm, 128, 2, seed=None).reads_states,
    )
    page.check("Adam's β are 0.9 and 0.999 here too", BETAS == (0.9, 0.999))
    arithmetic(page)
    draw(page)


def arithmetic(page: LessonPage) -> None:
    page.section("Do the numbers fit together?")
    words, tokens = sum(WORDS.values()), STEPS * 256 * 512
    page.formula(
        f"corpora   800 M + 2,500 M = {words / 1e6:,.0f} M words",
        f"read      1,000,000 steps · 256 · 512 = {tokens / 1e9:.0f} billion tokens at most = "
        f"{tokens / words:.0f} times the corpora",
    )
    page.check(
        f"“about 40 epochs” fits: {tokens / words:.0f} (a word is a little more than one token, and not every "
        "sequence is full)",
        35 < tokens / words < 45,
        epochs=tokens / words,
    )
    page.check(
        "the rate is 0 at the start, 1e-4 after 10,000 steps, half of that in the middle of the way down, 0 at the end",
        learning_rate(0) == 0
        and learning_rate(WARMUP) == RATE
        and abs(learning_rate((WARMUP + STEPS) / 2) - RATE / 2) < 1e-12
        and learning_rate(STEPS) == 0,
    )
    page.text("Table 5 of the paper, dev results (accuracy; F1 for SQuAD):")
    page.table(["", *TASKS], [[name, *(f"{score:.1f}" for score in scores)] for name, scores in TABLE_5.items()])
    masked, causal = TABLE_5["without next-sentence prediction"], TABLE_5["left to right, without it"]
    ahead = [round(a - b, 1) for a, b in zip(masked, causal, strict=True)]
    page.check(
        f"like with like, both without next-sentence prediction: masked words are ahead by {min(ahead)} to "
        f"{max(ahead)} points, on each of the five",
        min(ahead) > 0,
        ahead=dict(zip(TASKS, ahead, strict=True)),
    )
    page.mistake(
        "“Left to right trains faster, so it is better”: it learns from every word, and is ahead only in the first "
        "steps; in the end it is behind on all five tasks. A BiLSTM on top helps it on SQuAD alone."
    )
    helped = [task for task, a, b in zip(TASKS, TABLE_5["the same + BiLSTM"], causal, strict=True) if a > b]
    page.check(f"the BiLSTM raises the score of: {', '.join(helped)}", helped == ["SQuAD F1"])


def draw(page: LessonPage) -> None:
    rate = Panel(
        "step, thousands", "learning rate, 1e-4", (0, 1000), (0, 1.1), title="warm-up, then linear decay", wide=340
    )
    steps = [0, 5_000, WARMUP, *range(100_000, STEPS + 1, 100_000)]
    rate.line([(step / 1000, learning_rate(step) / RATE) for step in steps], "BERT's learning rate", markers=13)
    scores = Panel(
        "task",
        "score",
        (-0.4, 4.4),
        (74, 94),
        title="Table 5",
        x_names={float(i): task.split()[0] for i, task in enumerate(TASKS)},
        wide=400,
    )
    for name, values in list(TABLE_5.items())[1:]:
        scores.dots([(float(i), value) for i, value in enumerate(values)], name)
    page.draw(
        figure([rate, scores], "BERT's learning rate, and scores of Table 5"),
        "Left: the learning rate over a million steps. Right: three rows of the paper's Table 5; all without "
        "next-sentence prediction.",
    )
