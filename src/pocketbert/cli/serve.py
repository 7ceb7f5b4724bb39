"""`pocketbert serve`: runs and studies as an HTTP service, with a page to try them on."""

from pathlib import Path
from typing import Annotated

import typer

from pocketbert.cli.app import Json, app
from pocketbert.cli.output import print_json_now, say
from pocketbert.errors import UserError


@app.command()
def serve(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(metavar="RUN|STUDY…", help="Folders of finished runs, or of studies; the first is the default."),
    ] = None,
    adapters: Annotated[
        list[Path] | None,
        typer.Option(help="A run that keeps no encoder of its own, as frozen and BitFit runs; as often as you like."),
    ] = None,
    port: Annotated[int, typer.Option(help="Port to listen on; 0: any free one.")] = 8000,
    host: Annotated[
        str, typer.Option(help="Address to listen on; the default can be reached from this machine only.")
    ] = "127.0.0.1",
    workers: Annotated[int, typer.Option(help="Processes; of several, one that dies is replaced.")] = 1,
    threads: Annotated[int | None, typer.Option(help="Threads of each process; default: the cores, shared.")] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(help="File with the token that every request must bear; or set POCKETBERT_TOKEN."),
    ] = None,
    allow_host: Annotated[
        list[str] | None, typer.Option(help="A name under which the service is asked for; as often as you like.")
    ] = None,
    batch_tokens: Annotated[int, typer.Option(help="Tokens that are computed together.", min=64, max=1_000_000)] = 2048,
    batch_wait: Annotated[
        float, typer.Option(help="Milliseconds that a first request waits for others.", min=0, max=1_000)
    ] = 1.0,
    queue: Annotated[
        float,
        typer.Option(
            "--queue-seconds", help="Seconds of work that may wait; more is refused with 429.", min=0.01, max=600
        ),
    ] = 1.0,
    max_texts: Annotated[int, typer.Option(help="Texts in one request.", min=1, max=100_000)] = 1_000,
    max_body: Annotated[int, typer.Option(help="Bytes of one request.", min=1_000, max=100_000_000)] = 2_000_000,
    timeout: Annotated[float, typer.Option(help="Seconds for an answer.", min=0.1, max=3_600)] = 30.0,
    as_json: Json = False,
) -> None:
    """Serve models over HTTP, with a page at / to try them on.

    POST /v1/predict {"texts": ["…", …]} gives labels and probabilities. Needs: pip install 'pocketbert[serve]'
    """
    try:
        from pocketbert.serve.server import serve_process
    except ImportError as error:
        raise UserError(f"serving needs more packages ({error.name}): pip install 'pocketbert[serve]'") from None
    from pocketbert.serve.limits import Limits
    from pocketbert.serve.options import ServeOptions, bind, is_loopback, read_token
    from pocketbert.serve.workers import Supervisor, run_names

    options = ServeOptions(
        runs=tuple(map(str, runs or ())),
        adapters=tuple(map(str, adapters or ())),
        host=host,
        port=port,
        workers=workers,
        threads=threads,
        token=read_token(token_file),
        allowed_hosts=tuple(allow_host or ()),
        batch_tokens=batch_tokens,
        batch_wait=batch_wait / 1000,
        queue_seconds=queue,
        limits=Limits(body_bytes=max_body, texts=max_texts, seconds=timeout),
    )
    names = run_names(options)
    listener = bind(options.host, options.port)
    address = f"http://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}"
    if not is_loopback(host) and options.token is None:
        say(f"warning: whoever can reach {address} can use it; set a token: --token-file, or POCKETBERT_TOKEN")

    def ready(*_: object) -> None:
        if as_json:
            print_json_now({"url": address, "models": names, "workers": workers})
        else:
            say(f"{', '.join(names)}: {address}  (Ctrl-C ends)")

    if workers == 1:
        serve_process(options, listener, ready=ready)
    else:
        Supervisor(options, listener, names).run(ready)
