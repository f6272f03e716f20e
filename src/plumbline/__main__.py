"""The command `plumbline`, also as `python -m plumbline`."""

import sys


def main() -> None:
    """Run the command line; stopped by Ctrl-C while its libraries load, it ends as quietly as later."""
    try:
        from plumbline.cli import main as run
    except KeyboardInterrupt:
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()
