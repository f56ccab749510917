"""`Options`: the options of a data source, checked."""

from __future__ import annotations

import pickle
import ssl

import pytest
import trustme

from rsocket_trio.spark.options import Options


def test_names_are_in_any_case():
    """Spark makes them lower case."""
    options = Options({"startingoffsets": "earliest", "Consumer": "c"})
    assert options.text("startingOffsets") == "earliest"
    assert options.text("consumer", "spark") == "c"
    options.finish()


def test_texts():
    """Required, with a default, and empty."""
    options = Options({"empty": ""})
    assert options.text("absent", "default") == "default"
    assert options.text("absent", None) is None
    assert options.text("empty", "default") == ""
    for name in ("absent", "empty"):
        with pytest.raises(ValueError, match=f"the option {name} is required"):
            options.text(name)


def test_a_misspelt_name_is_shown_for_a_required_option():
    """The error about the missing option comes first, so it has to name the other one."""
    options = Options({"RoutE": "", "Rout": "alerts", "tls.ca": "x"})
    with pytest.raises(
        ValueError, match=r"route is required, .*alerts.*: did you mean it by Rout\?$"
    ):
        options.text("route")
    with pytest.raises(ValueError, match=r"hosts is required, e\.g\. [^?]*$"):
        options.text("hosts")


def test_integers():
    """Within their range."""
    options = Options({"n": " 7 ", "bad": "7.5"})
    assert options.integer("n", 1) == 7
    assert options.integer("absent", 1, 5) == 1
    assert options.integer("absent") is None
    assert options.integer("n", 1, 7, 7) == 7
    with pytest.raises(ValueError, match="the option n must be at least 8, not ' 7 '"):
        options.integer("n", 9, 8)
    with pytest.raises(ValueError, match="the option n must be at most 6"):
        options.integer("n", 1, 1, 6)
    with pytest.raises(ValueError, match="the option n must be at most 9223372036854775807"):
        Options({"n": "9223372036854775808"}).integer("n", 1)
    with pytest.raises(ValueError, match=r"the option bad must be a whole number, not '7\.5'"):
        options.integer("bad", 1)


def test_sizes():
    """As on the command line; a number alone is bytes."""
    options = Options({"a": "4096", "b": "64M", "c": "2g", "bad": "2 GB", "huge": "9999T"})
    assert [options.size(each, 1, 1) for each in "abc"] == [4096, 64 * 2**20, 2 * 2**30]
    assert options.size("absent", None, 1) is None
    with pytest.raises(ValueError, match="bad must be a number of bytes, such as 4096 or 64M"):
        options.size("bad", 1, 1)
    with pytest.raises(ValueError, match="a must be at least 5000, not '4096'"):
        options.size("a", 1, 5000)
    with pytest.raises(ValueError, match="huge must be at most 1024"):
        options.size("huge", 1, 1, 1024)


def test_a_number_of_many_digits_is_refused_quickly():
    """`int` has a limit, and its error is a ValueError too."""
    with pytest.raises(ValueError, match="the option n must be a whole number") as caught:
        Options({"n": "9" * 100_000}).integer("n", 1)
    assert len(str(caught.value)) < 300


def test_milliseconds_are_seconds():
    """The default is in milliseconds as well."""
    options = Options({"pollTimeoutMs": "1500", "zero": "0"})
    assert options.milliseconds("pollTimeoutMs", 1000) == 1.5
    assert options.milliseconds("absent", 250) == 0.25
    with pytest.raises(ValueError, match="at least 1"):
        options.milliseconds("zero", 1000)
    assert options.milliseconds("zero", 1000, 0) == 0
    with pytest.raises(ValueError, match="at most 100"):
        options.milliseconds("pollTimeoutMs", 1, high=100)


def test_flags():
    """True or false, in any case."""
    options = Options({"yes": "True", "no": " false", "bad": "1"})
    assert options.flag("yes", False) is True
    assert options.flag("no", True) is False
    assert options.flag("absent", True) is True
    with pytest.raises(ValueError, match="the option bad must be true or false, not '1'"):
        options.flag("bad", True)


def test_choices():
    """They are returned in the spelling of the documentation."""
    options = Options({"mode": "failfast", "bad": "maybe"})
    assert options.choice("mode", ["PERMISSIVE", "FAILFAST"], "PERMISSIVE") == "FAILFAST"
    assert options.choice("absent", ["a", "b"], "b") == "b"
    with pytest.raises(ValueError, match="must be a, b or c, not 'maybe'"):
        options.choice("bad", ["a", "b", "c"], "b")
    with pytest.raises(ValueError, match="must be a, not"):
        options.choice("bad", ["a"], "a")


