"""`python -m pfedeg` is `pfedeg`."""

from pfedeg.cli import main

main()
