"""The Spark part of ``python -m benchmarks``.

groups.py        the tables
cases.py         the cases, and the runs of each
running.py       runs them, in rounds
measuring.py     measures one query: a stream, a full spool, a steady rate, a batch
latency.py       how long events took into a Parquet table
processor.py     processor time of trees of processes, by part
report.py        the tables as Markdown
bench.py         the programs and directories, which start when a case needs them
sources.py       the streaming sources, and what feeds each of them
shippers.py      agents that follow files
rsocket_cases.py the cases of the RSocket source and of the sinks
events.py        the events
elements.py      the elements of the RSocket source
kafka.py         another program: the same events out of a collector and out of Kafka
kafka_app.py     a program: the Spark application for that
spark_app.py     a program: the Spark application
agent.py         a program: an agent that writes prepared windows
lines_server.py  a program: serves lines to Spark's ``socket`` source
responder.py     a program: the responder for the RSocket source and sink
"""
