"""The command `plumbline`, also as `python -m plumbline`."""

import gc
import os
import sys
from contextlib import suppress

from plumbline.core.errors import INTERRUPTED, InputError, is_interrupt, note_interrupts
from plumbline.core.extras import find_foreign_libraries
from plumbline.core.source_code import check_code, check_map_page

GARBAGE_OBJECTS = 10_000
"""Number of new objects after which Python looks for garbage among them; Python: 700 to 2,000."""


def main() -> None:
    """Run the command line. Stopped by Ctrl-C, also while its libraries load, it ends with
    130 and no traceback."""
    note_interrupts()
    # Libraries make 300,000 objects that stay: to look through them for garbage as often as usual
    # takes 0.2 s of a start.
    gc.set_threshold(GARBAGE_OBJECTS)
    # Seconds before it is asked for: another by then is not who has started this.
    parent = os.getppid()
    # before the rest is loaded: a pipeline learns in this way that it must hand a stage
    # over
    _check_stage()
    for variable, file in find_foreign_libraries():
        from plumbline.core.console import setup_logging, warn

        setup_logging()
        warn(
            "%s: brings %s of another installation, with which commands may fail. Unset it here: "
            "`env -u %s plumbline ...`.",
            *(variable, file, variable),
            key="environment.foreign_library",
        )
    try:
        from plumbline.cli import main as run

        run(parent)
    except BaseException as error:
        if not is_interrupt(error):
            raise
        # Not as usual: libraries wait for their threads then, or end the process by the signal.
        with suppress(OSError):
            sys.stdout.flush()
        os._exit(INTERRUPTED)


def _check_stage() -> None:
    """Refuse, under DVC, a stage that this machine must not make or cannot finish.

    DVC silently makes again what it did not find, also another machine's stage.
    """
    allowed, stage = (
        os.environ.get("PLUMBLINE_STAGES"),
        os.environ.get("DVC_STAGE", "").rpartition(":")[2],
    )
    if not stage:
        return
    try:
        if allowed is not None and stage not in allowed.split():
            raise InputError(
                f"PLUMBLINE_STAGES: {allowed or 'no stage'} found, so {stage} is not made here. "
                "Make it where it "
                "belongs, and `dvc push --run-cache` there.",
                key="stage.of_another_machine",
            )
        check_code(stage)
        check_map_page(stage)
    except InputError as error:
        sys.stderr.write(f"ERROR {error}\n")
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
