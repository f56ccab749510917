"""``python -m rsocket_trio.workers``: a worker, which its parent starts."""

import sys

from .worker import main

if __name__ == "__main__":
    sys.exit(main())
