"""`memgrow serve`: a model behind an HTTP API that learns new domains while it runs."""

import secrets
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from memgrow.cli import options as opt
from memgrow.cli.output import stderr
from memgrow.errors import MissingExtraError
from memgrow.serve.settings import MIB, ServeSettings

TOKEN = "MEMGROW_TOKEN"  # an environment variable: other users can see the arguments of a command
TOKEN_HELP = "Token for requests that change the model; generated if others can call the service."


def _access(help: str, **named: Any) -> Any:
    return typer.Option(help=help, rich_help_panel="Access", **named)


def _learning(help: str, **named: Any) -> Any:
    return typer.Option(help=help, rich_help_panel="Learning", **named)


def _limit(help: str, metavar: str = "N") -> Any:
    return typer.Option(help=help, metavar=metavar, min=1, rich_help_panel="Limits")


def serve(
    model: opt.Model,
    host: Annotated[str, _access("Address to listen on.", metavar="ADDRESS")] = ServeSettings.host,
    port: Annotated[int, _access("Port; 0: any free one.", metavar="N", min=0, max=65535)] = 8000,
    token: Annotated[str | None, _access(TOKEN_HELP, metavar="TOKEN", envvar=TOKEN)] = None,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Refuse requests that change the model.", rich_help_panel="Access")
    ] = False,
    jobs: Annotated[
        Path | None, _learning("Folder for trainings [MODEL.jobs].", metavar="FOLDER", readable=False)
    ] = None,
    watch: Annotated[
        list[Path] | None,
        _learning(
            "Test examples of an earlier domain, evaluated before and after each training.",
            metavar="FILE",
            readable=False,
        ),
    ] = None,
    max_forgetting: Annotated[
        float | None, _learning("Reject a training that costs a watched domain more than this.", metavar="POINTS")
    ] = None,
    keep_versions: Annotated[int | None, _learning("Earlier versions to keep.", metavar="N")] = None,
    window: Annotated[int, _learning("Texts per drift test.", metavar="N")] = ServeSettings.window,
    together: Annotated[int, _limit("Requests per batch.")] = ServeSettings.max_batch,
    max_upload: Annotated[int, _limit("Size of an uploaded file.", "MIB")] = ServeSettings.max_upload // MIB,
    threads: Annotated[int | None, _limit("CPU threads of a forward pass.")] = None,
    device: opt.Device = "auto",
) -> None:
    """Serve a model over HTTP, with a web page, and learn new domains in the background.

    Example: memgrow serve model/
    """
    from memgrow.nn.device import set_threads

    try:
        from memgrow.serve.app import run_server
        from memgrow.serve.service import Service
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("memgrow"):
            raise
        raise MissingExtraError(f"serving needs {error.name}: run `pip install 'memgrow[serve]'`") from error

    if threads is not None:
        set_threads(threads)
    made_token = None if token or ServeSettings(host=host).is_local else secrets.token_urlsafe(24)
    settings = ServeSettings(
        device=device,
        host=host,
        token=token or made_token,
        read_only=read_only,
        jobs=jobs,
        watch=watch or (),
        max_forgetting=max_forgetting,
        keep_versions=keep_versions,
        window=window,
        max_upload=max_upload * MIB,
        max_batch=together,
    )

    def announce(address: str) -> None:
        stderr.print(Text(f"{model} is served at {address} (Ctrl-C ends)."), soft_wrap=True)
        if made_token and not read_only:
            stderr.print(Text(f"Token for requests that change the model: {made_token}"), soft_wrap=True)

    run_server(Service(model, settings), port=port, on_ready=announce)
