"""`memgrow serve`: a model behind an HTTP API that learns new domains while it runs."""

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from memgrow.cli import options as opt
from memgrow.cli.output import stderr
from memgrow.errors import MissingExtraError
from memgrow.serve.limits import MIB, Limits

TOKEN = "MEMGROW_TOKEN"  # an environment variable: other users can see the arguments of a command
ACCESS, LEARNING, LIMITS = "Access", "Learning", "Limits"


def serve(
    model: opt.Model,
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Address to listen on.", rich_help_panel=ACCESS)
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(metavar="N", min=0, max=65535, help="Port; 0: any free one.", rich_help_panel=ACCESS)
    ] = 8000,
    token: Annotated[
        str | None,
        typer.Option(
            metavar="TOKEN",
            envvar=TOKEN,
            help="Token for requests that change the model; generated if others can call the service.",
            rich_help_panel=ACCESS,
        ),
    ] = None,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Refuse requests that change the model.", rich_help_panel=ACCESS)
    ] = False,
    jobs: Annotated[
        Path | None,
        typer.Option(
            readable=False, metavar="FOLDER", help="Folder for trainings [MODEL.jobs].", rich_help_panel=LEARNING
        ),
    ] = None,
    watch: Annotated[
        list[Path] | None,
        typer.Option(
            readable=False,
            metavar="FILE",
            help="Test examples of an earlier domain, evaluated before and after each training.",
            rich_help_panel=LEARNING,
        ),
    ] = None,
    max_forgetting: Annotated[
        float | None,
        typer.Option(
            metavar="POINTS",
            help="Reject a training that costs a watched domain more than this.",
            rich_help_panel=LEARNING,
        ),
    ] = None,
    keep_versions: Annotated[
        int | None, typer.Option(metavar="N", help="Earlier versions to keep.", rich_help_panel=LEARNING)
    ] = None,
    window: Annotated[
        int, typer.Option(metavar="N", help="Texts per drift test.", rich_help_panel=LEARNING)
    ] = opt.WINDOW,
    together: Annotated[
        int, typer.Option(metavar="N", min=1, help="Requests per batch.", rich_help_panel=LIMITS)
    ] = Limits.together,
    max_inputs: Annotated[
        int, typer.Option(metavar="N", min=1, help="Inputs per request.", rich_help_panel=LIMITS)
    ] = Limits.inputs,
    max_characters: Annotated[
        int, typer.Option(metavar="N", min=1, help="Characters per text.", rich_help_panel=LIMITS)
    ] = Limits.characters,
    max_upload: Annotated[
        int, typer.Option(metavar="MIB", min=1, help="Size of an uploaded file.", rich_help_panel=LIMITS)
    ] = Limits.upload // MIB,
    threads: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="CPU threads of a forward pass.", rich_help_panel=LIMITS)
    ] = None,
    log_texts: Annotated[bool, typer.Option("--log-texts", help="Write the texts of requests to the log.")] = False,
    device: opt.Device = "auto",
) -> None:
    """Serve a model over HTTP, with a web page, and learn new domains in the background.

    Example: memgrow serve model/
    """
    from memgrow.nn.device import set_threads
    from memgrow.serve.logs import Log

    try:
        from memgrow.serve.guard import Access
        from memgrow.serve.server import run_server
        from memgrow.serve.service import Service
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("memgrow"):
            raise
        raise MissingExtraError(f"serving needs {error.name}: run `pip install 'memgrow[serve]'`") from error

    if threads is not None:
        set_threads(threads)
    access = Access.for_host(host, token)
    service = Service(
        model,
        device=device,
        limits=Limits(together=together, inputs=max_inputs, characters=max_characters, upload=max_upload * MIB),
        log=Log(log_texts),
        keep_versions=keep_versions,
        jobs=jobs,
        read_only=read_only,
        watch=watch or (),
        max_forgetting=max_forgetting,
        window=window,
    )

    def announce(address: str) -> None:
        stderr.print(Text(f"{model} is served at {address} (Ctrl-C ends)."), soft_wrap=True)
        if access.token and not token and not read_only:
            stderr.print(Text(f"Token for requests that change the model: {access.token}"), soft_wrap=True)

    run_server(service, access, host=host, port=port, on_ready=announce)
