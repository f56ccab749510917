"""``python -m rsocket_trio``: the command line."""

import sys

from rsocket_trio.cli.main import main

sys.exit(main())
