"""Packages of the extra that are missing, too old, or broken."""

from __future__ import annotations

import subprocess
import sys

import pytest

from rsocket_trio.spark import extras
from rsocket_trio.spark.extras import require


def test_a_module_is_imported():
    """Also one inside a package."""
    import json.decoder

    assert require("json.decoder") is json.decoder


def test_the_error_names_the_extra():
    """The text can be copied into a shell."""
    with pytest.raises(ImportError, match=r"pip install 'rsocket-trio\[spark\]'") as caught:
        require("no_such_package.inside")
    assert caught.value.name == "no_such_package"


def test_a_package_that_misses_another_is_a_different_problem(tmp_path, monkeypatch):
    """Installing the extra again would not help."""
    (tmp_path / "half_a_package.py").write_text("import not_there")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="not_there") as caught:
        require("half_a_package")
    assert "pip install" not in str(caught.value)


@pytest.mark.parametrize("version", ["4.1.4", "3.5.9", "4.0"])
def test_an_old_pyspark_is_refused(monkeypatch, version):
    """Its sources cannot limit a batch."""
    monkeypatch.setattr(
        extras, "import_module", lambda name: type("Module", (), {"__version__": version})
    )
    with pytest.raises(ImportError, match=rf"4\.2 or newer, and this is {version}"):
        require("pyspark.sql")


@pytest.mark.parametrize("version", ["4.2.0", "4.10.1", "4.3.0.dev1", "5.0.0"])
def test_newer_ones_are_accepted(monkeypatch, version):
    """Versions are compared as numbers."""
    monkeypatch.setattr(
        extras, "import_module", lambda name: type("Module", (), {"__version__": version})
    )
    require("pyspark.sql")


@pytest.mark.parametrize("module", ["rsocket_trio", "rsocket_trio.spark"])
def test_the_package_is_imported_without_spark(module):
    """Not even if it is there: the import of PySpark takes time."""
    code = (
        f"import sys, {module}\n"
        "print([name for name in ('pyspark', 'pyarrow', 'py4j') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "[]\n"
