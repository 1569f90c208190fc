"""The ASGI application: TF-Serving's REST shape, health, metrics, the page."""

import asyncio
import contextlib
import importlib.resources
import logging
import time

import fastapi
import numpy as np
import prometheus_client
import tensorflow as tf
from fastapi import responses

from common.errors import UserError
from serving import rows as rows_lib
from serving.options import ServerOptions
from serving.saved_model import SavedModel
from serving.web import schema
from serving.web.batching import Batcher, Overloaded
from serving.web.requests import Request, parse_request

_LOG = logging.getLogger("serving")
_PAGE_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'unsafe-inline'; script-src "
        "'unsafe-inline'; connect-src 'self'; img-src data:; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


class Refused(Exception):
    """An answer other than 200: a status and one line."""

    def __init__(self, status: int, message: str):
        super().__init__(message)
        self.status = status
        self.message = " ".join(message.split())


class _Metrics:
    """Prometheus series of one application."""

    def __init__(self):
        self.registry = prometheus_client.CollectorRegistry()
        self.requests = prometheus_client.Counter(
            "xlnet_requests",
            "Predict requests by status.",
            ["status"],
            registry=self.registry,
        )
        self.seconds = prometheus_client.Histogram(
            "xlnet_request_seconds",
            "Time from a request's arrival to its answer.",
            registry=self.registry,
        )
        self.rows = prometheus_client.Histogram(
            "xlnet_batch_rows",
            "Rows that ran together.",
            buckets=(1, 2, 4, 8, 16, 32, 64, 128),
            registry=self.registry,
        )
        self.waiting = prometheus_client.Gauge(
            "xlnet_waiting_rows", "Rows in the queue.", registry=self.registry
        )


def build_app(model: SavedModel, options: ServerOptions) -> fastapi.FastAPI:
    """The application around a loaded model."""
    server = _Server(model, options)
    app = fastapi.FastAPI(
        title="XLNet server",
        version=str(model.version),
        lifespan=server.lifespan,
        docs_url=None,  # its page loads scripts from elsewhere
        redoc_url=None,
    )
    app.add_exception_handler(Refused, _refused)
    app.add_exception_handler(Exception, _broken)
    router = fastapi.APIRouter()
    model_path = "/v1/models/{name}"
    router.add_api_route(
        model_path + ":predict",
        server.predict,
        methods=["POST"],
        openapi_extra=schema.predict_body(model.description, options),
        responses=schema.responses(400, 404, 413, 503, 504),
    )
    router.add_api_route(
        model_path + "/metadata",
        server.metadata,
        responses=schema.responses(404),
    )
    router.add_api_route(
        model_path, server.status, responses=schema.responses(404)
    )
    router.add_api_route("/healthz", server.health)
    router.add_api_route("/metrics", server.metrics_text, response_class=_Text)
    router.add_api_route("/", server.page, response_class=_Html)
    app.include_router(router)
    _finish_openapi(app, options.model_name)
    return app


_Text = responses.PlainTextResponse
_Html = responses.HTMLResponse


