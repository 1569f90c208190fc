"""Answers of the application: JSON, errors in the form that a path has."""

import asyncio
import json
from collections.abc import Callable

import fastapi
from fastapi import responses
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from serving.options import ServerOptions
from serving.saved_model import SavedModel
from serving.web import schema, wire
from serving.web.access import OPEN_PATHS
from serving.web.engine import Refused


def handle_errors(app: fastapi.FastAPI) -> None:
    """Answers of what is raised: see `wire.error`."""
    app.add_exception_handler(Refused, _refused)
    app.add_exception_handler(HTTPException, _http_error)


def as_json(content: bytes) -> responses.Response:
    """A body that is JSON."""
    return responses.Response(content, media_type="application/json")


def indented(value: dict) -> responses.Response:
    """As TF-Serving writes what it says of a model."""
    return as_json((json.dumps(value, indent=1) + "\n").encode())


async def unless_gone(request: fastapi.Request, answer):
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
    headers = {}
    if error.status == 405:
        headers["Allow"] = "POST"
    if error.status in (408, 413):  # the rest of the body is not read
        headers["Connection"] = "close"
    return _error(request, error.status, error.message, headers)


async def _http_error(request, error: HTTPException):
    """Starlette's own 404 and 405."""
    text = {404: "there is no such path", 405: "this path takes other methods"}
    message = text.get(error.status_code, str(error.detail))
    return _error(request, error.status_code, message, error.headers)


def _error(request, status: int, message: str, headers=None):
    body = wire.error(message, status, request.url.path)
    return responses.Response(body, status, headers, "application/json")


def finish_openapi(
    app: fastapi.FastAPI,
    served: Callable[[], SavedModel],
    options: ServerOptions,
) -> None:
    """Makes `/openapi.json` that of the version that is served now.

    Bodies are checked here, so no call ever answers FastAPI's 422.
    """
    make = app.openapi

    def openapi() -> dict:
        model = served()
        if app.version != str(model.version):
            app.version, app.openapi_schema = str(model.version), None
        made = make()
        body = schema.predict_body(model.description, options)
        for name, path in made["paths"].items():
            if name.endswith((":predict", "/answer")):
                path["post"] |= body
            for call in path.values():
                call["responses"].pop("422", None)
                for parameter in call.get("parameters", []):
                    if parameter["name"] == "name":
                        parameter["schema"]["enum"] = [options.model_name]
        if options.api_keys_file:
            schema.add_keys(made, OPEN_PATHS)
        return made

    app.openapi = openapi
