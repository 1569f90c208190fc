"""The ASGI application: TF-Serving's REST calls, probes, metrics, the page."""

import asyncio
import contextlib
import dataclasses
import time
from collections.abc import Callable

import fastapi
import numpy as np
import prometheus_client
from fastapi import responses
from starlette.requests import ClientDisconnect

from common.errors import UserError
from serving.options import ServerOptions, check_model_name
from serving.saved_model import SavedModel
from serving.web import clients, page, replies, schema, wire
from serving.web.access import KeyCheck, Keys
from serving.web.engine import Engine, Refused
from serving.web.guard import Guard
from serving.web.helper import Helper
from serving.web.metrics import Metrics
from serving.web.requests import RAW, Request, parse_request
from serving.web.scheduler import Overloaded
from serving.web.versions import Load, Versions

_DEFAULT_NAME = "xlnet"  # of exports that do not say what they are
_MODEL = "/v1/models/{name}"
_VERSIONS = ("", "/versions/{version}", "/labels/{label}")
_LARGE_BODY = 16_384  # bytes that are read elsewhere
_LARGE_ANSWER = 2_000  # values that are written elsewhere
# Metrics are Prometheus'; to look for others costs each request.
_TELEMETRY = {"tracing": False, "metrics": False, "logs": False}
_Text = responses.PlainTextResponse
_Html = responses.HTMLResponse


