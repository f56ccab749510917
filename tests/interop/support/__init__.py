"""Helpers of the interoperability tests; ``../conftest.py`` loads them by path.

`processes` runs the peers' programs, `driver` controls their clients, `stacks` lists them and what
they cannot do, `wire` records the frames between two peers, `serving` is this package as their
server, `site` serves a page to a browser.
"""