class _Server:
    """State and handlers."""

    def __init__(self, model: SavedModel, options: ServerOptions):
        self._model = model
        self._options = options
        self._metrics = _Metrics()
        self._batcher: Batcher | None = None
        page = importlib.resources.files("serving.web").joinpath("page.html")
        self._page = page.read_text(encoding="utf-8").replace(
            "MODEL_NAME", options.model_name
        )

    @contextlib.asynccontextmanager
    async def lifespan(self, app):
        """Starts and stops the batcher with the application."""
        del app
        options = self._options
        self._batcher = Batcher(
            self._run,
            options.max_batch_size,
            options.max_wait_ms,
            options.max_queue,
            self._metrics.rows.observe,
        )
        self._batcher.start()
        yield
        await self._batcher.stop()

    # --- Handlers ---------------------------------------------------------

    async def predict(self, name: str, request: fastapi.Request) -> dict:
        """Answers rows of one signature."""
        start = time.perf_counter()
        status = 500
        try:
            self._check_name(name.removesuffix(":predict"))
            body = await self._body(request)
            answer = await self._answer(self._parse(body))
            status = 200
            return answer
        except Refused as e:
            status = e.status
            raise
        finally:
            self._metrics.requests.labels(str(status)).inc()
            self._metrics.seconds.observe(time.perf_counter() - start)

    async def status(self, name: str) -> dict:
        """Whether the model can be asked."""
        self._check_name(name)
        status = {"error_code": "OK", "error_message": ""}
        version = str(self._model.version)
        entry = {"version": version, "state": "AVAILABLE", "status": status}
        return {"model_version_status": [entry]}

    async def metadata(self, name: str) -> dict:
        """Inputs, outputs and labels."""
        self._check_name(name)
        spec = {"name": name, "version": str(self._model.version)}
        return {"model_spec": spec, "metadata": self._model.description}

    async def health(self) -> dict:
        """The process is up and the model loaded."""
        return {"status": "ok"}

    async def metrics_text(self):
        """Prometheus' text format."""
        if self._batcher is not None:
            self._metrics.waiting.set(self._batcher.waiting)
        text = prometheus_client.generate_latest(self._metrics.registry)
        return _Text(text, media_type=prometheus_client.CONTENT_TYPE_LATEST)

    async def page(self):
        """The page."""
        return _Html(self._page, headers=_PAGE_HEADERS)

    # --- Steps of a prediction ---------------------------------------------

    def _check_name(self, name: str) -> None:
        if name.endswith(":predict"):  # GET on the predict call lands here
            raise Refused(405, "predict takes POST")
        if name != self._options.model_name:
            raise Refused(
                404, f"the model here is {self._options.model_name!r}"
            )

    async def _body(self, request: fastapi.Request) -> bytes:
        limit = self._options.max_body_bytes
        message = f"the body is larger than {limit} bytes"
        length = request.headers.get("content-length", "0")
        if length.isdigit() and int(length) > limit:
            raise Refused(413, message)
        body = bytearray()
        async for chunk in request.stream():
            body += chunk
            if len(body) > limit:
                raise Refused(413, message)
        return bytes(body)

    def _parse(self, body: bytes) -> Request:
        try:
            return parse_request(
                body,
                self._model.description,
                self._options,
            )
        except UserError as e:
            raise Refused(400, str(e)) from e

    async def _answer(self, request: Request) -> dict:
        try:
            async with asyncio.timeout(self._options.timeout_s):
                outputs = await self._batcher.submit(
                    request.signature, request.rows
                )
        except Overloaded as e:
            raise Refused(
                503, "too many requests are waiting; try later"
            ) from e
        except TimeoutError as e:
            raise Refused(504, "the answer took too long; send less") from e
        except UserError as e:
            raise Refused(400, str(e)) from e
        except (tf.errors.InvalidArgumentError, ValueError, TypeError) as e:
            raise Refused(
                400, "the model refused these values: check ids and shapes"
            ) from e
        if request.row_format:
            return {"predictions": outputs}
        names = outputs[0]
        return {"outputs": {k: [o[k] for o in outputs] for k in names}}

    def _run(self, signature: str, rows: list[dict]) -> list[dict]:
        """Runs in the model's thread."""
        batch = {name: [row[name] for row in rows] for name in rows[0]}
        outputs = self._model(batch, signature)
        plain = {name: np.asarray(value) for name, value in outputs.items()}
        description = self._model.description
        return [
            rows_lib.format_row(description, plain, i) for i in range(len(rows))
        ]


async def _refused(request, error: Refused):
    del request
    headers = {"Allow": "POST"} if error.status == 405 else None
    return responses.JSONResponse(
        {"error": error.message}, error.status, headers
    )


async def _broken(request, error: Exception):
    """Whatever else happens: one line outside, the trace in the log."""
    del request
    _LOG.error("request failed", exc_info=error)
    return responses.JSONResponse({"error": "internal error"}, 500)


def _finish_openapi(app: fastapi.FastAPI, model_name: str) -> None:
    """Bodies are checked here, so no call ever answers FastAPI's 422."""
    make = app.openapi

    def openapi() -> dict:
        made = make()
        for path in made["paths"].values():
            for call in path.values():
                call["responses"].pop("422", None)
                for parameter in call.get("parameters", []):
                    if parameter["name"] == "name":
                        parameter["schema"]["enum"] = [model_name]
        return made

    app.openapi = openapi