def build_app(
    model: SavedModel, options: ServerOptions, load: Load | None = None
) -> fastapi.FastAPI:
    """The application around a loaded model.

    `app.state.metrics` are its series. `app.state.versions` runs the model; `app.state.versions.drain()` tells it
    that the end comes. `app.state.name` is the model's name in its calls;
    `app.state.warm_up()` makes the first large request wait less.

    Args:
      model: the version to begin with.
      options: bounds, names, times.
      load: version folder -> model, for versions that appear later.

    Raises:
      UserError: the export's own name cannot be part of a URL, or the file
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
        telemetry=_TELEMETRY,
    )
    replies.handle_errors(app)
    if server.keys is not None:
        app.add_middleware(KeyCheck, keys=server.keys, metrics=server.metrics)
    app.add_middleware(
        Guard,
        metrics=server.metrics,
        draining=lambda: server.versions.draining,
        hosts=options.allowed_hosts,
    )
    app.state.metrics = server.metrics
    app.state.versions = server.versions
    app.state.name = options.model_name
    app.state.warm_up = server.warm_up
    app.include_router(_routes(server, model, options))
    replies.finish_openapi(app, lambda: server.engine.model, options)
    return app


def _routes(server: "_Server", model, options) -> fastapi.APIRouter:
    router = fastapi.APIRouter()
    body = schema.predict_body(model.description, options)
    errors = schema.responses(400, 404, 408, 413, 503, 504)
    calls = [(_MODEL + v + ":predict", server.predict) for v in _VERSIONS]
    for path, call in [*calls, ("/answer", server.friendly)]:
        router.add_api_route(
            path,
            call,
            methods=["POST"],
            openapi_extra=body,
            responses=errors,
            route_class_override=_Plain,
        )
    for path, call, taken, wanted in (
        (
            wire.EMBEDDINGS,
            server.embeddings,
            schema.embeddings_body(options),
            clients.gives_vectors(model.description),
        ),
        (
            wire.RERANK,
            server.rerank,
            schema.rerank_body(options),
            clients.ranks(model.description),
        ),
    ):
        router.add_api_route(
            path,
            call,
            methods=["POST"],
            openapi_extra=taken,
            responses=errors,
            route_class_override=_Plain,
            include_in_schema=wanted,
        )
    router.add_api_route(wire.MODELS, server.models)
    missing = schema.responses(404)
    for version in _VERSIONS:
        router.add_api_route(
            _MODEL + version + "/metadata", server.metadata, responses=missing
        )
        router.add_api_route(_MODEL + version, server.status, responses=missing)
    busy = schema.responses(503)
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
        self.metrics = Metrics()
        self.versions = Versions(model, options, self.metrics, load)
        path = options.api_keys_file
        self.keys = Keys(path) if path else None
        self._options = options
        self._helper = Helper()
        self._page = page.load()
        self._page_headers = page.headers(self._page)

    @contextlib.asynccontextmanager
    async def lifespan(self, app):
        """Starts and stops the engine with the application."""
        del app
        try:
            async with contextlib.AsyncExitStack() as stack:
                await stack.enter_async_context(self.versions.run())
                if self.keys is not None:
                    await stack.enter_async_context(self.keys.watched())
                yield
        finally:
            self._helper.close()

    async def warm_up(self) -> None:
        """Starts the helper: its first large request waits less."""
        await self._helper.run(wire.error, "")

    @property
    def engine(self) -> Engine:
        """Of the version that is served now."""
        return self.versions.current

    async def predict(
        self,
        request: fastapi.Request,
        name: str,
        version: str = "",
        label: str = "",
    ):
        """Answers rows of one signature as TF-Serving does."""
        return await self._counted(
            request,
            lambda engine: self._check(engine, name, version, label),
            self._exact,
        )

    async def embeddings(self, request: fastapi.Request):
        """Vectors of texts, as OpenAI's clients ask for them."""
        return await self._counted(
            request, _any, self._embeddings, clients.parse_embeddings
        )

    async def rerank(self, request: fastapi.Request):
        """Texts in order, as text-embeddings-inference's clients ask."""
        return await self._counted(
            request, _any, self._rerank, clients.parse_rerank
        )

    async def models(self):
        """The model that is served, in OpenAI's form."""
        return replies.as_json(clients.write_models(self._options.model_name))

    async def friendly(self, request: fastapi.Request):
        """The same question; probabilities by class, padding left out."""
        return await self._counted(request, _any, self._friendly)

    async def status(self, name: str, version: str = "", label: str = ""):
        """Whether the model can be asked."""
        self._check(self.engine, name, version, label)
        status = {"error_code": "OK", "error_message": ""}
        entry = {
            "version": str(self.engine.model.version),
            "state": "AVAILABLE",
            "status": status,
        }
        return replies.indented({"model_version_status": [entry]})

    async def metadata(self, name: str, version: str = "", label: str = ""):
        """The SavedModel's signatures."""
        self._check(self.engine, name, version, label)
        spec = {
            "name": name,
            "signature_name": "",
            "version": str(self.engine.model.version),
        }
        found = {"signature_def": self.engine.model.signature_defs}
        return replies.indented(
            {"model_spec": spec, "metadata": {"signature_def": found}}
        )

    async def about(self) -> dict:
        """Task, labels and signatures: `signature.json`."""
        return {
            "name": self._options.model_name,
            "version": str(self.engine.model.version),
            "description": self.engine.model.description,
        }

    async def alive(self) -> dict:
        """200 while the process can answer; 503: start it again."""
        _refuse_if(self.engine.scheduler.stuck())
        return {"status": "ok"}

    async def ready(self) -> dict:
        """200 while requests are welcome; 503: send them elsewhere."""
        scheduler = self.engine.scheduler
        ending = "the server is ending" if self.versions.draining else ""
        _refuse_if(scheduler.stuck() or ending or scheduler.crowded())
        return {"status": "ready"}

    async def metrics_text(self):
        """Prometheus' text format."""
        self.metrics.waiting.set(self.engine.scheduler.waiting)
        text = prometheus_client.generate_latest(self.metrics.registry)
        return _Text(text, media_type=prometheus_client.CONTENT_TYPE_LATEST)

    async def page(self):
        """The page."""
        return _Html(self._page, headers=self._page_headers)

    # --- Steps of a prediction ---------------------------------------------

    async def _counted(
        self,
        http: fastapi.Request,
        check: Callable,
        answer: Callable,
        parse: Callable = parse_request,
    ):
        start = time.perf_counter()
        status = 500
        try:
            with self.versions.lease() as engine:
                check(engine)
                body = await self._body(http)
                whole = self._in_time(engine, body, parse, answer)
                result = await replies.unless_gone(http, whole)
                status = 200
                return result
        except Refused as e:
            status = e.status
            raise
        except ClientDisconnect:
            status = 499
            raise
        finally:
            self.metrics.requests.labels(str(status)).inc()
            self.metrics.seconds.observe(time.perf_counter() - start)

    def _check(
        self, engine: Engine, name: str, version: str, label: str
    ) -> None:
        last = version or label or name
        if last.endswith(":predict"):  # GET on the predict call lands here
            raise Refused(405, "predict takes POST")
        if name != self._options.model_name:
            raise Refused(
                404,
                f"Servable not found for request: Latest({name}); the model "
                f"here is {self._options.model_name!r}",
            )
        if version and version != str(engine.model.version):
            raise Refused(
                404,
                f"Servable not found for request: Specific({name}, "
                f"{version}); the version here is {engine.model.version}",
            )
        if label and label not in self._options.version_labels:
            raise Refused(404, f"Unrecognized servable version label: {label}")

    async def _body(self, request: fastapi.Request) -> bytes:
        limit = self._options.max_body_bytes
        message = f"the body is larger than {limit} bytes"
        length = request.headers.get("content-length", "0")
        if length.isdecimal() and int(length) > limit:
            raise Refused(413, message)
        body = bytearray()
        try:
            async with asyncio.timeout(self._options.read_timeout_s):
                async for chunk in request.stream():
                    body += chunk
                    if len(body) > limit:
                        raise Refused(413, message)
        except TimeoutError as e:
            raise Refused(408, "the body came too slowly") from e
        return bytes(body)

    async def _in_time(
        self, engine: Engine, body: bytes, parse: Callable, answer: Callable
    ):
        """Reads, runs and writes: see `scheduler`."""
        arguments = (body, engine.model.description, self._options)
        large = len(body) > _LARGE_BODY
        try:
            async with asyncio.timeout(self._options.timeout_s):
                request = await self._do(large, parse, *arguments)
                return replies.as_json(await answer(engine, request))
        except Overloaded as e:
            raise Refused(
                503, "too many requests are waiting; try later"
            ) from e
        except TimeoutError as e:
            raise Refused(504, "the answer took too long; send less") from e
        except UserError as e:
            raise Refused(400, str(e)) from e

    async def _do(self, large: bool, function: Callable, *arguments):
        """`function(*arguments)`, by the helper where it is much work."""
        if large:
            return await self._helper.run(function, *arguments)
        return function(*arguments)

    async def _exact(self, engine: Engine, request: Request) -> bytes:
        rows = await engine.answer(request, alone=True)
        write = wire.predictions if request.row_format else wire.outputs
        return await self._do(_is_large(rows), write, rows)

    async def _friendly(self, engine: Engine, request: Request) -> bytes:
        rows = await engine.answer(request, alone=False)
        arguments = (engine.model.description, rows)
        return await self._do(_is_large(rows), wire.answers, *arguments)

    async def _embeddings(
        self, engine: Engine, question: clients.Embeddings
    ) -> bytes:
        name = self._options.model_name
        if question.model != name:
            raise Refused(
                404, f"model: wanted {name!r}, found {question.model[:40]!r}"
            )
        asked = Request(question.signature, question.rows, True)
        rows = await engine.answer(asked, alone=False)
        write = clients.write_embeddings
        return await self._do(_is_large(rows), write, question, rows)

    async def _rerank(self, engine: Engine, question: clients.Rerank) -> bytes:
        asked = Request(RAW, question.rows, True)
        rows = await engine.answer(asked, alone=False)
        cut = [] if question.may_cut else clients.cut_texts(question, rows)
        if cut:
            raise Refused(
                413,
                f"texts[{cut[0]}]: it is longer than the model reads (with the "
                "query); send less, or leave `truncate` out to have it cut",
            )
        write = clients.write_rerank
        return await self._do(_is_large(rows), write, question, rows)


def _any(engine: Engine) -> None:
    """Whatever model is asked for."""


def _refuse_if(problem: str) -> None:
    if problem:
        raise Refused(503, problem)


def _is_large(rows: list[dict]) -> bool:
    return sum(np.size(v) for r in rows for v in r.values()) > _LARGE_ANSWER
