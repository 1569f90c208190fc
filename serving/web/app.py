"""The ASGI application: TF-Serving's REST calls, probes, metrics, the page."""

import contextlib
import dataclasses
import json
from collections.abc import Callable

import fastapi
import numpy as np
import prometheus_client
from fastapi import responses
from starlette.exceptions import HTTPException

from common.errors import UserError
from serving.exported import limits
from serving.options import ServerOptions, check_model_name
from serving.saved_model import SavedModel
from serving.web import page
from serving.web.forms import clients, schema, wire
from serving.web.forms.requests import RAW, Request, parse_request
from serving.web.scheduler import LARGE_ANSWER, LARGE_BODY, Refused, Scheduler
from serving.web.transport.access import OPEN_PATHS, Keys
from serving.web.transport.guard import Guard, refusal
from serving.web.versions import Load, Version, Versions
from serving.web.workers import beside

_DEFAULT_NAME = "xlnet"  # of exports that do not say what they are
_MODEL = "/v1/models/{name}"
_VERSIONS = ("", "/versions/{version}", "/labels/{label}")
# Metrics are Prometheus'; to look for others costs each request.
_TELEMETRY = {"tracing": False, "metrics": False, "logs": False}
_Text = responses.PlainTextResponse
_Html = responses.HTMLResponse


def build_app(
    model: SavedModel, options: ServerOptions, load: Load | None = None
) -> fastapi.FastAPI:
    """The application around a loaded model.

    `app.state.scheduler` has its bounds and counts, `app.state.name` is the
    model's name in its calls. `load` takes a version folder that appears later.
    Raises UserError: the export's own name cannot be part of a URL, or the file
    of keys cannot be used.
    """
    if not options.model_name:
        name = model.description.get("model_type", _DEFAULT_NAME)
        check_model_name(name, "signature.json: model_type")
        options = dataclasses.replace(options, model_name=name)
    server = _Server(model, options, load)
    app = fastapi.FastAPI(
        title=f"{options.model_name} server",
        version=str(model.version),
        lifespan=server.lifespan,
        docs_url=None,  # its page loads scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,  # it would name the Host of the request
        telemetry=_TELEMETRY,
    )
    app.add_exception_handler(Refused, _refused)
    app.add_exception_handler(HTTPException, _http_error)
    scheduler = app.state.scheduler = server.scheduler
    hosts = options.allowed_hosts
    app.add_middleware(
        Guard, scheduler=scheduler, hosts=hosts, keys=server.keys
    )
    app.state.name = options.model_name
    app.include_router(_routes(server))
    schema.finish(app, lambda: server.model, options, OPEN_PATHS)
    return app


def _routes(server: "_Server") -> fastapi.APIRouter:
    router = fastapi.APIRouter()
    named = (404,)  # the body or the path names the model
    of_bodies = (400, 408, 413, 415)
    for path, call, codes in (
        *((_MODEL + v + ":predict", server.predict, named) for v in _VERSIONS),
        ("/answer", server.friendly, ()),
        (wire.EMBEDDINGS, server.embeddings, named),
        (wire.RERANK, server.rerank, ()),
    ):
        router.add_api_route(
            path,
            call,
            methods=["POST"],
            responses=schema.responses(path, *codes, *of_bodies, 503, 504),
            route_class_override=_Plain,
        )
    missing, busy = schema.responses("", 404), schema.responses("", 503)
    for version in _VERSIONS:
        for end, call in (("/metadata", server.metadata), ("", server.status)):
            router.add_api_route(
                _MODEL + version + end,
                call,
                responses=missing,
                route_class_override=_Plain,
            )
    router.add_api_route(wire.MODELS, server.models)
    router.add_api_route("/healthz", server.alive, responses=busy)
    router.add_api_route("/readyz", server.ready, responses=busy)
    router.add_api_route("/about", server.about)
    router.add_api_route("/metrics", server.metrics_text, response_class=_Text)
    router.add_api_route("/", server.page, response_class=_Html)
    return router


