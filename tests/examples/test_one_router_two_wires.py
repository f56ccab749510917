"""one_router_two_wires.py: both protocols get the same answers."""

EXPECTED = """\
RSocket: 4 words
RSocket: ['to', 'be']
RSocket: ['TO', 'BE']
ttrpc: 4 words
ttrpc: ['to', 'be']
ttrpc: ['TO', 'BE']
ttrpc, without the token: PERMISSION_DENIED: who are you?
"""


def test_both_wires_answer(run):
    """The guard of the router is asked over both."""
    done = run("one_router_two_wires.py")
    assert (done.stdout, done.stderr, done.returncode) == (EXPECTED, "", 0)
