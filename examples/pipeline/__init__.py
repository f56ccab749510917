"""The parts of log_pipeline.py.

In reading order:

- ``run``: one run: which parts there are, what goes in, what comes out
- ``parts``: runs the parts as processes, each with a log
- ``service_log``: makes the log of some services: the same bytes each time
- ``inputs``: the log files that go in, and what they contain
- ``job``: the program for Spark
- ``queries``: its four queries
- ``sources``: where their tables come from, and where the results go
- ``tables``: the tables, as functions of Spark
- ``findings``: what the tables contain at the end
- ``minute``: a row of the results
- ``alerts_server``: takes the results, and shows them as streams and on a page
- ``history``: the latest results, for clients that come later
- ``bundle``: the script of the page, with rsocket-js
- ``report``: prints the tables, and proves the counts
- ``picture``: draws them
"""
