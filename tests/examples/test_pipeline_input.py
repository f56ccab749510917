"""The log files of the pipeline: made, copied and counted without Spark."""

import hashlib
import json
from decimal import Decimal
from importlib import import_module

import pytest
import trio


@pytest.fixture
def part(examples, monkeypatch):
    """Import a part of the pipeline by its name."""
    monkeypatch.syspath_prepend(examples)
    return lambda name: import_module(f"pipeline.{name}")


def test_the_service_log_is_the_same_each_time(part):
    """Two logs are equal, are in the order of their times, and differ with the seed."""
    lines = part("service_log").lines
    one = list(lines(5))
    assert one == list(lines(5))
    assert one != list(lines(5, seed=8))
    times = [json.loads(line)["at"] for line in one]
    assert times == sorted(times)
    assert times[0].startswith("2026-01-31T12:00:")
    assert times[-1].startswith("2026-01-31T12:04:")


def test_the_service_log_has_its_faults(part, tmp_path):
    """In the minutes of a fault a service is slow, fails, or is silent."""
    log = tmp_path / "services.log"
    log.write_text("".join(f"{line}\n" for line in part("service_log").lines()))
    contents = part("inputs").count_services(log)

    def share(service, minute):
        return contents.errors[minute, service] / contents.per_minute[minute, service]

    def mean(service, minute):
        return contents.milliseconds[minute, service] / contents.per_minute[minute, service]

    assert share("payments", "2026-01-31 12:37") < 0.1 < 0.2 < share("payments", "2026-01-31 12:38")
    assert mean("search", "2026-01-31 12:22") > 4 * mean("search", "2026-01-31 12:21")
    silent = [minute for minute in range(60) if not contents.per_minute[at(minute), "mail"]]
    assert silent == [52, 53, 54]
    assert len(log.read_text().splitlines()) == contents.lines


def at(minute):
    return f"2026-01-31 12:{minute:02d}"


async def test_the_service_log_is_written_in_its_time(part, tmp_path, autojump_clock):
    """All of it is written, the last minute just before the end of the time."""
    log = tmp_path / "services.log"
    began = trio.current_time()
    await part("inputs").write_services(log, 30)
    assert trio.current_time() - began == pytest.approx(29.5)
    whole = "".join(f"{line}\n" for line in part("service_log").lines())
    assert hashlib.sha256(log.read_bytes()).digest() == hashlib.sha256(whole.encode()).digest()


DPKG = """\
2026-11-01 10:00:01 startup archives unpack
2026-11-01 10:00:02 install hello:amd64 <none> 2.10-3
2026-11-01 10:00:59 status installed hello:amd64 2.10-3
2026-11-01 10:01:00 status installed libc-bin:amd64 2.36
"""


def test_a_log_of_dpkg_is_counted(part, tmp_path):
    log = tmp_path / "dpkg.log"
    log.write_text(DPKG)
    contents = part("inputs").count_dpkg(log)
    assert contents.lines == 4
    assert contents.per_minute == {
        ("2026-11-01 10:00", "startup"): 1,
        ("2026-11-01 10:00", "install"): 1,
        ("2026-11-01 10:00", "status"): 1,
        ("2026-11-01 10:01", "status"): 1,
    }


@pytest.mark.parametrize(
    ("content", "copied"),
    [
        (None, None),  # there is no such log
        (DPKG, None),  # too little
        (DPKG * 5, DPKG * 5),
        (DPKG * 5 + "2026-11-01 10:0", DPKG * 5),  # its writer is in the middle of a line
    ],
)
def test_a_log_of_this_machine_is_copied(part, tmp_path, content, copied):
    """It is used if there is one with some lines, up to its last line end."""
    log = tmp_path / "dpkg.log"
    if content is not None:
        log.write_text(content)
    (tmp_path / "input").mkdir()
    found = part("inputs").of_this_machine(tmp_path / "input", log)
    assert (found and found.read_text()) == copied
    assert found is not None or not list((tmp_path / "input").iterdir())


def test_the_milliseconds_are_exact(part, tmp_path):
    """They are decimal numbers, so the order of the sums does not matter."""
    log = tmp_path / "services.log"
    record = '{"at":"2026-01-31T12:00:00.100Z","service":"a","level":"INFO","ms":0.1}\n'
    log.write_text(record * 3)
    contents = part("inputs").count_services(log)
    assert contents.milliseconds == {("2026-01-31 12:00", "a"): Decimal("0.3")}
