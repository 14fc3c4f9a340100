"""`python -m discoformer` is the `discoformer` command; torchrun needs a module to start."""

import sys

from discoformer.cli import main

if __name__ == "__main__":
    sys.exit(main())
