"""A disk that is really full: the spool goes on by itself when consumers commit positions.

A small disk in memory is mounted for a program, one of tests/spool/full_disk.py.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.programs import ROOT, environment
from tests.small_disk import on_small_disk

pytestmark = pytest.mark.programs


@pytest.fixture
def run(tmp_path):
    def run(name, size="8m"):
        disk = tmp_path / "disk"
        command = [*on_small_disk(disk, size), sys.executable, "-m", "tests.spool.full_disk", name]
        done = subprocess.run(
            [*command, str(disk)],
            cwd=ROOT,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=100,
        )
        assert done.returncode == 0, done.stdout[-5000:]

    return run


@pytest.mark.parametrize("size", ["small", "medium", "large"])
def test_a_full_disk_goes_on(run, size):
    """Three times the disk goes through, and is read once, with nothing missing."""
    run(f"{size}_batches")


@pytest.mark.parametrize("size", ["", "_of_small_batches"])
def test_a_consumer_that_is_always_behind(run, size):
    """Appends go on before the spool is empty, in the place of deleted batches."""
    run(f"slow_consumer{size}")


def test_a_batch_that_is_larger_than_the_reserve(run):
    run("large_after_small")


def test_while_the_disk_is_full(run):
    """Readers read, the processor rests, and the log has a line at the beginning and at the end."""
    run("while_it_is_full")


def test_another_program_has_filled_the_disk(run):
    """Positions are stored to the last block."""
    run("another_program")


def test_the_log_has_a_part_of_the_reserve(run):
    """For batches that go to the place of deleted ones."""
    run("lent")


def test_another_program_takes_the_reserve(run):
    """While it is given up. It is taken again when there is room, and before events are stored."""
    run("stolen")


def test_a_spool_without_a_reserve(run):
    """That of an older version: no event is stored before there is a reserve."""
    run("old_version")


def test_what_a_retention_keeps(run):
    """It goes when the disk is full, as it does when the spool is."""
    run("retained")


def test_a_disk_of_one_megabyte(run):
    run("tiny", "1m")


def test_a_commit_cancelled_at_each_step(run):
    run("cancelled")


def test_a_crash_at_each_step(run):
    """While the reserve is given up, and before it is taken again."""
    run("crashes")
