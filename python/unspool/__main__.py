"""`python -m unspool ...` and the `unspool` command: become the server."""

import os
import sys

from ._binary import binary


def main():
    # Replaces this process, so that signals and the exit status are the server's.
    path = binary()
    os.execv(path, [path, *sys.argv[1:]])


if __name__ == "__main__":
    main()