class _Plain(fastapi.routing.APIRoute):
    """A call that takes the request and names of its path: strings."""

    def get_route_handler(self) -> Callable:
        """Without the search for what the call depends on."""

        async def handle(request: fastapi.Request):
            return await self.endpoint(request, **request.path_params)

        return handle


class _Server:
    """Handlers."""

    def __init__(
        self, model: SavedModel, options: ServerOptions, load: Load | None
    ):
        self.scheduler = Scheduler(options)
        path = options.api_keys_file
        self.keys = Keys(path) if path else None
        self._versions = Versions(model, self.scheduler, load)
        self._options = options
        self._page = page.load()
        self._page_headers = page.headers(self._page)

    @contextlib.asynccontextmanager
    async def lifespan(self, app):
        """Starts and stops the lanes with the application."""
        del app
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(self._versions.run())
            if self.keys is not None:
                await stack.enter_async_context(beside(self.keys.watch()))
            yield

    @property
    def model(self) -> SavedModel:
        """The version that is served now."""
        return self._versions.current.model

    async def predict(
        self,
        request: fastapi.Request,
        name: str,
        version: str = "",
        label: str = "",
    ):
        """Answers rows of one signature as TF-Serving does."""
        asked = (name, version, label)
        return await self._answer(request, self._exact, asked=asked)

    async def embeddings(self, request: fastapi.Request):
        """Vectors of texts, as OpenAI's clients ask for them."""
        return await self._answer(
            request, self._embeddings, clients.parse_embeddings
        )

    async def rerank(self, request: fastapi.Request):
        """Texts in order, as text-embeddings-inference's clients ask."""
        return await self._answer(request, self._rerank, clients.parse_rerank)

    async def models(self):
        """The model that is served, in OpenAI's form."""
        return _json(clients.write_models(self._options.model_name))

    async def friendly(self, request: fastapi.Request):
        """The same question; probabilities by class, padding left out."""
        return await self._answer(request, self._friendly)

    async def status(
        self,
        request: fastapi.Request,
        name: str,
        version: str = "",
        label: str = "",
    ):
        """Whether the model can be asked."""
        del request
        self._check(self.model, name, version, label)
        entry = {
            "version": str(self.model.version),
            "state": "AVAILABLE",
            "status": {"error_code": "OK", "error_message": ""},
        }
        return _indented({"model_version_status": [entry]})

    async def metadata(
        self,
        request: fastapi.Request,
        name: str,
        version: str = "",
        label: str = "",
    ):
        """The SavedModel's signatures."""
        del request
        self._check(self.model, name, version, label)
        spec = {
            "name": name,
            "signature_name": "",
            "version": str(self.model.version),
        }
        about = {"signature_def": self.model.signature_defs}
        return _indented(
            {"model_spec": spec, "metadata": {"signature_def": about}}
        )

    async def about(self) -> dict:
        """Task, labels and signatures: `signature.json`."""
        return {
            "name": self._options.model_name,
            "version": str(self.model.version),
            "description": self.model.description,
        }

    async def alive(self) -> dict:
        """200 while the process can answer; 503: start it again."""
        return _state("ok", self.scheduler.trouble())

    async def ready(self) -> dict:
        """200 while requests are welcome; 503: send them elsewhere."""
        return _state("ready", self.scheduler.refusal())

    async def metrics_text(self):
        """Prometheus' text format."""
        text = prometheus_client.generate_latest(self.scheduler.counts())
        return _Text(text, media_type=prometheus_client.CONTENT_TYPE_LATEST)

    async def page(self):
        """The page."""
        return _Html(self._page, headers=self._page_headers)

    # --- Steps of a prediction ---------------------------------------------

    async def _answer(
        self,
        http: fastapi.Request,
        answer: Callable,
        parse: Callable = parse_request,
        asked: tuple[str, str, str] | None = None,
    ):
        scheduler = self.scheduler
        with scheduler.counted(), self._versions.lease() as used:
            if asked is not None:
                self._check(used.model, *asked)
            body = await scheduler.body(http)
            whole = self._whole(used, body, parse, answer)
            return await scheduler.in_time(http, whole)

    async def _whole(self, used: Version, body: bytes, parse, answer):
        """Reads, runs and writes."""
        arguments = (body, used.model.description, self._options)
        large = len(body) > LARGE_BODY
        question = await self.scheduler.do(large, parse, *arguments)
        return _json(await answer(used, question))

    async def _write(self, rows: list[dict], write: Callable, *first) -> bytes:
        size = sum(np.size(v) for row in rows for v in row.values())
        return await self.scheduler.do(size > LARGE_ANSWER, write, *first, rows)

    def _check(self, model, name: str, version: str, label: str) -> None:
        last = version or label or name
        if last.endswith(":predict"):  # GET on the predict call lands here
            raise Refused(405, "predict takes POST")
        if name != self._options.model_name:
            raise Refused(
                404,
                f"Servable not found for request: Latest({name}); the model "
                f"here is {self._options.model_name!r}",
            )
        if version and version != str(model.version):
            raise Refused(
                404,
                f"Servable not found for request: Specific({name}, "
                f"{version}); the version here is {model.version}",
            )
        if label and label not in self._options.version_labels:
            raise Refused(404, f"Unrecognized servable version label: {label}")

    async def _exact(self, used: Version, request: Request) -> bytes:
        rows = await used.answer(request, alone=True)
        write = wire.predictions if request.row_format else wire.outputs
        return await self._write(rows, write)

    async def _friendly(self, used: Version, request: Request) -> bytes:
        rows = await used.answer(request, alone=False)
        _require_numbers(rows)
        return await self._write(rows, wire.answers, used.model.description)

    async def _embeddings(
        self, used: Version, question: clients.Embeddings
    ) -> bytes:
        name = self._options.model_name
        if question.model != name:
            raise Refused(
                404, f"model: wanted {name!r}, found {question.model[:40]!r}"
            )
        asked = Request(question.signature, question.rows, True)
        rows = await used.answer(asked, alone=False)
        _require_numbers(rows, clients.VECTOR)
        return await self._write(rows, clients.write_embeddings, question)

    async def _rerank(self, used: Version, question: clients.Rerank) -> bytes:
        asked = Request(RAW, question.rows, True)
        rows = await used.answer(asked, alone=False)
        _require_numbers(rows, question.output)
        problem = clients.too_long(question, rows)
        if problem:
            raise Refused(413, problem)
        return await self._write(rows, clients.write_rerank, question)


