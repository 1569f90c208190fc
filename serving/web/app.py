"""The ASGI application: TF-Serving's REST shape, health, metrics, the page."""

import asyncio
import contextlib
import importlib.resources
import time

import fastapi
import numpy as np
import prometheus_client
import tensorflow as tf
from fastapi import responses
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from common.errors import UserError
from serving import rows as rows_lib
from serving.options import ServerOptions
from serving.saved_model import SavedModel, Stop
from serving.web import schema
from serving.web.batching import Batcher, Limits, Overloaded
from serving.web.cost import Budget, free_bytes, model_size
from serving.web.guard import Guard
from serving.web.metrics import Metrics
from serving.web.requests import Request, parse_request

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


def build_app(model: SavedModel, options: ServerOptions) -> fastapi.FastAPI:
    """The application around a loaded model."""
    server = Server(model, options)
    app = fastapi.FastAPI(
        title="XLNet server",
        version=str(model.version),
        lifespan=server.lifespan,
        docs_url=None,  # its page loads scripts from elsewhere
        redoc_url=None,
    )
    app.add_exception_handler(Refused, _refused)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_middleware(
        Guard, metrics=server.metrics, draining=lambda: server.draining
    )
    app.state.server = server
    router = fastapi.APIRouter()
    model_path = "/v1/models/{name}"
    router.add_api_route(
        model_path + ":predict",
        server.predict,
        methods=["POST"],
        openapi_extra=schema.predict_body(model.description, options),
        responses=schema.responses(400, 404, 408, 413, 503, 504),
    )
    router.add_api_route(
        model_path + "/metadata",
        server.metadata,
        responses=schema.responses(404),
    )
    router.add_api_route(
        model_path, server.status, responses=schema.responses(404)
    )
    router.add_api_route(
        "/healthz", server.alive, responses=schema.responses(503)
    )
    router.add_api_route(
        "/readyz", server.ready, responses=schema.responses(503)
    )
    router.add_api_route("/metrics", server.metrics_text, response_class=_Text)
    router.add_api_route("/", server.page, response_class=_Html)
    app.include_router(router)
    _finish_openapi(app, options.model_name)
    return app


_Text = responses.PlainTextResponse
_Html = responses.HTMLResponse


class Server:
    """State and handlers."""

    def __init__(self, model: SavedModel, options: ServerOptions):
        self.metrics = Metrics()
        self.draining = False
        self._model = model
        self._options = options
        self._budget = Budget(
            model.description,
            model_size(model.variable_shapes),
            options,
            free_bytes(),
        )
        self._lanes: dict[str, Batcher] = {}
        page = importlib.resources.files("serving.web").joinpath("page.html")
        self._page = page.read_text(encoding="utf-8").replace(
            "MODEL_NAME", options.model_name
        )

    @contextlib.asynccontextmanager
    async def lifespan(self, app):
        """Starts and stops the batchers with the application."""
        del app
        options = self._options
        limits = Limits(
            options.max_batch_size,
            self._budget.max_tokens,
            options.max_wait_ms,
            options.max_queue,
        )
        # Costly requests have a lane of their own: others pass them.
        for name in ("quick", "costly"):
            lane = Batcher(self._run, limits, self.metrics.rows.observe, name)
            lane.start()
            self._lanes[name] = lane
        yield
        for lane in self._lanes.values():
            await lane.stop()

    def drain(self) -> None:
        """Says that the server is ending: answers close their connection."""
        self.draining = True

    @property
    def working(self) -> bool:
        """Whether a thread still runs the model."""
        return any(x.worker.busy_seconds for x in self._lanes.values())

    # --- Handlers ---------------------------------------------------------

    async def predict(self, name: str, request: fastapi.Request) -> dict:
        """Answers rows of one signature."""
        start = time.perf_counter()
        status = 500
        try:
            self._check_name(name.removesuffix(":predict"))
            body = await self._body(request)
            parsed = self._parse(body)
            answer = await _unless_gone(request, self._answer(parsed))
            status = 200
            return answer
        except Refused as e:
            status = e.status
            raise
        except ClientDisconnect:
            status = 499
            raise
        finally:
            self.metrics.requests.labels(str(status)).inc()
            self.metrics.seconds.observe(time.perf_counter() - start)

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

    async def alive(self) -> dict:
        """200 while the process can answer; 503: start it again."""
        for name, lane in self._lanes.items():
            if not lane.worker.alive:
                raise Refused(503, f"the {name} thread has ended")
            busy = lane.worker.busy_seconds
            if busy > 2 * self._options.timeout_s:
                raise Refused(503, f"the {name} run has taken {busy:.0f} s")
        return {"status": "ok"}

    async def ready(self) -> dict:
        """200 while requests are welcome; 503: send them elsewhere."""
        await self.alive()
        if self.draining:
            raise Refused(503, "the server is ending")
        quick = self._lanes["quick"]
        if quick.waiting >= self._options.max_queue:
            raise Refused(503, "too many requests are waiting")
        busy = quick.worker.busy_seconds
        if busy > self._options.timeout_s:
            raise Refused(503, f"the present run has taken {busy:.0f} s")
        return {"status": "ready"}

    async def metrics_text(self):
        """Prometheus' text format."""
        waiting = sum(lane.waiting for lane in self._lanes.values())
        self.metrics.waiting.set(waiting)
        text = prometheus_client.generate_latest(self.metrics.registry)
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
        try:
            async with asyncio.timeout(self._options.read_timeout_s):
                async for chunk in request.stream():
                    body += chunk
                    if len(body) > limit:
                        raise Refused(413, message)
        except TimeoutError as e:
            raise Refused(408, "the body came too slowly") from e
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
            tokens, cost = self._budget.check(request.signature, request.rows)
            dear = cost > self._budget.max_tokens
            lane = self._lanes["costly" if dear else "quick"]
            async with asyncio.timeout(self._options.timeout_s):
                outputs = await lane.submit(
                    request.signature, request.rows, tokens
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

    def _run(self, signature: str, rows: list[dict], stop: Stop) -> list[dict]:
        """Runs in the model's thread."""
        batch = {name: [row[name] for row in rows] for name in rows[0]}
        outputs = self._model(batch, signature, stop)
        plain = {name: np.asarray(value) for name, value in outputs.items()}
        description = self._model.description
        return [
            rows_lib.format_row(description, plain, i) for i in range(len(rows))
        ]


async def _unless_gone(request: fastapi.Request, answer):
    """The answer; ClientDisconnect when the client leaves before it."""
    task = asyncio.ensure_future(answer)
    gone = asyncio.ensure_future(_left(request))
    try:
        await asyncio.wait((task, gone), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientDisconnect
        return task.result()
    finally:
        task.cancel()
        gone.cancel()


async def _left(request: fastapi.Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _refused(request, error: Refused):
    del request
    headers = {}
    if error.status == 405:
        headers["Allow"] = "POST"
    if error.status in (408, 413):  # the rest of the body is not read
        headers["Connection"] = "close"
    return responses.JSONResponse(
        {"error": error.message}, error.status, headers
    )


async def _http_error(request, error):
    """Starlette's own 404 and 405."""
    del request
    text = {404: "there is no such path", 405: "this path takes other methods"}
    return responses.JSONResponse(
        {"error": text.get(error.status_code, str(error.detail))},
        error.status_code,
        error.headers,
    )


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
