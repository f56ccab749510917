"""Options from the environment and from a TOML file: precedence, names, and wrong values."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsocket_trio.cli.grammar import build_parser
from tests.programs import ROOT

SERVE = ("serve", "app.py")


@pytest.fixture
def config(tmp_path: Path):
    def write(text: str) -> str:
        (tmp_path / "c.toml").write_text(text)
        return str(tmp_path / "c.toml")

    return write


def parse(*words: str):
    return build_parser().parse_args(list(words))


def test_the_command_line_comes_first(config, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the environment, then the file, then the default; each for each option."""
    file = config(
        '[serve]\nlisten = ["tcp://127.0.0.1:1"]\ngrace = 1\nresume = 1\nmax-connections = 1'
    )
    monkeypatch.setenv("RSOCKET_TRIO_SERVE_GRACE", "2")
    monkeypatch.setenv("RSOCKET_TRIO_SERVE_RESUME", "2.5")
    args = parse(*SERVE, "--config", file, "--grace", "3")
    assert (args.grace, args.resume, args.max_connections) == (3, 2.5, 1)
    assert args.listen == ["tcp://127.0.0.1:1"]
    assert args.start_timeout == 30


def test_a_list_is_replaced_as_a_whole(config, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the environment blanks separate, and quotation marks join."""
    file = config('[serve]\nlisten = ["tcp://a:1", "ws://a:2/x"]')
    assert parse(*SERVE, "--config", file).listen == ["tcp://a:1", "ws://a:2/x"]
    monkeypatch.setenv("RSOCKET_TRIO_SERVE_LISTEN", "tcp://b:1 tcp://b:2")
    assert parse(*SERVE, "--config", file).listen == ["tcp://b:1", "tcp://b:2"]
    assert parse(*SERVE, "--config", file, "--listen=tcp://c:1").listen == ["tcp://c:1"]
    monkeypatch.setenv("RSOCKET_TRIO_REQUEST_HEADER", "'A: 1' 'B: 2'")
    assert parse("request", "tcp://h:1").headers == [("A", "1"), ("B", "2")]


def test_flags(config, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment can switch off what the file switches on; one excludes the other."""
    file = config('[serve]\nlisten = "tcp://a:1"\nlease-required = true\nverbose = true')
    args = parse(*SERVE, "--config", file)
    assert (args.lease_required, args.verbose) == (True, True)
    monkeypatch.setenv("RSOCKET_TRIO_SERVE_LEASE_REQUIRED", "no")
    args = parse(*SERVE, "--quiet", "--config", file)
    assert (args.lease_required, args.verbose, args.quiet) == (False, False, True)


def test_one_file_for_several_commands(config, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command of a group has a table in the table of the group."""
    file = config('[lumberjack.serve]\nlisten = "lumberjack://a:1"\n[request]\nroute = "x"')
    monkeypatch.setenv("RSOCKET_TRIO_CONFIG", file)
    assert parse("lumberjack", "serve").listen == ["lumberjack://a:1"]
    assert parse("request", "tcp://h:1").route == "x"
    assert parse("request", "tcp://h:1", "--", "--route").data == "--route"
    assert parse("fnf", "tcp://h:1").route is None
    monkeypatch.setenv("RSOCKET_TRIO_LUMBERJACK_SERVE_LISTEN", "lumberjack://b:1")
    assert parse("lumberjack", "serve").listen == ["lumberjack://b:1"]


def test_a_value_may_look_like_an_option(config) -> None:
    """It stays a value."""
    file = config('[request]\nroute = "--json"\ndata-mime = "-x"')
    args = parse("request", "tcp://h:1", "--config", file)
    assert (args.route, args.data_mime, args.json) == ("--json", "-x", False)


def test_the_example_of_the_page(config) -> None:
    """It has options that there are."""
    page = (Path(ROOT) / "docs/howto/command-line/index.md").read_text()
    file = config(page.partition("# app.toml\n")[2].partition("```")[0])
    args = parse(*SERVE, "--config", file)
    assert (args.workers, args.grace, len(args.listen)) == (4, 20, 2)
    assert parse("lumberjack", "serve", "--config", file).json


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[serve]\ngrase = 1", "[serve] grase: serve has no such option; the nearest is grace"),
        ("[serve]\nmax_connections = 1", "no such option; the nearest is max-connections"),
        ("[serve]\nconfig = 'x'", "serve has no such option"),
        ("[serve]\ngrace = true", "[serve] grace: it is neither a text nor a number"),
        ("[serve]\ngrace = [1]", "[serve] grace: it is neither a text nor a number"),
        ("[serve]\ngrace = -1", "[serve] grace: '-1' is not a number of seconds"),
        ("[serve]\nlisten = [[]]", "[serve] listen: it is neither a text nor a number"),
        ("[serve]\nlisten = 'x'", "[serve] listen: 'x' is not an address"),
        ("[serve]\nlease-required = 1", "lease-required: it is neither true nor false"),
        ("[serve]\nclient-cert = 'maybe'", "it is not one of required, optional"),
        ("[server]\ngrace = 1", "it has no table [serve]"),
        ("serve = 1", "serve is no table"),
        ("[serve", "at the end of a table"),
        ("[serve]\ngrace = " + "9" * 5000, "a number has too many digits"),
        ("[serve]\nlisten = " + "[" * 20_000, "nested too deeply"),
    ],
)
def test_what_is_wrong_in_a_file(text: str, why: str, config, capsys) -> None:
    """The error names the file, the key and the reason."""
    file = config(text)
    with pytest.raises(SystemExit) as ended:
        parse(*SERVE, "--config", file)
    assert ended.value.code == 2
    error = capsys.readouterr().err
    assert file in error
    assert why in error


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("GRASE", "1", "serve has no such option; the nearest is RSOCKET_TRIO_SERVE_GRACE"),
        ("XXXXXXXXXX", "1", "serve has no such option (see"),
        ("GRACE", "x", "'x' is not a number of seconds"),
        ("LEASE_REQUIRED", "maybe", "it is neither true nor false"),
        ("LISTEN", "'tcp://a:1", "a quotation mark is not closed"),
    ],
)
def test_what_is_wrong_in_the_environment(
    name: str, text: str, why: str, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    """The error names the variable."""
    monkeypatch.setenv(f"RSOCKET_TRIO_SERVE_{name}", text)
    with pytest.raises(SystemExit):
        parse(*SERVE, "--listen", "tcp://a:1")
    error = capsys.readouterr().err
    assert f"RSOCKET_TRIO_SERVE_{name}: " in error
    assert why in error


def test_a_file_that_is_not_there(capsys) -> None:
    """It is an error, wherever it was named."""
    with pytest.raises(SystemExit):
        parse(*SERVE, "--config", "/nowhere.toml")
    assert "/nowhere.toml: No such file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "by"),
    [
        ("[request]\nauth-bearer = ['s3cret']", "file"),
        ("[request]\nauth-bearer = 's3cret\n", "file"),
        ("[request]\nheader = 's3cret'", "file"),
        ("s3cret", "RSOCKET_TRIO_REQUEST_HEADER"),
        ("'s3cret", "RSOCKET_TRIO_REQUEST_HEADER"),
        ("s3cret", "RSOCKET_TRIO_REQUEST_AUTH_BAERER"),
    ],
)
def test_secrets_are_not_shown(
    text: str, by: str, config, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    """An error about a secret does not repeat it."""
    words = ["request", "tcp://h:1"]
    if by == "file":
        words += ["--config", config(text)]
    else:
        monkeypatch.setenv(by, text)
    with pytest.raises(SystemExit):
        parse(*words)
    error = capsys.readouterr().err
    assert "error:" in error
    assert "s3cret" not in error


@given(st.text(max_size=40))
def test_any_file_is_read_or_an_error(text: str) -> None:
    """Whatever stands in it: the command ends with its usage, and no traceback."""
    with tempfile.NamedTemporaryFile("w", suffix=".toml", encoding="utf-8") as file:
        file.write(f"[serve]\nlisten = 'tcp://a:1'\n{text}")
        file.flush()
        with suppress(SystemExit):
            parse(*SERVE, "--config", file.name)
