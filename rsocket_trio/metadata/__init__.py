"""Metadata extensions of RSocket, sans-IO: MIME ids, composite metadata, routing and friends."""
