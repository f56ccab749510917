"""Names of modules and methods."""

from __future__ import annotations

import pytest

from rsocket_trio.ttrpc.codegen.names import module_path, pb2_module, python_names, snake_case


@pytest.mark.parametrize(
    ("name", "python"),
    [
        ("Echo", "echo"),
        ("DivideStream", "divide_stream"),
        ("GetHTTPInfo", "get_http_info"),
        ("HTTPInfo", "http_info"),
        ("UpdateV2", "update_v2"),
        ("V2Update", "v2_update"),
        ("SHA256Sum", "sha256_sum"),
        ("Get_Info", "get_info"),
        ("already_snake", "already_snake"),
        ("ID", "id"),
    ],
)
def test_snake_case(name: str, python: str) -> None:
    """Words begin at capital letters; an abbreviation is one word."""
    assert snake_case(name) == python


def test_names_are_different_and_allowed() -> None:
    """Names that clash, keywords, reserved names and names without letters are changed."""
    names = ["GetInfo", "getInfo", "get_info", "Class", "Taken", "_Hidden", "__init__", "_", "_9"]
    assert python_names(names, {"taken"}) == {
        "GetInfo": "get_info",
        "getInfo": "get_info_",
        "get_info": "get_info__",
        "Class": "class_",
        "Taken": "taken_",
        "_Hidden": "hidden",
        "__init__": "init__",
        "_": "rpc_",
        "_9": "rpc_9",
    }


@pytest.mark.parametrize(
    ("proto", "module", "path"),
    [
        ("x.proto", "x_pb2", "x_pb2.py"),
        ("a/b-c/x-y.proto", "a.b_c.x_y_pb2", "a/b_c/x_y_pb2.py"),
        ("v1.2/x.y.proto", "v1.2.x.y_pb2", "v1/2/x/y_pb2.py"),
        ("old.protodevel", "old_pb2", "old_pb2.py"),
        ("none", "none_pb2", "none_pb2.py"),
    ],
)
def test_modules_are_those_of_protoc(proto: str, module: str, path: str) -> None:
    """protoc puts the messages of a file into such a module."""
    assert pb2_module(proto) == module
    assert module_path(module, ".py") == path
