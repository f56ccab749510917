"""The rsio part of the benchmark.

ends.py     the ways in which elements are published and read, and the cases
server.py   the program that publishes them
client.py   the program that reads them
wire.py     counts the octets on the wire
"""
