"""Programs of the Lumberjack cases of ``python -m benchmarks``.

    ends.py             the stacks and the cases
    lines.py            varied log lines, and events and windows of them
    sender.py           the fast sender: prepared bytes, the same for every server
    sink.py             a server that only acknowledges
    ours_server.py      the server of rsocket_trio: decodes, only counts, or stores in a spool
    ours_client.py      the client of rsocket_trio
    ship_client.py      `rsocket-trio lumberjack ship`, with a file of lines
    pylogbeat_client.py the client of pylogbeat
    filebeat_client.py  runs Filebeat, and asks it how many events it has shipped
    logstash_server.py  runs the Beats input of Logstash
    go_client.py        gives the lines to the client of go-lumber
    go                  server and client of go-lumber

Clients know one operation, ``ship``, with these parameters: ``level`` (of zlib; 0 is no
compression), ``windows`` (how many of them are in flight on a connection), ``connections``,
``texts`` (whether the application gives JSON texts to the client, and not dicts), and for the fast
sender ``size`` (the events of a window, 2048 if it is not there).
"""
