"""The web application of a model: its routes, and what each error becomes."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

from fastapi import Depends, FastAPI, File, Form, Query, Request, Response, UploadFile
from fastapi.exceptions import RequestValidationError
from fastapi.security import HTTPBearer
from starlette.exceptions import HTTPException

from memgrow import __version__
from memgrow.errors import DataError, MemgrowError, ModelError
from memgrow.printable import printable
from memgrow.service import schemas
from memgrow.service.gate import Access, Gate
from memgrow.service.jobs import is_full, sentence_for
from memgrow.service.limits import RefusedError
from memgrow.service.logs import Log
from memgrow.service.metrics import TEXT
from memgrow.service.openapi_page import openapi_page
from memgrow.service.running import Service
from memgrow.service.training_queue import TrainingQueue
from memgrow.storage import finite

PAGE = Path(__file__).parent / "page"
TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
STATUS: Mapping[type[MemgrowError], int] = {DataError: 422, ModelError: 409}
SENTENCES = {
    404: "there is nothing at this address: /docs says what there is",
    405: "this address is not asked in this way: /docs says how",
}
Answers = dict[int | str, dict[str, Any]]
ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": schemas.Error, "description": what}
    for status, what in {
        400: "A body that cannot be read.",
        401: "The token is missing or wrong.",
        403: "A page of another site, or a service that only reads.",
        413: "A body that is too large.",
        422: "An input that cannot be used.",
        503: "Too much is waiting, or the machine refuses what this needs.",
        507: "The disk of the service is full.",
    }.items()
}
UNKNOWN: Answers = {
    404: {"model": schemas.Error, "description": "There is no such training."},
    409: {"model": schemas.Error, "description": "The model, or the training, is not in a state for this."},
}
QUEUED: Answers = {
    409: {"model": schemas.Error, "description": "The model has learnt this very data."},
    429: {"model": schemas.Error, "description": "Too many trainings wait."},
}


def create_app(service: Service, access: Access | None = None) -> Gate:
    """The application of a service, behind its gate."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        service.start()
        yield
        service.stop()

    app = FastAPI(
        title="memgrow",
        version=__version__,
        description="One text model that learns domain after domain, served.",
        lifespan=lifespan,
        docs_url=None,  # FastAPI's own page loads its scripts from another site
        redoc_url=None,
        responses=ERRORS,
    )
    _add_answering(app, service)
    _add_looking(app, service)
    _add_changing(app, service)
    _add_errors(app, service.log)
    return Gate(app, access or Access(), service.limits, service.metrics, service.log)


def _add_answering(app: FastAPI, service: Service) -> None:
    @app.post("/predict", responses={200: {"model": schemas.Predictions}}, response_class=Response)
    async def predict(asked: schemas.Asked, request: Request) -> Response:
        """Label texts, or reply to them."""
        examples = schemas.examples_of(asked.inputs, service.task, service.limits)
        version, predictions = await service.batcher.ask(examples)
        request.state.version, request.state.inputs, request.state.texts = version, len(examples), asked.inputs
        return _json({"version": version, "predictions": predictions})

    @app.post("/explain", responses={200: {"model": schemas.Explanation}}, response_class=Response)
    async def explain(asked: schemas.AskedToExplain, request: Request) -> Response:
        """The answer to one text, and for each of its words which domain's slots it reads."""
        examples = schemas.examples_of([asked.input], service.task, service.limits)
        version, (found,) = await service.batcher.ask(examples, explain=True)
        request.state.version, request.state.inputs, request.state.texts = version, 1, [asked.input]
        return _json({"version": version, **found})


def _add_looking(app: FastAPI, service: Service) -> None:
    @app.get("/model", responses={200: {"model": schemas.Card}}, response_class=Response)
    async def model() -> Response:
        """The model card: what it is, what it has learnt and how well it knows it."""
        return _json(service.publisher.current.card)

    @app.get("/drift", responses={200: {"model": schemas.Drift}}, response_class=Response)
    async def drift() -> Response:
        """Whether what is asked is still like what was learnt, or adapting seems due."""
        return _json(finite(service.drift.report(service.publisher.current).to_json()))

    @app.get("/health", responses={200: {"model": schemas.Health}}, response_class=Response)
    async def health() -> Response:
        """Whether requests are answered, and trainings are worked off."""
        if not service.is_alive:
            raise RefusedError(503, "the service is starting or stopping, or a part of it has broken off: see its log")
        return _json({"status": "ok", "version": service.publisher.current.version})

    @app.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
    async def metrics() -> Response:
        """Figures about the running service, as Prometheus reads them."""
        return Response(service.metrics.text(service.batcher.sizes, service.gauges()), media_type=TEXT)

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return Response(openapi_page(app.openapi()), media_type="text/html")

    for file in sorted(PAGE.iterdir()):  # read once: no address that is asked for becomes a path
        path = "/" if file.name == "index.html" else f"/page/{file.name}"
        if kind := TYPES.get(file.suffix):
            app.add_api_route(path, _file(file.read_bytes(), kind), include_in_schema=False)


