"""Options may stand anywhere among the arguments."""

import itertools

import pytest

from rsocket_trio.cli.command_parser import CommandParser
from rsocket_trio.cli.grammar import build_parser

URI = "tcp://127.0.0.1:7878"


@pytest.mark.parametrize("order", list(itertools.permutations(["uri", "data", "route", "json"])))
def test_options_may_stand_anywhere(order: tuple[str, ...]) -> None:
    """URI goes before DATA; options stand before, between and behind them."""
    positionals = iter([URI, "hello"])
    words = {"route": ["--route", "greet"], "json": ["--json"]}
    arguments = [word for name in order for word in words.get(name) or [next(positionals)]]
    args = build_parser().parse_args(["request", *arguments])
    assert (args.uri, args.data, args.route, args.json) == (URI, "hello", "greet", True)


def test_lists_go_on_behind_options() -> None:
    """Lists go on behind options, in order."""
    args = build_parser().parse_args(["channel", URI, "a", "--json", "b", "--take", "1", "c"])
    assert args.data == ["a", "b", "c"]
    args = build_parser().parse_args(["decode", "00", "--json", "11", "-"])
    assert args.frames == ["00", "11", "-"]


def test_data_may_be_left_out() -> None:
    """Without DATA it is empty."""
    assert build_parser().parse_args(["request", URI, "--route", "r"]).data is None
    assert build_parser().parse_args(["channel", URI, "--route", "r"]).data == []


@pytest.mark.parametrize("options", [[], ["--route", "r"]])
def test_values_behind_two_dashes(options: list[str]) -> None:
    """Behind --, a text that begins with a dash is a value, also behind options; - always is."""
    assert build_parser().parse_args(["request", URI, *options, "--", "-5"]).data == "-5"
    assert build_parser().parse_args(["request", URI, *options, "-"]).data == "-"
    args = build_parser().parse_args(["channel", URI, "a", *options, "--", "-b", "--c"])
    assert args.data == ["a", "-b", "--c"]


@pytest.mark.parametrize(
    ("arguments", "unknown"),
    [
        (["request", URI, "a", "b"], ["b"]),
        (["request", URI, "--json", "a", "b"], ["b"]),
        (["request", URI, "a", "--json", "b"], ["b"]),
        (["request", URI, "--other", "a"], ["--other"]),
        (["channel", URI, "a", "--other", "b"], ["--other"]),
        (["serve", "app.py", "--listen", URI, "other"], ["other"]),
    ],
)
def test_extra_arguments(
    arguments: list[str], unknown: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """They are wrong usage."""
    with pytest.raises(SystemExit):
        build_parser().parse_args(arguments)
    expected = f"unrecognized arguments: {' '.join(unknown)}"
    assert expected in capsys.readouterr().err


def test_wrong_usage_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Of the command, and with where its options are."""
    with pytest.raises(SystemExit) as caught:
        build_parser().parse_args(["request", URI, "--data", "x"])
    assert caught.value.code == 2
    assert capsys.readouterr().err == (
        "rsocket-trio request: error: unrecognized arguments: --data"
        " (see rsocket-trio request --help)\n"
    )


def test_a_parser_without_positional_arguments() -> None:
    """It works like any other."""
    _, extras = CommandParser().parse_known_args(["left", "over"])
    assert extras == ["left", "over"]
