"""The command line with a checkpoint after every round; the first argument limits the size of files (0: no limit)."""

import resource
import sys
import warnings

from pfedeg import Federation, KnowledgeGraph, train
from pfedeg.cli.main import main
from pfedeg.training import run_loop

run_loop.CHECKPOINT_SECONDS = -1.0
if limit := int(sys.argv.pop(1)):
    with warnings.catch_warnings():  # compile first, since machine code is saved in files, too
        warnings.simplefilter("ignore")
        train(Federation({"one": KnowledgeGraph.from_names([("a", "r", "b")], [("b", "r", "a")])}), rounds=1, threads=1)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
main()
