"""Traces go on from a request to the requests that its handler makes."""

from rsocket_trio import Sampling, Tracing, ZipkinTrace, current_trace

TRACE = ZipkinTrace(sampling=Sampling.SAMPLE, trace_id=b"t" * 16, span_id=b"s" * 8)


def test_a_child_of_a_trace():
    """A child is a new span of the same trace, with the same decision."""
    child = Tracing(random_bytes=lambda n: b"n" * n).child(TRACE)
    assert child == ZipkinTrace(
        sampling=Sampling.SAMPLE, trace_id=b"t" * 16, span_id=b"n" * 8, parent_id=b"s" * 8
    )


def test_random_ids_differ():
    """This is so if no source of ids is given."""
    tracing = Tracing()
    assert tracing.child(TRACE).span_id != tracing.child(TRACE).span_id


def test_a_sampling_decision_alone():
    """Without a parent span the decision goes on unchanged."""
    decision = ZipkinTrace(sampling=Sampling.NOT_SAMPLED)
    assert Tracing().child(decision) is decision


async def test_the_current_trace():
    """A trace is current in its block."""
    tracing = Tracing(random_bytes=bytes)
    assert tracing.outgoing() is None
    async for _ in tracing.around(TRACE)(None):
        assert current_trace() is TRACE
        assert tracing.outgoing() == tracing.child(TRACE)
    assert current_trace() is None
