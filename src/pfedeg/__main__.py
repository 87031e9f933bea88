"""Entry point of `python -m pfedeg`."""

from pfedeg.cli.main import main

main()
