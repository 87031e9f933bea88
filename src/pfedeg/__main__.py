"""`python -m pfedeg` is `pfedeg`."""

from pfedeg.cli.main import main

main()
