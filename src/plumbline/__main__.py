"""`python -m plumbline` is the command `plumbline`."""

from plumbline.cli import main

main()
