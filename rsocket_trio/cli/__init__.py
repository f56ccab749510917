"""The ``rsocket-trio`` command. Uses the public API only."""
