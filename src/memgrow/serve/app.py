"""The web application: routes, what errors become, and the server that runs it."""

import json
import signal
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import Annotated, Any

import uvicorn
from fastapi import APIRouter, FastAPI, File, Form, Query, Request, Response, UploadFile
from fastapi.exceptions import RequestValidationError
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.background import BackgroundTask
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, StreamingResponse
from starlette.staticfiles import StaticFiles
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from memgrow import __version__
from memgrow.data.disk import finite
from memgrow.errors import DataError, MemgrowError, ModelError, SettingsError
from memgrow.evaluation.model_tables import LIMITS
from memgrow.models import REPLY, CausalModel
from memgrow.serve import schemas
from memgrow.serve.guard import Guard
from memgrow.serve.jobs import JobQueue
from memgrow.serve.logs import error_message, is_disk_full, log, write_to_stderr
from memgrow.serve.service import Service

PAGE = Path(__file__).parent / "page"
CONNECTIONS, KEEP_ALIVE_SECONDS, SHUTDOWN_SECONDS = 512, 5, 20


def create_app(service: Service) -> Guard:
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
    )
    app.include_router(_reading(service))
    app.include_router(_changing(service))
    app.add_api_route("/", lambda: FileResponse(PAGE / "index.html"), include_in_schema=False)
    app.mount("/page", StaticFiles(directory=PAGE))
    for kind in (MemgrowError, OSError, RequestValidationError, HTTPException, Exception):
        app.add_exception_handler(kind, _error_response)
    return Guard(app, service)


def run_server(service: Service, *, port: int, on_ready: Callable[[str], None]) -> None:
    """Answer requests until SIGTERM, SIGHUP or Ctrl-C, then finish those that are running.

    `on_ready` gets the address as soon as the service listens.
    """
    write_to_stderr()
    host = service.settings.host
    with service.queue.locked() if service.queue else nullcontext():
        try:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            listener = socket.create_server((host, port), family=family, backlog=2048)
        except OSError as error:
            reason = error.strerror or error
            raise SettingsError(f"cannot listen on {host}:{port} ({reason}): choose another --host or --port") from None
        with listener:
            name, number = listener.getsockname()[:2]
            on_ready(f"http://{f'[{name}]' if ':' in name else name}:{number}/")
            if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:  # its terminal closed
                signal.signal(signal.SIGHUP, lambda *_: signal.raise_signal(signal.SIGTERM))
            create_server(service).run(sockets=[listener])


def create_server(service: Service) -> uvicorn.Server:
    config = uvicorn.Config(
        create_app(service),
        http=Connection,
        log_config=None,
        access_log=False,
        server_header=False,
        limit_concurrency=CONNECTIONS,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
    )
    return uvicorn.Server(config)


class Connection(HttpToolsProtocol):
    """A connection. If there are too many, a new one ends the one that has been slow to send or receive for longest."""

    def connection_made(self, transport: Any) -> None:
        self.waits_since = self.loop.time()
        if len(self.connections) >= CONNECTIONS - 1:
            slow = [one for one in self.connections if isinstance(one, Connection) and not one.is_served]
            if slow:
                oldest = min(slow, key=lambda one: one.waits_since)
                self.connections.discard(oldest)
                oldest.transport.abort()
        super().connection_made(transport)

    def on_response_complete(self) -> None:
        self.waits_since = self.loop.time()
        super().on_response_complete()

    @property
    def is_served(self) -> bool:
        """Whether a request has arrived, and its response has not begun."""
        return self.cycle is not None and not self.cycle.more_body and not self.cycle.response_started


