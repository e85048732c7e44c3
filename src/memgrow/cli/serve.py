"""`memgrow serve`: a model that answers requests, and learns while it does."""

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from memgrow.cli import options as opt
from memgrow.cli.output import stderr
from memgrow.service.limits import MIB, Limits

LOCAL = "127.0.0.1"
TOKEN = "MEMGROW_TOKEN"  # a variable of the environment: what stands in a command can be seen by others
WHO, LEARNING, LIMITS = "Who may call", "Learning", "Limits"


def serve(
    model: opt.Model,
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="Where to listen.", rich_help_panel=WHO)] = LOCAL,
    port: Annotated[int, typer.Option(metavar="N", min=0, max=65535, help="0: any.", rich_help_panel=WHO)] = 8000,
    token: Annotated[
        str | None,
        typer.Option(
            metavar="TOKEN",
            envvar=TOKEN,
            help="What whoever changes the model must know; made where one is needed.",
            rich_help_panel=WHO,
        ),
    ] = None,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Let nobody change the model.", rich_help_panel=LEARNING)
    ] = False,
    jobs: Annotated[
        Path | None,
        typer.Option(
            readable=False, metavar="FOLDER", help="For trainings; MODEL.jobs at first.", rich_help_panel=LEARNING
        ),
    ] = None,
    watch: Annotated[
        list[Path] | None,
        typer.Option(
            readable=False,
            metavar="FILE",
            help="Test examples of an earlier domain, tried before and after each training.",
            rich_help_panel=LEARNING,
        ),
    ] = None,
    max_forgetting: Annotated[
        float | None,
        typer.Option(
            metavar="POINTS",
            help="Keep no domain that costs more than this on one that is watched.",
            rich_help_panel=LEARNING,
        ),
    ] = None,
    keep_versions: Annotated[
        int | None,
        typer.Option(metavar="N", help="Earlier versions that one can go back to.", rich_help_panel=LEARNING),
    ] = None,
    together: Annotated[
        int,
        typer.Option(metavar="N", min=1, help="Requests that are computed as one batch.", rich_help_panel=LIMITS),
    ] = Limits.together,
    max_inputs: Annotated[
        int, typer.Option(metavar="N", min=1, help="Inputs of one request.", rich_help_panel=LIMITS)
    ] = Limits.inputs,
    max_characters: Annotated[
        int, typer.Option(metavar="N", min=1, help="Characters of one text.", rich_help_panel=LIMITS)
    ] = Limits.characters,
    max_upload: Annotated[
        int, typer.Option(metavar="MIB", min=1, help="Size of a file to learn from.", rich_help_panel=LIMITS)
    ] = Limits.upload // MIB,
    threads: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Threads of one forward pass on the CPU.", rich_help_panel=LIMITS),
    ] = None,
    window: Annotated[
        int, typer.Option(metavar="N", help="Texts that are tested together for drift.", rich_help_panel=LEARNING)
    ] = opt.WINDOW,
    log_texts: Annotated[bool, typer.Option("--log-texts", help="Let the log hold the texts that are sent.")] = False,
    device: opt.Device = "auto",
) -> None:
    """Answer requests over HTTP, with a page for people; learn new domains meanwhile.

    Example: memgrow serve model/
    """
    from memgrow.device import set_threads
    from memgrow.service.logs import Log
    from memgrow.service.running import Service
    from memgrow.service.server import access_for
    from memgrow.service.server import serve as run_server

    if threads is not None:
        set_threads(threads)
    access, made = access_for(host, token)
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

    def tell(address: str) -> None:
        stderr.print(Text(f"{model} is served at {address} (Ctrl-C ends)."), soft_wrap=True)
        if made and not read_only:
            stderr.print(Text(f"Whoever changes the model needs this token: {access.token}"), soft_wrap=True)

    run_server(service, access, host, port, tell)
