"""The command line: each command parses, calls one function of the library, prints.

Nothing here imports torch at the top: `pocketbert --help` answers in under half a second.
"""

import os
import sys
import traceback

from pocketbert.cli import (  # noqa: F401 - each of these adds its commands to `app`
    audit,
    bench,
    check,
    encode,
    evaluate,
    export,
    fill,
    lesson,
    methods,
    models,
    predict,
    pretrain,
    serve,
    study,
    tasks,
    train,
)
from pocketbert.cli.app import app
from pocketbert.cli.output import asks_for_json, one_document, open_streams, print_json, say_error, speaks
from pocketbert.errors import UserError

INTERRUPTED = 130  # what a shell says of a program that Ctrl-C ended
RESUMES = ("train", "study", "pretrain")  # the commands that go on where they were stopped
CLOSED_PIPE = 141  # what a shell says of a program that a closed pipe ended


def main() -> None:
    """Run a command. A person's mistake is one line on standard error and exit code 2; ours is a traceback and 1."""
    as_json = asks_for_json(sys.argv[1:]) and speaks()
    code = 0
    try:
        open_streams()
        with one_document(as_json):
            code = _run(as_json)
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read has enough, as `head` has
        code = CLOSED_PIPE
        _write_nowhere()
    except OSError as error:
        if not code:  # else it has been said already
            say_error(f"standard output: {error.strerror}")
        code = code or 2
        _write_nowhere()
    except UserError as error:
        code = 2
        say_error(error)
    sys.exit(code)


def _run(as_json: bool) -> int:
    """The exit code. What is wrong is said, and with --json is a document too, so that a machine can read it."""
    try:
        code = app(standalone_mode=False)
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BrokenPipeError:
        raise
    except SystemExit as ended:
        if isinstance(ended.__context__, BrokenPipeError):  # the parser makes exit code 1 of it
            raise ended.__context__ from None
        raise
    except Exception as error:
        return _failed(error, as_json)
    if code == INTERRUPTED:  # what the parser makes of Ctrl-C
        _say_stopped(as_json)
    return code if isinstance(code, int) else 0


def _say_stopped(as_json: bool) -> None:
    command = next((word for word in sys.argv[1:] if not word.startswith("-")), "")
    message = "Stopped; the same command goes on." if command in RESUMES else "Stopped."
    print(f"\n{message}", file=sys.stderr)
    if as_json:
        print_json({"error": message})


def _failed(error: Exception, as_json: bool) -> int:
    document = {"error": str(error)}
    code = 2
    if hasattr(error, "format_message"):
        # A wrong option or argument: the parser's own words, with the usage.
        error.show()  # type: ignore[attr-defined,unused-ignore]
        document["error"] = error.format_message()
    elif isinstance(error, UserError | OSError):
        say_error(error)
    elif isinstance(error, MemoryError) or "can't allocate memory" in str(error):
        document["error"] = "not enough memory; give it less at a time: a smaller batch, shorter texts, fewer rows"
        say_error(document["error"])
    else:
        code = 1
        document = {"error": f"{type(error).__name__}: {error}", "traceback": traceback.format_exc()}
        traceback.print_exc()
    if as_json:
        print_json(document)
    return code


def _write_nowhere() -> None:
    """What is still waiting to be written cannot be; Python would try once more at its end, and complain."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
