"""The command `plumbline`, also as `python -m plumbline`."""

import os
import sys
from contextlib import suppress

from plumbline.core.errors import INTERRUPTED, is_interrupt, note_interrupts


def main() -> None:
    """Run the command line. Stopped by Ctrl-C, also while its libraries load, it ends with 130 and no traceback."""
    note_interrupts()
    parent = os.getppid()  # seconds before it is asked for: another by then is not who has started this
    _only_own_stages()  # before the rest is loaded: a pipeline that hands a stage over is told in this way that it must
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


def _only_own_stages() -> None:
    """Refuse, under DVC, to make another machine's stage: DVC silently makes again what it did not find."""
    own, stage = os.environ.get("PLUMBLINE_STAGES"), os.environ.get("DVC_STAGE", "").rpartition(":")[2]
    if own is not None and stage and stage not in own.split():
        sys.stderr.write(
            f"ERROR PLUMBLINE_STAGES: {own or 'no stage'} found, so {stage} is not made here. Make it where it "
            "belongs, and `dvc push --run-cache` there.\n"
        )
        sys.exit(2)


if __name__ == "__main__":
    main()
