"""The files that a pattern matches: as the standard library finds them, without links."""

from __future__ import annotations

import errno
import glob
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rsocket_trio.logfiles import Source
from rsocket_trio.logfiles.discovery import scan
from rsocket_trio.logfiles.patterns import MAX_LEVELS, expand
from tests.logfiles.shipping import Receiver, following, looked

FILES = ["a.log", "b.log", "ab", ".a.log", "a/a.log", "a/b", "a/b.d/a.log", "b/.c/a.log", "b/a"]
PARTS = ["a", "b", "a.log", "*", "*.log", "?", "[ab]", "[!a]*", ".*", "**", "a*", "b.d"]


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    tree = tmp_path_factory.mktemp("tree")
    for name in FILES:
        path = tree / name if "/" not in name else tree / "deep" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("1\n")
    return tree


@settings(max_examples=300)
@given(parts=st.lists(st.sampled_from(PARTS), min_size=1, max_size=4))
def test_without_links_it_is_as_in_the_standard_library(tree, parts):
    pattern = os.path.join(tree, *parts)
    if not glob.has_magic(pattern):
        return
    expected = {path for path in glob.glob(pattern, recursive=True) if os.path.isfile(path)}
    for follow_links in (False, True):
        matches = expand(pattern, follow_links=follow_links)
        assert {path for path, _ in matches.files} == expected
        assert matches.links == matches.failures == []
    paths = [path for path in tree.rglob("*") if path.is_file()]
    source = Source(pattern, is_pattern=True, follow_links=False)
    assert {str(path) for path in paths if source.names(str(path))} == expected


@pytest.fixture
def linked(tmp_path):
    """``logs`` has links to files and directories outside, and back to itself."""
    for name in ("logs/web", "outside"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("logs/web/a.log", "outside/a.log", "outside/secret"):
        (tmp_path / name).write_text(f"{name}\n")
    (tmp_path / "logs" / "app").symlink_to(tmp_path / "outside")
    (tmp_path / "logs" / "web" / "b.log").symlink_to(tmp_path / "outside" / "secret")
    (tmp_path / "logs" / "web" / "same.log").symlink_to("a.log")
    (tmp_path / "logs" / "web" / "broken.log").symlink_to("nowhere")
    (tmp_path / "logs" / "web" / "back").symlink_to(tmp_path / "logs")
    (tmp_path / "named").symlink_to(tmp_path / "logs")
    return tmp_path


def found(directory, pattern, **options):
    """The files, the links and the problems, without the directory before them."""
    look = scan([Source.of(str(directory / pattern), **options)])
    return (
        {os.path.relpath(each.path, directory) for each in look.found},
        {os.path.relpath(each, directory) for each in look.links},
        [each.reason for each in look.problems],
    )


@pytest.mark.parametrize(
    ("pattern", "files", "links"),
    [
        ("logs/web/*.log", {"logs/web/a.log"}, {"logs/web/b.log"}),
        # In the middle, and behind a wildcard also where a name is given.
        ("logs/*/a.log", {"logs/web/a.log"}, {"logs/app"}),
        ("logs/*/b.log", set(), {"logs/app", "logs/web/b.log"}),
        ("*/app/a.log", set(), {"logs/app", "named"}),
        ("logs/**/*.log", {"logs/web/a.log"}, {"logs/app", "logs/web/b.log", "logs/web/back"}),
        # The user has named the directories before the first wildcard.
        ("named/web/a*", {"named/web/a.log"}, set()),
        ("logs/app/*", {"logs/app/a.log", "logs/app/secret"}, set()),
    ],
)
def test_a_pattern_follows_no_link(linked, pattern, files, links):
    """It names those that lead to something that it would match."""
    problems = [] if files else ["no file matches this pattern"]
    assert found(linked, pattern) == (files, links, problems)


def test_a_pattern_that_follows_links(linked):
    """A link that leads back to a directory above ends there."""
    files, links, problems = found(linked, "logs/**/*.log", follow_links=True)
    assert files == {"logs/web/a.log", "logs/app/a.log", "logs/web/b.log"}
    assert (links, problems) == (set(), [])


def test_directories_that_are_linked_with_each_other(tmp_path, monkeypatch):
    """Each is looked at a few times, not once for each of the 13 700 ways that lead to them."""
    names = "abcdefg"
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.log").touch()
        for other in names.replace(name, ""):
            (tmp_path / name / f"to_{other}").symlink_to(tmp_path / other)
    opened = []
    real = os.open
    monkeypatch.setattr(os, "open", lambda *args, **more: opened.append(0) or real(*args, **more))
    look = scan([Source.of(str(tmp_path / "**" / "*.log"), follow_links=True)])
    assert len(look.found) == len(names)
    assert len(opened) < 500


def test_a_file_behind_a_long_way_of_links_and_a_short_one(tmp_path, monkeypatch):
    """Whoever makes links cannot hide a file that is not too deep by itself."""
    monkeypatch.setattr("rsocket_trio.logfiles.patterns.MAX_LEVELS", 4)
    deep = tmp_path / "z" / "z"
    deep.mkdir(parents=True)
    (deep / "a.log").touch()
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "c").symlink_to(tmp_path / "z")
    monkeypatch.setattr(os, "listdir", lambda directory, real=os.listdir: sorted(real(directory)))
    files, _, problems = found(tmp_path, "**/*.log", follow_links=True)
    assert files == {"z/z/a.log"}
    assert len(problems) == 1


