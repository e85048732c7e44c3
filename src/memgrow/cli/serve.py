"""`memgrow serve`: a model that answers requests, and learns while it does."""

from typing import Annotated

import typer

from memgrow.cli import options as opt
from memgrow.cli.output import note_to_stderr
from memgrow.service.limits import Limits
from memgrow.service.logs import Log
from memgrow.service.running import Service
from memgrow.service.server import access_for
from memgrow.service.server import serve as run_server

TOKEN = "MEMGROW_TOKEN"  # a variable of the environment: what stands in a command can be seen by others


def serve(
    model: opt.Model,
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Where to listen; elsewhere a token is needed.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(metavar="N", help="The port.", min=0, max=65535)] = 8000,
    token: Annotated[
        str | None, typer.Option(metavar="TOKEN", envvar=TOKEN, help="What whoever changes the model must know.")
    ] = None,
    together: Annotated[
        int, typer.Option(metavar="N", help="Requests that are computed as one batch.", min=1)
    ] = Limits.together,
    log_texts: Annotated[bool, typer.Option("--log-texts", help="Let the log hold the texts that are sent.")] = False,
    device: opt.Device = "auto",
) -> None:
    """Answer requests over HTTP, with a page for people.

    Example: memgrow serve model/
    """
    access, made = access_for(host, token)
    service = Service(model, device=device, limits=Limits(together=together), log=Log(log_texts))
    note_to_stderr(f"{model} is served at http://{host}:{port}/ (Ctrl-C ends).")
    if made:
        note_to_stderr(f"Whoever changes the model needs this token: {access.token}")
    run_server(service, access, host, port)
