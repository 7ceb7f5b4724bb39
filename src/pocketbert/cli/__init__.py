"""The command line: each command parses, calls one function of the library, prints.

Nothing here imports torch at the top: `pocketbert --help` answers in under half a second.
"""

import sys

from pocketbert.cli import bench, check, methods, models, study, tasks, train, use  # noqa: F401 - each of these adds its commands to `app`
from pocketbert.cli.app import app
from pocketbert.cli.output import fail
from pocketbert.errors import UserError


def main() -> None:
    """Run a command. A person's mistake is one line on standard error and exit code 2; ours is a traceback and 1."""
    try:
        app()
    except UserError as error:
        fail(error, as_json="--json" in sys.argv)
    except OSError as error:
        fail(error, as_json="--json" in sys.argv)
    except KeyboardInterrupt:
        print("\nstopped", file=sys.stderr)
        sys.exit(130)
