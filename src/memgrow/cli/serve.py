"""`memgrow serve`: a model behind an HTTP API that learns new domains while it runs."""

import secrets
from functools import partial
from pathlib import Path

from rich.text import Text

from memgrow.cli import options as opt
from memgrow.cli.app import stderr
from memgrow.errors import MissingExtraError
from memgrow.serve.settings import MIB, ServeSettings

TOKEN = "MEMGROW_TOKEN"  # an environment variable: other users can see the arguments of a command
TOKEN_HELP = "Token for requests that change the model; generated if others can call the service."
WATCH_HELP = "Test examples of an earlier domain, evaluated before and after each training."
GATE_HELP = "Reject a training that costs a watched domain more than this."
LEARNING = "Learning"
access, limit = partial(opt.option, panel="Access"), partial(opt.option, panel="Limits", min=1)


def serve(
    model: opt.Model,
    host: str = access("Address to listen on.", default=ServeSettings.host, metavar="ADDRESS"),
    port: int = access("Port; 0: any free one.", default=8000, metavar="N", min=0, max=65535),
    token: str | None = access(TOKEN_HELP, metavar="TOKEN", envvar=TOKEN),
    read_only: bool = access("Refuse requests that change the model.", "--read-only", default=False),
    jobs: Path | None = opt.file_option("Folder for trainings [MODEL.jobs].", LEARNING, "FOLDER"),
    watch: list[Path] | None = opt.file_option(WATCH_HELP, LEARNING),
    max_forgetting: float | None = opt.option(GATE_HELP, panel=LEARNING, metavar="POINTS"),
    keep_versions: int | None = opt.option("Earlier versions to keep.", panel=LEARNING, metavar="N"),
    window: int = opt.option("Texts per drift test.", default=ServeSettings.window, panel=LEARNING, metavar="N"),
    together: int = limit("Requests per batch.", default=ServeSettings.max_batch, metavar="N"),
    max_upload: int = limit("Size of an uploaded file.", default=ServeSettings.max_upload // MIB, metavar="MIB"),
    threads: int | None = limit("CPU threads of a forward pass.", metavar="N"),
    device: str = opt.DEVICE,
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
