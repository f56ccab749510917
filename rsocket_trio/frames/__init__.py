"""Frames of RSocket 1.0, sans-IO: bytes to objects and back. No state, no rules of use."""
