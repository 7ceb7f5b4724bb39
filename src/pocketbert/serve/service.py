"""What the service answers, apart from HTTP: predictions through the queue, and what explains them."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pocketbert.errors import UserError
from pocketbert.serve.batching import Batcher, Overloaded
from pocketbert.serve.explain import occlusions, swap_pronouns
from pocketbert.serve.limits import Limits, Refused, overloaded
from pocketbert.serve.loaded import Item, LoadedModel, is_empty
from pocketbert.serve.metrics import Metrics

INLINE_CHARACTERS = 20_000  # tokenised at once; more in a thread, so that other requests go on
MOST_TOKENISED = 8_000_000  # characters that may wait for that thread

TextOrPair = str | tuple[str, str]


@dataclass(eq=False)
class Service:
    """The models, the queue before them, and what is counted."""

    models: dict[str, LoadedModel]
    batcher: Batcher
    metrics: Metrics
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        self._tokeniser = ThreadPoolExecutor(1, thread_name_prefix="tokenise")
        self._characters = 0

    def model(self, name: str | None) -> LoadedModel:
        """By name; nothing else of the machine can be named."""
        if name is None:
            return next(iter(self.models.values()))
        if name not in self.models:
            raise Refused(404, f"no model of that name; there are: {', '.join(self.models)}")
        return self.models[name]

    async def predict(self, name: str | None, texts: Sequence[TextOrPair]) -> dict[str, Any]:
        model = self.model(name)
        if len(texts) > self.limits.texts:
            raise Refused(422, f"{len(texts):,} texts; a request holds at most {self.limits.texts:,}: send several")
        return {"model": model.name, "predictions": await self.predictions(model, self._rows(model, texts))}

    async def explain(self, name: str | None, text: TextOrPair) -> dict[str, Any]:
        """Leave out each word in turn."""
        model = self.model(name)
        (texts,) = self._rows(model, [text])
        if is_empty(texts):
            raise Refused(422, "text: there is nothing in it to explain")
        changed = occlusions(texts, self.limits.words)
        rows = [texts, *(row for _, _, row in changed)]
        whole, *others = await self._probabilities(model, rows)
        assert whole is not None
        best = int(whole.argmax())
        pieces: list[list[dict[str, Any]]] = [[] for _ in texts]
        ends = [0 for _ in texts]
        for (number, span, _), values in zip(changed, others, strict=True):
            if span.begin > ends[number]:
                pieces[number].append({"text": texts[number][ends[number] : span.begin], "importance": None})
            fall = None if values is None else round(float(whole[best] - values[best]), 6)
            pieces[number].append({"text": texts[number][span.begin : span.end], "importance": fall})
            ends[number] = span.end
        for number, text_end in enumerate(ends):
            if text_end < len(texts[number]):
                pieces[number].append({"text": texts[number][text_end:], "importance": None})
        return {
            "model": model.name,
            "method": "occlusion",
            "label": model.labels[best],
            "probability": float(whole[best]),
            "pieces": pieces,
        }

    async def attention(self, name: str | None, text: TextOrPair, layer: int) -> dict[str, Any]:
        model = self.model(name)
        if model.network is None:
            raise Refused(422, f"model '{model.name}' has no attention: its method is {model.run.metadata['method']}")
        config = model.network.encoder.config
        if layer >= config.layers:
            raise Refused(422, f"layer {layer}: the model has layers 0 to {config.layers - 1}")
        (item,) = await self._items(model, self._rows(model, [text]))
        most = self.limits.attention_tokens
        if item.tokens > most:
            raise Refused(422, f"{item.tokens} tokens; a map of attention is drawn for up to {most}")
        maps = await asyncio.get_running_loop().run_in_executor(self._tokeniser, model.attention, item, layer)
        return {
            "model": model.name,
            "layer": layer,
            "layers": config.layers,
            "heads": config.heads,
            "tokens": model.token_texts(item),
            "maps": np.round(maps.astype(np.float64), 4).tolist(),
        }

    async def swap(self, name: str | None, text: TextOrPair) -> dict[str, Any]:
        """The same text with the other pronoun."""
        model = self.model(name)
        (texts,) = self._rows(model, [text])
        swapped = [swap_pronouns(one) for one in texts]
        other = None if not any(swapped) else [new or old for new, old in zip(swapped, texts, strict=True)]
        rows = [texts] if other is None else [texts, other]
        first, *second = await self.predictions(model, rows)
        sides = [
            {"text": row if model.pair else row[0], "prediction": prediction}
            for row, prediction in zip(rows, [first, *second], strict=True)
        ]
        return {"model": model.name, "original": sides[0], "swapped": sides[1] if other is not None else None}

    # -- the way through the queue -------------------------------------------------------------------------------

    async def predictions(self, model: LoadedModel, rows: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
        """One per row: label, probabilities, tokens, truncated."""
        full = [number for number, texts in enumerate(rows) if not is_empty(texts)]
        items = await self._items(model, [rows[number] for number in full])
        values = await self._queued(model, items)
        found: list[dict[str, Any]] = [
            {"label": None, "probabilities": None, "tokens": 0, "truncated": False} for _ in rows
        ]
        for number, item, shares in zip(full, items, values.tolist(), strict=True):
            best = max(range(len(shares)), key=shares.__getitem__)
            found[number] = {
                "label": model.labels[best],
                "probabilities": dict(zip(model.labels, shares, strict=True)),
                "tokens": item.tokens,
                "truncated": item.truncated,
            }
        return found

    async def _probabilities(self, model: LoadedModel, rows: Sequence[Sequence[str]]) -> list[np.ndarray | None]:
        full = [number for number, texts in enumerate(rows) if not is_empty(texts)]
        values = await self._queued(model, await self._items(model, [rows[number] for number in full]))
        found: list[np.ndarray | None] = [None] * len(rows)
        for number, shares in zip(full, values, strict=True):
            found[number] = shares
        return found

    def _rows(self, model: LoadedModel, texts: Sequence[TextOrPair]) -> list[list[str]]:
        """One text per row, or two: as many as the model reads."""
        rows = []
        for number, text in enumerate(texts):
            if isinstance(text, str) == model.pair:
                wanted = "pairs: [first, second]" if model.pair else "single texts"
                raise Refused(422, f"texts[{number}]: model '{model.name}' classifies {wanted}")
            rows.append([text] if isinstance(text, str) else list(text))
        return rows

    async def _items(self, model: LoadedModel, rows: Sequence[Sequence[str]]) -> list[Item]:
        """Tokenised: the length is known before anything is queued."""
        size = sum(len(text) for row in rows for text in row)
        try:
            if size <= INLINE_CHARACTERS:
                return model.items(rows)
            if self._characters + size > MOST_TOKENISED:
                raise overloaded(Overloaded(1))
            self._characters += size
            try:
                return await asyncio.get_running_loop().run_in_executor(self._tokeniser, model.items, rows)
            finally:
                self._characters -= size
        except UserError as error:
            raise Refused(422, str(error)) from None

    async def _queued(self, model: LoadedModel, items: Sequence[Item]) -> np.ndarray:
        try:
            values = await self.batcher.probabilities(model, items)
        except Overloaded as error:
            raise overloaded(error) from None
        label = f'{{model="{model.name}"}}'
        self.metrics.add(f"pocketbert_texts_total{label}", len(items))
        self.metrics.add(f"pocketbert_tokens_total{label}", sum(item.tokens for item in items))
        self.metrics.add(f"pocketbert_truncated_total{label}", sum(item.truncated for item in items))
        return values
