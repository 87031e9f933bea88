"""The command line with a checkpoint after every round; the first argument limits the size of files (0: no limit)."""

import resource
import sys

from pfedeg import training
from pfedeg.cli import main

training.CHECKPOINT_SECONDS = -1.0
if limit := int(sys.argv.pop(1)):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
main()
