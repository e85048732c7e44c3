"""`memgrow serve`: a model behind an HTTP API that learns new domains while it runs."""

import secrets
from pathlib import Path
from typing import Annotated

from rich.text import Text

from memgrow.cli import options as opt
from memgrow.cli.app import stderr
from memgrow.errors import MissingExtraError
from memgrow.serve.settings import MIB, ServeSettings

TOKEN = "MEMGROW_TOKEN"  # an environment variable: other users can see the arguments of a command
TOKEN_HELP = "Token for requests that change the model; generated if others can call the service."


def serve(
    model: opt.Model,
    host: Annotated[str, opt.in_panel("Access", "Address to listen on.", metavar="ADDRESS")] = ServeSettings.host,
    port: Annotated[int, opt.in_panel("Access", "Port; 0: any free one.", metavar="N", min=0, max=65535)] = 8000,
    token: Annotated[str | None, opt.in_panel("Access", TOKEN_HELP, metavar="TOKEN", envvar=TOKEN)] = None,
    read_only: Annotated[bool, opt.in_panel("Access", "Refuse requests that change the model.", "--read-only")] = False,
    jobs: Annotated[
        Path | None, opt.in_panel("Learning", "Folder for trainings [MODEL.jobs].", metavar="FOLDER", readable=False)
    ] = None,
    watch: Annotated[
        list[Path] | None,
        opt.in_panel(
            "Learning",
            "Test examples of an earlier domain, evaluated before and after each training.",
            metavar="FILE",
            readable=False,
        ),
    ] = None,
    max_forgetting: Annotated[
        float | None,
        opt.in_panel("Learning", "Reject a training that costs a watched domain more than this.", metavar="POINTS"),
    ] = None,
    keep_versions: Annotated[int | None, opt.in_panel("Learning", "Earlier versions to keep.", metavar="N")] = None,
    window: Annotated[int, opt.in_panel("Learning", "Texts per drift test.", metavar="N")] = ServeSettings.window,
    together: Annotated[int, opt.limit("Requests per batch.")] = ServeSettings.max_batch,
    max_upload: Annotated[int, opt.limit("Size of an uploaded file.", "MIB")] = ServeSettings.max_upload // MIB,
    threads: Annotated[int | None, opt.limit("CPU threads of a forward pass.")] = None,
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
