"""The HTTP application: routes, their OpenAPI, and the page. Answers: service.py; limits: limits.py."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import cache
from importlib.resources import files
from typing import Any

from fastapi import FastAPI, HTTPException, Request, Response

from pocketbert import __version__
from pocketbert.serve.limits import LOOPBACK, Guard, Refused
from pocketbert.serve.schema import (
    Asked,
    AttentionRequest,
    AttentionResponse,
    ErrorResponse,
    ExplainResponse,
    LimitsOfRequests,
    ModelsResponse,
    PredictRequest,
    PredictResponse,
    Status,
    SwapResponse,
    TextRequest,
    read_request,
)
from pocketbert.serve.service import Service

TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
REPORT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
REFUSALS = {
    400: "no HTTP",
    401: "a token is wanted",
    403: "a page of another origin asks",
    404: "no such model",
    405: "not with this method",
    408: "the body came too slowly",
    413: "the body is too large",
    415: "no JSON",
    421: "asked for under a foreign name",
    422: "not what is expected here; the message says where",
    429: "too much is waiting; Retry-After says when to come again",
    504: "not done in time",
}


def create_app(service: Service, *, token: str | None = None, hosts: tuple[str, ...] | None = LOOPBACK) -> Guard:
    """The whole application, ready for any ASGI server.

    Args:
        token: what a bearer must show; None: anyone who can connect may ask.
        hosts: names under which it may be asked for; None: any.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        service.batcher.start()
        yield
        service.batcher.close()

    app = FastAPI(
        title="pocketbert",
        version=__version__,
        description="Text classification by BERTs that pocketbert has trained.",
        docs_url=None,  # they would fetch scripts from elsewhere
        redoc_url=None,
        lifespan=lifespan,
    )
    guard = Guard(app, service.batcher, service.metrics, service.limits, token=token, hosts=hosts)  # type: ignore[arg-type]
    _add_errors(app)
    _add_answers(app, service)
    _add_state(app, service, guard)
    _add_page(app, service)
    return guard


def _json(value: Any, status: int = 200) -> Response:
    content = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    return Response(content, status, media_type="application/json")


def _add_errors(app: FastAPI) -> None:
    """Every refusal is {"error": …}."""

    @app.exception_handler(Refused)
    async def refused(request: Request, error: Refused) -> Response:
        response = _json({"error": error.message}, error.status)
        for name, value in error.headers:
            response.headers[name.decode()] = value.decode()
        return response

    @app.exception_handler(HTTPException)
    @app.exception_handler(404)
    @app.exception_handler(405)
    async def unknown(request: Request, error: HTTPException) -> Response:
        said = {404: "nothing of that name here", 405: "not with this method"}.get(error.status_code, error.detail)
        response = _json({"error": said}, error.status_code)
        response.headers.update(error.headers or {})
        return response


def _add_answers(app: FastAPI, service: Service) -> None:
    Answer = Callable[[Any], Awaitable[dict[str, Any]]]

    def post(path: str, kind: type[Asked], answer_kind: Any, summary: str, answer: Answer) -> None:
        # The body is read by its type here, not by FastAPI: a third of the time, and one form of messages.
        async def route(request: Request) -> Response:
            return _json(await answer(read_request(kind, await request.body())))

        errors: Any = {code: {"model": ErrorResponse, "description": words} for code, words in REFUSALS.items()}
        app.add_api_route(
            path,
            route,
            methods=["POST"],
            name=path.rpartition("/")[2],
            summary=summary,
            response_model=None,
            responses={200: {"model": answer_kind}, **errors},
            openapi_extra={
                "requestBody": {"required": True, "content": {"application/json": {"schema": kind.model_json_schema()}}}
            },
        )

    post(
        "/v1/predict",
        PredictRequest,
        PredictResponse,
        "Classify texts, or pairs of texts.",
        lambda asked: service.predict(asked.model, asked.texts),
    )
    post(
        "/v1/explain",
        TextRequest,
        ExplainResponse,
        "Which words mattered: each is left out in turn.",
        lambda asked: service.explain(asked.model, asked.text),
    )
    post(
        "/v1/attention",
        AttentionRequest,
        AttentionResponse,
        "What attends to what, in every head of a layer.",
        lambda asked: service.attention(asked.model, asked.text, asked.layer),
    )
    post(
        "/v1/swap",
        TextRequest,
        SwapResponse,
        "The same text with the other pronoun.",
        lambda asked: service.swap(asked.model, asked.text),
    )


def _add_state(app: FastAPI, service: Service, guard: Guard) -> None:
    known = [model.metadata() for model in service.models.values()]
    limits = {name: getattr(service.limits, name) for name in LimitsOfRequests.model_fields}
    errors: Any = {code: {"model": ErrorResponse, "description": REFUSALS[code]} for code in (401, 421)}

    @app.get("/v1/models", responses={200: {"model": ModelsResponse}, **errors}, response_model=None)
    async def models() -> Response:
        """The models that can be named, the first of them the default."""
        return _json({"models": known, "limits": limits})

    @app.get("/healthz", responses={200: {"model": Status}, **errors}, response_model=None)
    async def alive() -> Response:
        """Is the process alive?"""
        return _json({"status": "alive"})

    @app.get(
        "/readyz",
        responses={200: {"model": Status}, 503: {"model": Status, "description": "draining"}, **errors},
        response_model=None,
    )
    async def ready() -> Response:
        """Does it take requests? Not while it drains."""
        return _json({"status": "draining"}, 503) if guard.draining else _json({"status": "ready"})

    @app.get(
        "/metrics",
        responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}, **errors},
        response_class=Response,
    )
    async def metrics() -> Response:
        """Counts and times, as Prometheus reads them."""
        return Response(service.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


@cache
def page_files() -> dict[str, bytes]:
    """What the page is made of."""
    folder = files("pocketbert.serve") / "page"
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name.rpartition(".")[2] in TYPES}


def _add_page(app: FastAPI, service: Service) -> None:
    @app.get("/", include_in_schema=False)
    async def page() -> Response:
        return _file("index.html")

    @app.get("/page/{name}", include_in_schema=False)
    async def part(name: str) -> Response:
        if name not in page_files():
            raise Refused(404, "nothing of that name here")
        return _file(name)

    @app.get("/reports/{name}", include_in_schema=False)
    async def report(name: str) -> Response:
        model = service.models.get(name)
        if model is None or model.report is None:
            raise Refused(404, "no report of that name here")
        headers = {"content-security-policy": REPORT_POLICY}
        return Response(model.report.read_bytes(), media_type="text/html; charset=utf-8", headers=headers)


def _file(name: str) -> Response:
    return Response(page_files()[name], media_type=f"{TYPES[name.rpartition('.')[2]]}; charset=utf-8")
