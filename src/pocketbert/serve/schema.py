"""What is asked and answered over HTTP, as types: from these come the checks of requests, and the OpenAPI document."""

from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pocketbert.serve.limits import Refused

TextOrPair = str | tuple[str, str]
MOST_PROBLEMS = 3  # that a message names


class Asked(BaseModel):
    """Nothing but the fields that are declared, each of its own type."""

    model_config = ConfigDict(extra="forbid", strict=True)


Kind = TypeVar("Kind", bound=Asked)


class PredictRequest(Asked):
    texts: list[TextOrPair] = Field(description="texts; or, for a model of pairs, [first, second]")
    model: str | None = Field(None, description="a name of GET /v1/models; default: the first there")


class TextRequest(Asked):
    text: TextOrPair = Field(description="a text; or, for a model of pairs, [first, second]")
    model: str | None = Field(None, description="a name of GET /v1/models; default: the first there")


class AttentionRequest(TextRequest):
    layer: int = Field(0, ge=0, description="counted from 0")


class Prediction(BaseModel):
    label: str | None = Field(description="the likeliest label; null for a text with nothing in it")
    probabilities: dict[str, float] | None
    tokens: int = Field(description="that the model read, special ones included; words for a model without tokens")
    truncated: bool = Field(description="was the text longer than the model reads?")


class PredictResponse(BaseModel):
    model: str
    predictions: list[Prediction]


class Piece(BaseModel):
    text: str
    importance: float | None = Field(
        description="how much the label's probability falls when the word is left out; null: no word, or the only one"
    )


class ExplainResponse(BaseModel):
    model: str
    method: str
    label: str
    probability: float
    pieces: list[list[Piece]] = Field(description="for each text, pieces that together are the text")


class AttentionResponse(BaseModel):
    model: str
    layer: int
    layers: int
    heads: int
    tokens: list[str]
    maps: list[list[list[float]]] = Field(description="head, token, token that it attends to; rows sum to one")


class SwapSide(BaseModel):
    text: TextOrPair
    prediction: Prediction


class SwapResponse(BaseModel):
    model: str
    original: SwapSide
    swapped: SwapSide | None = Field(description="null: no pronoun to swap")


class ModelMetadata(BaseModel):
    name: str
    task: str
    labels: list[str]
    pair: bool
    method: str
    model: str | None
    max_length: int | None
    layers: int | None
    heads: int | None
    accuracy: dict[str, Any] | None
    columns: list[str | None] = Field(description="of the text, or texts, in the file that it learnt from")
    probability_columns: list[str] = Field(description="what `pocketbert predict` calls them in a CSV")
    report: str | None


class LimitsOfRequests(BaseModel):
    texts: int
    body_bytes: int
    attention_tokens: int
    seconds: float


class ModelsResponse(BaseModel):
    models: list[ModelMetadata]
    limits: LimitsOfRequests


class Status(BaseModel):
    status: str


class ErrorResponse(BaseModel):
    error: str


def read_request(kind: type[Kind], body: bytes) -> Kind:
    """A request's body, or what is wrong with it, and where."""
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_context=False, include_input=False)
        named = [_problem(problem) for problem in problems[:MOST_PROBLEMS]]
        more = f"; and {len(problems) - MOST_PROBLEMS:,} more" if len(problems) > MOST_PROBLEMS else ""
        raise Refused(422, "; ".join(dict.fromkeys(named)) + more) from None


def _problem(problem: Any) -> str:
    # A text or a pair is a union; which of its two forms failed tells nobody anything.
    where = [part for part in problem["loc"] if isinstance(part, int) or not part.startswith(("tuple", "str"))]
    path = "".join(
        f"[{part}]" if isinstance(part, int) else f"{'.' if n else ''}{part}" for n, part in enumerate(where)
    )
    return f"{path}: {problem['msg']}" if path else problem["msg"]
