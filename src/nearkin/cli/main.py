"""``nearkin``: the commands in one place, and how an error or an interrupt ends."""

from __future__ import annotations

import json
import sys
from typing import Annotated

try:
    import typer
except ImportError:  # pragma: no cover - tested in an environment without the extra
    sys.exit("the command line needs typer: pip install 'nearkin[cli]'")

from nearkin.cli import demo, evaluate, export, fit, index, output, rating, reproduce, search

HELP = """nearkin learns the distance that experts see, from ratings and class labels.

Data goes to stdout, messages and progress to stderr. Exit codes: 0 done, 1 the data or the
request cannot be used, 2 wrong usage, 3 a fault in nearkin, 130 interrupted.
"""

app = typer.Typer(help=HELP, no_args_is_help=True, pretty_exceptions_enable=False)
app.command()(demo.demo)
app.command("import")(export.import_)
for command in (fit.fit, search.search, search.explain, fit.select, evaluate.evaluate):
    app.command()(command)
app.command()(rating.suggest)
app.command()(rating.curve)
app.add_typer(index.app, name="index")
app.command()(export.export)
app.add_typer(reproduce.app, name="reproduce")


@app.callback(help=HELP)
def main(
    debug: Annotated[bool, typer.Option(help="Show the traceback of an error.")] = False,
) -> None:
    """Remember what holds for all commands."""
    output.DEBUG = debug
    output.plain_warnings()


def run_app() -> None:
    """Run the command line: an error is one message, an interrupt a clean stop."""
    as_json = "--json" in sys.argv
    try:
        # typer itself reports wrong usage, but not as JSON
        code = app(standalone_mode=not as_json) or 0
    except KeyboardInterrupt:
        code = 130
    except SystemExit as end:
        code = end.code
    except (ValueError, TypeError, OSError, ImportError) as error:
        code = output.failed(error, 1)
    except Exception as error:
        usage = getattr(error, "format_message", None)
        if usage is None:
            code = output.failed(error, 3)  # a fault of ours: one line, and how to see more
        else:
            output.note(json.dumps({"error": usage()}))
            code = 2
    if code == 130:
        output.note(f"interrupted{output.LEFT}")  # typer itself says nothing
    sys.exit(code)


if __name__ == "__main__":
    run_app()
