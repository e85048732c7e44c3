"""The web application: routes, and what errors become."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, File, Form, Query, Request, Response, UploadFile
from fastapi.exceptions import RequestValidationError
from fastapi.responses import RedirectResponse
from fastapi.security import HTTPBearer
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.exceptions import HTTPException

from memgrow import __version__
from memgrow.data.disk import finite
from memgrow.errors import DataError, MemgrowError, ModelError
from memgrow.serve import schemas
from memgrow.serve.guard import Access, Guard
from memgrow.serve.jobs import Job, JobQueue
from memgrow.serve.logs import Log, error_message, is_disk_full
from memgrow.serve.model import ServedModel
from memgrow.serve.service import Service

PAGE = Path(__file__).parent / "page"
MEDIA_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
Responses = dict[int | str, dict[str, Any]]
ERRORS: Responses = {
    "4XX": {"model": schemas.Error, "description": "The request cannot be used; `detail` says why."},
    503: {"model": schemas.Error, "description": "Too many requests wait, or the operating system refused something."},
    507: {"model": schemas.Error, "description": "The disk of the service is full."},
}


def create_app(service: Service, access: Access | None = None) -> Guard:
    """The application of a service, behind its guard."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with service.running():
            yield

    app = FastAPI(
        title="memgrow",
        version=__version__,
        description="One text model that learns domain after domain.",
        lifespan=lifespan,
        docs_url=None,  # FastAPI's pages load scripts from another site
        redoc_url=None,
        responses=ERRORS,
    )
    app.include_router(_reading(service))
    app.include_router(_changing(service))
    for file in sorted(PAGE.iterdir()):  # read once: no address becomes a path
        if media_type := MEDIA_TYPES.get(file.suffix):
            path = "/" if file.name == "index.html" else f"/page/{file.name}"
            app.add_api_route(path, _file(file.read_bytes(), media_type), include_in_schema=False)
    _handle_errors(app, service.log)
    return Guard(app, access or Access(), limits=service.limits, metrics=service.metrics, log=service.log)


def _reading(service: Service) -> APIRouter:
    """Routes that change nothing."""
    routes = APIRouter(default_response_class=Response)

    @routes.post("/predict", responses=_returns(schemas.Predictions))
    async def predict(body: schemas.PredictRequest, request: Request) -> Response:
        """Label texts, or reply to them."""
        return await respond(request, body.inputs, top_k=body.top_k)

    @routes.post("/explain", responses=_returns(schemas.Explanation))
    async def explain(body: schemas.ExplainRequest, request: Request) -> Response:
        """Predict one text, and show for each of its words which domain's slots it reads."""
        return await respond(request, [body.input], top_k=body.top_k, explain=True)

    async def respond(request: Request, inputs: list[str | dict[str, str]], **options: Any) -> Response:
        examples = schemas.to_examples(inputs, service.task, service.limits)
        answer = await service.batcher.submit(examples, **options)
        for name, value in {**_version(answer.model), "inputs": len(inputs), "texts": inputs}.items():
            setattr(request.state, name, value)  # for the log
        return Response(answer.body, media_type="application/json")

    @routes.get("/model")
    def model() -> Response:
        """The model card: settings, domains and results."""
        return Response(service.publisher.current.card, media_type="application/json")

    @routes.get("/drift")
    def drift() -> Response:
        """Whether inputs are still like the training data, or adapting seems due."""
        return _json(finite(service.drift.report(service.publisher.current).to_json()))

    @routes.get("/health", responses=_returns(schemas.Version))
    async def health() -> Response:
        """Whether requests are answered and trainings run."""
        if not service.is_alive:
            raise HTTPException(503, "the service is starting or stopping, or a part of it failed: see its log")
        return _json({"status": "ok", **_version(service.publisher.current)})

    @routes.get("/metrics", responses={200: {"content": {"text/plain": {}}}})
    def metrics() -> Response:
        """Metrics for Prometheus."""
        return Response(service.metrics.text(), media_type=CONTENT_TYPE_LATEST)

    @routes.get("/jobs", responses=_returns(schemas.Jobs))
    def jobs() -> Response:
        """All trainings, the latest first."""
        return _json({"jobs": service.queue.list() if service.queue else [], "read_only": service.queue is None})

    @routes.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return RedirectResponse("openapi.json")

    return routes


def _changing(service: Service) -> APIRouter:
    """Routes that change the model. The guard has checked the token; the dependency describes it in OpenAPI."""
    token = HTTPBearer(auto_error=False, description="Needed if the service has a token.")
    routes = APIRouter(default_response_class=Response, dependencies=[Depends(token)])

    def queue() -> JobQueue:
        if service.queue is None:
            raise HTTPException(403, "this service was started with --read-only")
        return service.queue

    @routes.post("/adapt", status_code=202)
    def adapt(
        file: Annotated[UploadFile, File(description="Rows of a new domain as JSONL, CSV or TSV.")],
        name: Annotated[str | None, Form(description="Name of the domain; by default that of the file.")] = None,
        publish: Annotated[bool, Query(description="Publish the model when it has been trained.")] = True,
    ) -> Response:
        """Learn a new domain from a file. It is checked now and trained in the background."""
        return _json({"job": queue().add(file.file, file.filename, name, publish).id}, 202)

    @routes.get("/jobs/{job}", responses=_returns(Job))
    def job(job: str) -> Response:
        """The state of a training."""
        return _json(queue().get(job))

    @routes.post("/jobs/{job}/publish", responses=_returns(Job))
    def publish(job: str) -> Response:
        """Publish a trained model."""
        return _json(queue().publish(job))

    @routes.post("/jobs/{job}/discard", responses=_returns(Job))
    def discard(job: str) -> Response:
        """Discard a training or the model that it trained."""
        return _json(queue().discard(job))

    @routes.post("/rollback", responses=_returns(schemas.Version))
    def rollback(body: schemas.RollbackRequest) -> Response:
        """Go back to an earlier version; later ones are removed."""
        queue()
        return _json(_version(service.publisher.roll_back(body.version)))

    return routes


def _handle_errors(app: FastAPI, log: Log) -> None:
    @app.exception_handler(MemgrowError)
    async def memgrow_error(request: Request, error: MemgrowError) -> Response:
        status = 422 if isinstance(error, DataError) else 409 if isinstance(error, ModelError) else 400
        return _json({"detail": str(error)}, status)

    @app.exception_handler(OSError)
    async def os_error(request: Request, error: OSError) -> Response:
        log.error("operating system error", error)
        return _json({"detail": error_message(error)}, 507 if is_disk_full(error) else 503)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        return _json({"detail": f"{place[:100]}: {first['msg'][:200]}"}, 422)

    @app.exception_handler(HTTPException)
    async def http_error(request: Request, error: HTTPException) -> Response:
        if isinstance(error.__cause__, OSError):  # no space for an upload while it arrived
            return await os_error(request, error.__cause__)
        return _json({"detail": error.detail}, error.status_code, error.headers)

    @app.exception_handler(Exception)
    async def unexpected(request: Request, error: Exception) -> Response:
        return _json({"detail": "unexpected error: see the log of the service"}, 500)


def _returns(model: Any) -> Responses:
    return {200: {"model": model}}


def _file(content: bytes, media_type: str) -> Any:
    async def respond() -> Response:
        return Response(content, media_type=media_type)

    return respond


def _version(model: ServedModel) -> dict[str, Any]:
    return {"version": model.version, "digest": model.digest}


def _json(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(json.dumps(value), status, headers, media_type="application/json")
