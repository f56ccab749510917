"""For your tests and ours: in-memory pairs, scripted peers, faults, conformance suites."""
