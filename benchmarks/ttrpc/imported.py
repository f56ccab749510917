"""A program that imports packages, and nothing else of the benchmark, until its input ends."""

import sys
from importlib import import_module

if __name__ == "__main__":
    for name in sys.argv[1:-1]:  # the last one is the kind of an address, as servers get it
        import_module(name)
    print("READY -", flush=True)
    sys.stdin.read()
