"""Fixtures for all tests of log files."""

from tests.given_back import everything_is_given_back

__all__ = ["everything_is_given_back"]