def _add_changing(app: FastAPI, service: Service) -> None:
    """Routes that change the model; the gate has checked the token by then, and the framework tells of it."""
    token = [Depends(HTTPBearer(auto_error=False, description="Needed where the service has a token."))]

    def queue() -> TrainingQueue:
        if service.queue is None:
            raise RefusedError(403, "this service only reads: it was started with --read-only")
        return service.queue

    @app.post("/adapt", status_code=202, dependencies=token, responses={202: {"model": schemas.Accepted}, **QUEUED})
    def adapt(
        file: Annotated[UploadFile, File(description="Rows of a new domain as JSONL, CSV or TSV.")],
        name: Annotated[str | None, Form(description="Of the domain; without it, that of the file.")] = None,
        publish: Annotated[bool, Query(description="Publish the model once it has been trained.")] = True,
    ) -> Response:
        """Learn a new domain from a file: it is checked now and learnt in its turn."""
        return _json({"job": queue().add(file.file, file.filename, name, publish).id}, 202)

    @app.get("/jobs", responses={200: {"model": schemas.Jobs}})
    async def jobs() -> Response:
        """All trainings, the latest first."""
        queue = service.queue
        return _json({"jobs": [] if queue is None else queue.list(), "read_only": queue is None})

    @app.get("/jobs/{job}", responses={200: {"model": schemas.Job}, **UNKNOWN})
    async def job(job: str) -> Response:
        """How far a training is, or what has come of it."""
        return _json(queue().tell(job))

    @app.post("/jobs/{job}/publish", dependencies=token, responses={200: {"model": schemas.Job}, **UNKNOWN})
    def publish(job: str) -> Response:
        """Publish a trained model that waits for it."""
        return _json(queue().publish(job))

    @app.post("/jobs/{job}/discard", dependencies=token, responses={200: {"model": schemas.Job}, **UNKNOWN})
    def discard(job: str) -> Response:
        """Give up a training, or the model that has come of it."""
        return _json(queue().discard(job))

    @app.post("/rollback", dependencies=token, responses={200: {"model": schemas.RolledBack}, **UNKNOWN})
    def rollback(asked: schemas.AskedBack) -> Response:
        """Go back to an earlier version, for good: what came later is removed."""
        queue()
        return _json({"version": service.publisher.roll_back(asked.version)})


def _add_errors(app: FastAPI, log: Log) -> None:
    @app.exception_handler(RefusedError)
    async def refused(request: Request, error: RefusedError) -> Response:
        return _error(error.status, str(error))

    @app.exception_handler(MemgrowError)
    async def ours(request: Request, error: MemgrowError) -> Response:
        return _error(next((status for kind, status in STATUS.items() if isinstance(error, kind)), 400), str(error))

    @app.exception_handler(OSError)
    async def machine(request: Request, error: OSError) -> Response:
        log.error("refused by the machine", error)
        return _error(507 if is_full(error) else 503, sentence_for(error))

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        return _error(422, printable(f"{place[:100]}: {first['msg'][:200]}"))

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> Response:
        if isinstance(error.__cause__, OSError):  # an upload for which there was no room while it arrived
            return await machine(request, error.__cause__)
        return _error(error.status_code, SENTENCES.get(error.status_code, str(error.detail)), error.headers)

    @app.exception_handler(Exception)
    async def fault(request: Request, error: Exception) -> Response:
        return _error(500, "this is a fault of memgrow's own: the service's log says where")


def _file(content: bytes, kind: str) -> Any:
    async def answer() -> Response:
        return Response(content, media_type=kind)

    return answer


def _json(value: Any, status: int = 200) -> Response:
    return Response(json.dumps(value), status, media_type="application/json")


def _error(status: int, sentence: str, headers: Mapping[str, str] | None = None) -> Response:
    return Response(json.dumps({"detail": sentence}), status, headers, media_type="application/json")