def test_deep_directories(tmp_path):
    """They cost neither the process, by the recursion, nor all of its descriptors."""
    directory = tmp_path
    for _ in range(MAX_LEVELS - 1):
        directory = directory / "d"
    directory.mkdir(parents=True)
    (directory / "a.log").touch()
    (directory / "d" / "d").mkdir(parents=True)
    (directory / "d" / "b.log").touch()
    files, _, problems = found(tmp_path, "**/*.log")
    assert files == {os.path.relpath(directory / "a.log", tmp_path)}
    [problem] = problems
    assert f"{MAX_LEVELS} directories below the first wildcard" in problem


def test_a_named_path_may_be_a_link(linked):
    assert found(linked, "logs/web/b.log") == ({"logs/web/b.log"}, set(), [])


def test_a_directory_that_cannot_be_read(linked, monkeypatch):
    """It is named: it may have files that match. The others are found."""
    (linked / "logs" / "closed").mkdir()
    real = os.open

    def closed(path, *arguments, **options):
        if path == "closed":
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return real(path, *arguments, **options)

    monkeypatch.setattr(os, "open", closed)
    files, _, problems = found(linked, "logs/*/*.log")
    assert (files, problems) == ({"logs/web/a.log"}, ["Permission denied"])


def test_a_file_whose_facts_cannot_be_read(linked, monkeypatch):
    """It is named, unless it is gone. The others are found."""
    (linked / "logs" / "web" / "closed.log").touch()
    (linked / "logs" / "web" / "gone.log").touch()
    real = os.stat

    def closed(path, *arguments, **options):
        for name, error in (("closed.log", PermissionError), ("gone.log", FileNotFoundError)):
            if path == name:
                raise error(errno.EACCES, "Permission denied", path)
        return real(path, *arguments, **options)

    monkeypatch.setattr(os, "stat", closed)
    files, _, problems = found(linked, "logs/*/*.log")
    assert (files, problems) == ({"logs/web/a.log"}, ["Permission denied"])


async def test_a_file_that_becomes_a_link_before_it_is_opened(tmp_path, monkeypatch):
    """What it leads to is not read: neither by its name nor in its place."""
    file, secret = tmp_path / "a.log", tmp_path / "secret"
    file.write_text("1\n")
    secret.write_text("secret\n")
    opened = []
    real = os.open

    def swap(path, *arguments, **options):
        if path == str(file) and not file.is_symlink():
            file.unlink()
            file.symlink_to(secret)
        descriptor = real(path, *arguments, **options)
        opened.append(os.fstat(descriptor).st_ino)
        return descriptor

    receiver = Receiver()
    monkeypatch.setattr(os, "open", swap)
    async with following(tmp_path, receiver, "*.log") as shipment:
        await looked(shipment, 5)
    assert file.is_symlink()
    assert secret.stat().st_ino not in opened
    assert receiver.seen == []


async def test_a_directory_that_becomes_a_link_before_a_file_is_opened(tmp_path, monkeypatch):
    """A file of the same name behind it is another file."""
    (tmp_path / "web").mkdir()
    (tmp_path / "web" / "a.log").write_text("1\n")
    outside = tmp_path / "other" / "outside"
    outside.mkdir(parents=True)
    (outside / "a.log").write_text("secret\n")
    path = str(tmp_path / "web" / "a.log")
    real = os.open

    def swap(name, *arguments, **options):
        if name == path and not (tmp_path / "web").is_symlink():
            (tmp_path / "web").rename(tmp_path / "old")
            (tmp_path / "web").symlink_to(outside)
        return real(name, *arguments, **options)

    receiver = Receiver()
    monkeypatch.setattr(os, "open", swap)
    async with following(tmp_path, receiver, "*/a.log") as shipment:
        await receiver.until(lambda r: r.messages == ["1"])
        await looked(shipment, 5)
    assert receiver.messages == ["1"]