def _require_numbers(rows: list[dict], *outputs: str) -> None:
    """Refused: a damaged model's outputs, none given: all. NaN is no JSON.

    TF-Serving's form alone has it.
    """
    try:
        for row in rows:
            for name in outputs or row:
                if np.asarray(row[name]).dtype.kind == "f":
                    limits.check_output(row[name], name)
    except UserError as e:
        raise Refused(500, str(e)) from e


def _state(word: str, problem: str) -> dict:
    if problem:
        raise Refused(503, problem)
    return {"status": word}


def _json(content: bytes) -> responses.Response:
    return responses.Response(content, media_type="application/json")


def _indented(value: dict) -> responses.Response:
    """As TF-Serving writes what it says of a model."""
    return _json((json.dumps(value, indent=1) + "\n").encode())


async def _refused(request, error: Refused):
    headers = {}
    if error.status == 405:
        headers["Allow"] = "POST"
    if error.status in (408, 413, 415):  # the body is not read to its end
        headers["Connection"] = "close"
    return refusal(error.status, error.message, request.url.path, headers)


async def _http_error(request, error: HTTPException):
    """Starlette's own 404 and 405."""
    text = {404: "there is no such path", 405: "this path takes other methods"}
    message = text.get(error.status_code, str(error.detail))
    path = request.url.path
    return refusal(error.status_code, message, path, error.headers)
