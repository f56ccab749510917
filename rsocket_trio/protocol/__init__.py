"""What is legal and what it costs, sans-IO: time comes in as ``now``, nothing here waits."""