def test_lists():
    """Empty parts do not count."""
    options = Options({"collectors": " one:1, two:2,,", "empty": " "})
    assert options.list("collectors") == ("one:1", "two:2")
    assert options.list("empty") == options.list("absent") == ()


def test_unknown_options_are_errors_with_the_nearest_name():
    """A misspelt option would be ignored in silence."""
    options = Options({"maxRowPerTrigger": "1", "xyz": "2", "path": "p", "checkpointLocation": "c"})
    options.integer("maxRowsPerTrigger", 1)
    options.know("spool")
    with pytest.raises(ValueError) as caught:
        options.finish()
    assert str(caught.value) == (
        "there is no option maxRowPerTrigger: did you mean maxRowsPerTrigger?;"
        " there is no option xyz: there are maxRowsPerTrigger, spool"
    )


def test_options_of_another_mode_are_known():
    """`know` accepts them, and `has` says whether they are given."""
    options = Options({"LISTEN": "x"})
    assert options.has("listen")
    assert not options.has("spool")
    options.know("listen")
    options.finish()


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The files of an authority, of a certificate, and of its key."""
    where = tmp_path_factory.mktemp("tls")
    authority = trustme.CA()
    identity = authority.issue_cert("collector.example")
    authority.cert_pem.write_to_path(where / "ca.pem")
    identity.cert_chain_pems[0].write_to_path(where / "cert.pem")
    identity.private_key_pem.write_to_path(where / "key.pem")
    (where / "commented.pem").write_text(
        "# Autorité\n" + (where / "ca.pem").read_text(), encoding="utf-8"
    )
    (where / "no.pem").write_text("no certificate")
    return where


class TestTls:
    def test_without_options_there_is_no_context(self):
        """The default is right, also for an address without encryption."""
        settings = Options({}).tls()
        assert not settings.given
        assert settings.context() is settings.server_context() is None

    def test_the_settings_can_be_sent_to_executors(self, files):
        """They do not need the file of the authorities."""
        text = (files / "ca.pem").read_text()
        options = Options({"tls.ca": str(files / "commented.pem")})
        settings = pickle.loads(pickle.dumps(options.tls()))
        options.finish()
        context = settings.context()
        assert context.verify_mode is ssl.CERT_REQUIRED
        assert context.check_hostname
        assert [ssl.DER_cert_to_PEM_cert(each) for each in context.get_ca_certs(True)] == [text]
        assert text not in repr(settings)

    def test_the_authorities_may_be_a_text(self, files):
        """It may come from a store of secrets."""
        settings = Options({"tls.ca": (files / "ca.pem").read_text()}).tls()
        assert len(settings.context().get_ca_certs()) == 1

    def test_insecure(self):
        """The certificate of the server is not checked."""
        context = Options({"tls.insecure": "true"}).tls().context()
        assert context.verify_mode is ssl.CERT_NONE
        assert not context.check_hostname

    def test_a_server_presents_its_certificate(self, files):
        """With authorities it asks clients for theirs."""
        given = {"tls.cert": str(files / "cert.pem"), "tls.key": str(files / "key.pem")}
        settings = Options(given).tls()
        assert settings.given
        assert isinstance(settings.context(), ssl.SSLContext)
        assert settings.server_context().verify_mode is ssl.CERT_NONE
        given["tls.ca"] = str(files / "ca.pem")
        assert Options(given).tls().server_context().verify_mode is ssl.CERT_REQUIRED

    @pytest.mark.parametrize(
        ("given", "text"),
        [
            ({"tls.key": "key.pem"}, r"tls\.key needs tls\.cert"),
            ({"tls.ca": "absent.pem"}, r"tls\.ca: cannot read .*absent\.pem: No such file"),
            ({"tls.ca": "no.pem"}, r"tls\.ca has no certificate in PEM format"),
            ({"tls.ca": "-----BEGIN nonsense"}, r"tls\.ca has no certificate in PEM format"),
            ({"tls.cert": "absent.pem"}, r"tls\.cert: cannot read"),
            ({"tls.cert": "cert.pem", "tls.key": "absent.pem"}, r"tls\.key: cannot read"),
            ({"tls.cert": "cert.pem"}, "must be a certificate and its key"),
            ({"tls.cert": "cert.pem", "tls.key": "ca.pem"}, "must be a certificate and its key"),
        ],
    )
    def test_what_cannot_be_used(self, files, given, text):
        """The error names the option."""
        given = {
            name: value if value.startswith("-") else str(files / value)
            for name, value in given.items()
        }
        with pytest.raises(ValueError, match=text):
            Options(given).tls()

    def test_the_names_may_begin_differently(self, files):
        """A listener has settings of its own."""
        options = Options({"listen.tls.key": "k"})
        with pytest.raises(ValueError, match=r"listen\.tls\.key needs listen\.tls\.cert"):
            options.tls("listen.tls")
