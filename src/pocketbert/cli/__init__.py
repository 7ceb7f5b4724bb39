"""The command line: each command parses, calls one function of the library, prints.

Nothing here imports torch at the top: `pocketbert --help` answers in under half a second.
"""

import sys

from pocketbert.cli import (  # noqa: F401 - each of these adds its commands to `app`
    bench,
    check,
    fill,
    methods,
    models,
    pretrain,
    study,
    tasks,
    train,
    use,
)
from pocketbert.cli.app import app
from pocketbert.cli.output import fail, print_json
from pocketbert.errors import UserError


def main() -> None:
    """Run a command. A person's mistake is one line on standard error and exit code 2; ours is a traceback and 1."""
    as_json = "--json" in sys.argv
    try:
        code = app(standalone_mode=False)
    except UserError as error:
        fail(error, as_json=as_json)
    except OSError as error:
        fail(error, as_json=as_json)
    except KeyboardInterrupt:
        print("\nstopped", file=sys.stderr)
        sys.exit(130)
    except Exception as error:
        if not hasattr(error, "format_message"):
            raise
        # A wrong option or argument: the parser's own words, with the usage.
        error.show()  # type: ignore[attr-defined]
        if as_json:
            print_json({"error": error.format_message()})
        sys.exit(2)
    sys.exit(code if isinstance(code, int) else 0)