def _reading(service: Service) -> APIRouter:
    """Routes that change nothing."""
    routes = APIRouter(default_response_class=Response)

    @routes.post("/predict")
    async def predict(body: schemas.PredictRequest, request: Request) -> Response:
        """Label texts, or reply to them."""
        return await respond(request, body.inputs, top_k=body.top_k)

    @routes.post("/explain")
    async def explain(body: schemas.ExplainRequest, request: Request) -> Response:
        """Predict one text, and show for each of its words which domain's slots it reads."""
        return await respond(request, [body.input], top_k=body.top_k, explain=True)

    @routes.post("/stream")
    async def stream(body: schemas.StreamRequest) -> Response:
        """A reply of a causal language model as server-sent events: pieces of text, then the whole reply."""
        if not isinstance(service.publisher.current.learner.model, CausalModel):
            raise SettingsError("only causal language models stream replies: use /predict")
        (example,) = schemas.to_examples([body.input], REPLY, service.settings)
        sampling = {"max_words": body.max_tokens, "temperature": body.temperature, "top_p": body.top_p}
        events = service.batcher.stream(example, **sampling)
        return StreamingResponse(events, media_type="text/event-stream")

    async def respond(request: Request, inputs: list[str | dict[str, str]], **options: Any) -> Response:
        examples = schemas.to_examples(inputs, service.publisher.current.learner.task, service.settings)
        answer = await service.batcher.submit(examples, **options)
        request.state.logged = {**answer.model.identity, "inputs": len(inputs)}
        drift = BackgroundTask(service.test_drift, examples, answer)
        return Response(answer.body, media_type="application/json", background=drift)

    @routes.get("/model")
    def model() -> Response:
        """The model card: settings, domains and results."""
        return Response(service.publisher.current.card, media_type="application/json")

    @routes.get("/drift")
    def drift() -> Response:
        """Whether inputs are still like the training data, or adapting seems due."""
        current = service.publisher.current
        return _json({**finite(current.monitor.report().to_json()), **current.identity})

    @routes.get("/health")
    async def health() -> Response:
        """Whether requests are answered and trainings run."""
        if not service.is_alive:
            raise HTTPException(503, "the service is starting or stopping, or a part of it failed: see its log")
        return _json({"status": "ok", **service.publisher.current.identity})

    @routes.get("/metrics")
    def metrics() -> Response:
        """Metrics for Prometheus."""
        return Response(generate_latest(service.registry), media_type=CONTENT_TYPE_LATEST)

    @routes.get("/jobs")
    def jobs() -> Response:
        """All trainings, the latest first."""
        found = {"jobs": service.queue.list() if service.queue else [], "read_only": service.queue is None}
        return _json({**found, "notable_points": 100 * LIMITS[0], **service.publisher.current.identity})

    return routes


def _changing(service: Service) -> APIRouter:
    """Routes that change the model; the guard has checked the token."""
    routes = APIRouter(default_response_class=Response)

    def queue() -> JobQueue:
        if service.queue is None:
            raise HTTPException(403, "this service is read-only")
        return service.queue

    @routes.post("/adapt", status_code=202)
    def adapt(
        file: Annotated[UploadFile, File(description="Rows of a new domain as JSONL, CSV or TSV.")],
        name: Annotated[str | None, Form(description="Name of the domain; by default that of the file.")] = None,
        text: Annotated[str | None, Form(description="Column of the text, if it has another name than usual.")] = None,
        pair: Annotated[str | None, Form(description="Column of the second text of a pair.")] = None,
        label: Annotated[str | None, Form(description="Column of the label.")] = None,
        reply: Annotated[str | None, Form(description="Column of the reply, for a model that replies.")] = None,
        new_labels: Annotated[
            bool, Form(description="Train although the file shares no label with the model.")
        ] = False,
        publish: Annotated[bool, Query(description="Publish the model when it has been trained.")] = False,
    ) -> Response:
        """Learn a new domain from a file. It is checked now, trained in the background, and published on request."""
        given = {"text": text, "pair": pair, "label": label, "reply": reply}
        columns = {role: column for role, column in given.items() if column}
        job = queue().add(file.file, file.filename, name, columns=columns, new_labels=new_labels, publish=publish)
        return _json({"job": job.id}, 202)

    @routes.get("/jobs/{job}")
    def job(job: str) -> Response:
        """The state of a training."""
        return _json(queue().get(job))

    @routes.post("/jobs/{job}/publish")
    def publish(job: str) -> Response:
        """Publish a trained model."""
        return _json(queue().publish(job))

    @routes.post("/jobs/{job}/discard")
    def discard(job: str) -> Response:
        """Discard a training or the model that it trained."""
        return _json(queue().discard(job))

    @routes.post("/rollback")
    def rollback(body: schemas.RollbackRequest) -> Response:
        """Go back to an earlier version; later ones are removed."""
        queue()
        return _json(service.publisher.roll_back(body.version).identity)

    return routes


async def _error_response(request: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException):
        if isinstance(error.__cause__, OSError):  # no space for an upload while it arrived
            return await _error_response(request, error.__cause__)
        return _json({"detail": error.detail}, error.status_code, error.headers)
    if isinstance(error, RequestValidationError):
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        return _json({"detail": f"{place[:100]}: {first['msg'][:200]}"}, 422)
    if isinstance(error, MemgrowError):
        status = 422 if isinstance(error, DataError) else 409 if isinstance(error, ModelError) else 400
    elif isinstance(error, OSError):
        log("operating system error", error)
        status = 507 if is_disk_full(error) else 503
    else:
        status = 500
    return _json({"detail": error_message(error)}, status)


def _json(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(json.dumps(value), status, headers, media_type="application/json")
