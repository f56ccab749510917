"""The numbers that Lumberjack, log files, the spool and the collector are built with."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import attrs

ROOT = Path(__file__).parents[1]
CHECKS = ("whole.", "number.", "sized.", "optional.")
PACKAGES = ("collector", "logfiles", "lumberjack", "spool")

TABLE = r"""
collector.client.READER_CONFIG.keepalive_interval  5.0
collector.client.READER_CONFIG.max_lifetime  20.0
collector.client.READER_CONFIG.limits.max_payload_size  1024 * 2**20
collector.client.READER_CONFIG.limits.max_reassembly_size  1152 * 2**20
collector.client.READER_CONFIG.limits.max_unread_size  1152 * 2**20
collector.client.READER_CONFIG.limits.max_unsent_control_size  1536 * 2**10
collector.client.READER_CONFIG.fragment_size  64 * 2**10
collector.client.READER_CONFIG.prefetch  256
collector.client._PIECE_SIZE  4 * 2**20
collector.client.CollectorClient.info(instances)  False
collector.client.CollectorClient.read(patience)  60.0
collector.client.CollectorClient.forget(force)  False
collector.collecting._SPOOL_CONFIG.max_read_size  1 * 2**20
collector.collecting._SPOOL_CONFIG.retry.max_delay  2.0
collector.collecting.Collector.stop(grace)  5.0
collector.collecting.Collector.aclose(grace)  5.0
collector.collecting.collect(max_size)  1024 * 2**20
collector.collecting.collect(group_readers)  False
collector.consumers._STORE_PART  0.0625
collector.consumers._Instance.absent  0.0
collector.consumers._Instance.stored  0.0
collector.feeds._Responder.options  hidden
collector.feeds._Publisher.options  hidden
collector.gathering.ITEM_COST  176
collector.gathering.Gathering.most  2048 * 2**20
collector.gathering.Gathering.items  no parameter
collector.gathering.Gathering.largest  0, no parameter
collector.gathering.Gathering._size  0, no parameter
collector.ingest._Pending.size  0
collector.ingest_config.COLLECTOR_CONFIG.limits.max_payload_size  16 * 2**20
collector.ingest_config.COLLECTOR_CONFIG.limits.max_reassembly_size  32 * 2**20
collector.ingest_config.COLLECTOR_CONFIG.limits.max_requests_size  32 * 2**20
collector.ingest_config.COLLECTOR_CONFIG.limits.max_unread_size  64 * 2**20
collector.ingest_config.COLLECTOR_CONFIG.limits.max_unsent_control_size  1536 * 2**10
collector.ingest_config.COLLECTOR_CONFIG.fragment_size  256 * 2**10
collector.ingest_config.COLLECTOR_CONFIG.prefetch  256
collector.ingest_config.IngestConfig.max_batch_events  2 * 2**10, at least 1
collector.ingest_config.IngestConfig.max_batch_size  1 * 2**20, at least 1
collector.ingest_config.IngestConfig.linger  0.02, at least 0 and finite
collector.ingest_config.IngestConfig.max_pending_size  16 * 2**20, at least 1
collector.ingest_config.IngestConfig.max_all_pending_size  128 * 2**20, at least 1
collector.ingest_config.IngestConfig.max_pending_connections  16 * 2**10, at least 1
collector.ingest_config.IngestConfig.max_channels_per_connection  16, at least 1
collector.ingest_config.IngestConfig.max_granted_events  1 * 2**10, from 1 to 65536
collector.ingest_config.IngestConfig.max_granted_size  16 * 2**20, at least 1
collector.limits.CollectorLimits.max_reads  256, at least 1
collector.limits.CollectorLimits.max_reads_per_connection  16, at least 1
collector.limits.CollectorLimits.max_read_memory  128 * 2**20, at least 1
collector.limits.CollectorLimits.max_read_memory_per_connection  32 * 2**20, at least 1
collector.limits.CollectorLimits.max_read_wait  15.0, greater than 0 and finite
collector.limits.CollectorLimits.stall_time  10.0, greater than 0 and finite
collector.limits.CollectorLimits.min_read_rate  262144.0, greater than 0 and finite
collector.limits.CollectorLimits.max_consumers  64, at least 1
collector.limits.CollectorLimits.max_consumers_per_connection  8, at least 1
collector.limits.CollectorLimits.max_instances  4 * 2**10, at least 1
collector.limits.CollectorLimits.max_instances_per_connection  16, at least 1
collector.limits.CollectorLimits.max_instances_per_consumer  256, at least 1
collector.limits.CollectorLimits.instance_timeout  604800.0, greater than 0 and finite
collector.messages._MAX_OFFSET  9223372036854775807
collector.messages._MAX_COUNT  2147483647
collector.messages._MAX_SPOOL_ID  100
collector.messages._MAX_EPOCH  100
collector.messages._MAX_ENCODING  64
collector.messages._MAX_FACTS  64 * 2**10
collector.messages._MAX_LEASE  3153600000.0
collector.messages._FIRST_TIME  -62135596800
collector.messages._LAST_TIME  253402300799
collector.messages._offset  from 0 to 9223372036854775807
collector.messages._lease  from 0 to 3153600000.0
collector.messages._epoch  from 1 to 100
collector.messages.InfoRequest.instances  False
collector.messages.SpoolInfo.spool_id  from 1 to 100
collector.messages.SpoolInfo.oldest  from 0 to 9223372036854775807
collector.messages.SpoolInfo.epoch  from 1 to 100
collector.messages.SpoolInfo.epoch_end  from 0 to 9223372036854775807
collector.messages.SpoolInfo.reach  from 0 to 9223372036854775807
collector.messages.BatchHead.first  from 0 to 9223372036854775807
collector.messages.BatchHead.count  from 1 to 2147483647
collector.messages.BatchHead.start  from 0 to 9223372036854775807
collector.messages.BatchHead.stop  from 0 to 9223372036854775807
collector.messages.BatchHead.encoding  from 0 to 64
collector.messages.BatchHead.stored_at  from -62135596800 to 253402300799
collector.messages.PositionRequest.lease  from 0 to 3153600000.0
collector.messages.ForgetRequest.force  False
collector.range_reader.RETRY_PAUSE  0.5
collector.range_stream.LARGE  1 * 2**20
collector.range_stream.CHUNK  256 * 2**10
collector.read_memory._LOOKS  8
collector.read_memory.Share.size  0
collector.read_memory.Share.since  0.0
collector.read_memory.Share.loading  False
collector.read_memory.Share.evicted  False
collector.read_memory._Connection.size  0
collector.refusals.WRONG_SPOOL  21249
collector.refusals.TRIMMED  21250
collector.refusals.NOT_STORED  21251
collector.refusals.STALLED  21252
collector.refusals.BUSY  21253
collector.refusals.RESTORED  21254
collector.refusals._MAX_DATA  1000
collector.refusals._MAX_ID  100
collector.roles._MAX_SHOWN  100
collector.service._MAX_SIZE  4398046511104 * 2**20
collector.stored._MAX_U32  4294967295
collector.subscriber._FIRST_SIZE  1 * 2**20
collector.subscriber._LEAST_SIZE  16 * 2**10
collector.subscriber._MAX_TROUBLE  300
collector.subscriptions._MAX_ROUTE  255
collector.subscriptions._MAX_NAME  1 * 2**10
collector.subscriptions.Subscription.data  b''
collector.subscriptions.Subscription.auth  hidden
logfiles.counts.Counts.files  0
logfiles.counts.Counts.opened  0
logfiles.counts.Counts.read_lines  0
logfiles.counts.Counts.read_bytes  0
logfiles.counts.Counts.acknowledged_lines  0
logfiles.counts.Counts.acknowledged_bytes  0
logfiles.counts.Counts.skipped_bytes  0
logfiles.counts.Counts.truncations  0
logfiles.counts.Counts.looks  0
logfiles.discovery.Source.of(follow_links)  False
logfiles.event_text.EXPANSION  6
logfiles.event_text._BOM  b'\xef\xbb\xbf'
logfiles.holes._PART  1 * 2**20
logfiles.holes._AT_ONCE  64 * 2**20
logfiles.identity.HEAD_SIZE  1 * 2**10
logfiles.multiline.MultilineRule.max_lines  500, at least 1
logfiles.multiline.MultilineRule.timeout  5.0, greater than 0
logfiles.open_files.RESERVE  32
logfiles.patterns.MAX_LEVELS  64
logfiles.progress.Part.done  False
logfiles.recorder._SHARE  4
logfiles.recorder._LONGEST_PAUSE  2.0
logfiles.recorder._RETRY  1.0
logfiles.registry._VERSION  1
logfiles.registry.KEPT  604800.0
logfiles.shipment._TIDY  3600.0
logfiles.shipment._ATTEMPTS  5
logfiles.shipment._RETRY  1.0
logfiles.shipment._NAMED  20
logfiles.shipment.Following.poll  0.5
logfiles.shipment.Following.close_after  60.0
logfiles.shipment.Shipment.__init__(max_open)  inf
logfiles.tail._CHUNK  256 * 2**10
logfiles.tail._CHUNKS  4
logfiles.tail.Tail._batch(at_end)  False
logfiles.wanted.WantedFile.is_entered  False
logfiles.wanted.Wanted.add(is_moved)  False
lumberjack.addresses.DEFAULT_PORT  5044
lumberjack.client.config.ShipperConfig.version  2
lumberjack.client.config.ShipperConfig.compression_level  3, from 0 to 9
lumberjack.client.config.ShipperConfig.initial_window  64, at least 1
lumberjack.client.config.ShipperConfig.max_window  2 * 2**10, at least 1
lumberjack.client.config.ShipperConfig.max_window_size  4 * 2**20, at least 1
lumberjack.client.config.ShipperConfig.pipelining  2, at least 1
lumberjack.client.config.ShipperConfig.load_balance  False
lumberjack.client.config.ShipperConfig.connection_ttl  greater than 0
lumberjack.client.config.ShipperConfig.connect_timeout  10.0, greater than 0
lumberjack.client.config.ShipperConfig.ack_timeout  30.0, greater than 0
lumberjack.client.config.ShipperConfig.ack_deadline  600.0, greater than 0
lumberjack.client.connector._FAREWELL  1.0
lumberjack.client.event_encoder.FRAME_HEAD  10
lumberjack.client.event_encoder._ENOUGH  256 * 2**10
lumberjack.client.event_encoder._SLICE_COUNT  64
lumberjack.client.event_encoder._SLICE_SIZE  64 * 2**10
lumberjack.client.flight._MAX_USELESS  1000
lumberjack.client.forming._STEP  256 * 2**10
lumberjack.client.forming._SLOW_STEPS  7: 64 * 2**10, 8: 16 * 2**10, 9: 4 * 2**10
lumberjack.client.intake._CHECKED  2 * 2**10
lumberjack.client.intake._READ  256
lumberjack.client.intake._MAX_KEPT  8 * 2**20
lumberjack.client.outgoing._READ_SIZE  4 * 2**10
lumberjack.client.outgoing._CHUNK  128 * 2**10
lumberjack.client.outgoing.Totals.sent  0
lumberjack.client.outgoing.Totals.resent  0
lumberjack.client.outgoing.Totals.acknowledged  0
lumberjack.forwarding.ship_from(max_in_flight)  8
lumberjack.forwarding.ship_from(follow)  True
lumberjack.forwarding._Sent.acknowledged  False
lumberjack.log_handler.buffer.OVERHEAD  64
lumberjack.log_handler.courier._FIRST_WAIT  1.0
lumberjack.log_handler.courier._LONGEST_WAIT  60.0
lumberjack.log_handler.drops.FIRST_DELAY  1.0
lumberjack.log_handler.drops.INTERVAL  10.0
lumberjack.log_handler.handler._MAX_NESTED  4
lumberjack.log_handler.handler.LumberjackHandler.__init__(level)  0
lumberjack.log_handler.handler.LumberjackHandler.__init__(max_records)  64 * 2**10
lumberjack.log_handler.handler.LumberjackHandler.__init__(max_size)  64 * 2**20
lumberjack.log_handler.handler.LumberjackHandler.__init__(max_event_size)  1 * 2**20
lumberjack.log_handler.handler.LumberjackHandler.__init__(block_timeout)  1.0
lumberjack.log_handler.handler.LumberjackHandler.__init__(linger)  0.2
lumberjack.log_handler.handler.LumberjackHandler.__init__(close_timeout)  5.0
lumberjack.log_handler.handover.Handover.arm(size)  inf
lumberjack.log_handler.json_text.MAX_TEXT  1000
lumberjack.log_handler.json_text.MAX_DEPTH  8
lumberjack.log_handler.json_text.MAX_ITEMS  1000
lumberjack.log_handler.json_text.MAX_VALUES  10000
lumberjack.log_handler.json_text._MAX_BITS  64
lumberjack.log_handler.pipeline._GRACE  0.1
lumberjack.log_handler.pipeline._JUST_NOW  1.0
lumberjack.log_handler.worker._RETRY  1.0
lumberjack.relay._IN_A_ROW  64
lumberjack.relay._List.position  0
lumberjack.relay._List.taken  False
lumberjack.relay.EventRelay._offer(first)  False
lumberjack.server.acknowledgements._KEEPALIVE  b'2A\x00\x00\x00\x00'
lumberjack.server.acknowledgements._BACKLOG  4 * 2**10
lumberjack.server.batch._SLICE  256 * 2**10
lumberjack.server.batch._PER_EVENT  64
lumberjack.server.bytes_in._READ_SIZE  64 * 2**10
lumberjack.server.bytes_in._SMALL_STEP  32 * 2**10
lumberjack.server.bytes_in._MAX_FLUSH_DELAYS  20
lumberjack.server.config.LumberjackConfig.max_waiting_batches  2, at least 1
lumberjack.server.config.LumberjackConfig.max_batches  256, at least 1
lumberjack.server.config.LumberjackConfig.max_held_size  256 * 2**20, at least 1
lumberjack.server.config.LumberjackConfig.max_incoming_size  256 * 2**20, at least 1
lumberjack.server.config.LumberjackConfig.first_byte_timeout  10.0, greater than 0
lumberjack.server.config.LumberjackConfig.progress_timeout  30.0, greater than 0
lumberjack.server.config.LumberjackConfig.batch_timeout  300.0, greater than 0
lumberjack.server.config.LumberjackConfig.idle_timeout  greater than 0
lumberjack.server.config.LumberjackConfig.flush_delay  0.5, greater than 0
lumberjack.server.config.LumberjackConfig.keepalive_interval  5.0, greater than 0
lumberjack.server.config.LumberjackConfig.send_timeout  30.0, greater than 0
lumberjack.server.config.LumberjackConfig.close_timeout  2.0, greater than 0
lumberjack.server.incoming_memory._SMALL  64 * 2**10
lumberjack.server.incoming_memory._LITTLE  32 * 2**10
lumberjack.server.incoming_memory._PATIENCE  1.0
lumberjack.server.incoming_memory._PART  64
lumberjack.server.incoming_memory._MOST_PARTS  16
lumberjack.server.incoming_memory._LONG_TURN  2.0
lumberjack.server.receiver._HANDLING  4
lumberjack.server.receiver._LAST_MOMENT  1.0
lumberjack.server.receiver.Totals.batches  0
lumberjack.server.receiver.Totals.events  0
lumberjack.server.receiver.Totals.acknowledged  0
lumberjack.server.turns._QUANTUM  4 * 2**20
lumberjack.server.turns._SMALL  64 * 2**10
lumberjack.server.turns._SMALL_ONES  64
lumberjack.stored._FRAMES  lumberjack-1: 1, lumberjack-2: 2
lumberjack.stored._COMPRESSED  lumberjack-1-zlib: 1, lumberjack-2-zlib: 2
lumberjack.stored._ANY_SIZE.max_window  4294967295
lumberjack.stored._ANY_SIZE.max_event_size  4294967295
lumberjack.stored._ANY_SIZE.max_compressed_size  4294967295
lumberjack.stored._ANY_SIZE.max_inflated_size  4294967295
lumberjack.stored._ANY_SIZE.max_compressed_frames  4294967295
lumberjack.stored._ANY_SIZE.max_compressed_windows  4294967295
lumberjack.stored._ANY_SIZE.max_batch_size  4294967295
lumberjack.stored._ANY_SIZE.max_pairs  4294967295
lumberjack.stored._ANY_SIZE.max_batch_pairs  4294967295
lumberjack.stored.StoredEvents.raw  hidden
lumberjack.stream_source.ship_stream(batch_size)  2 * 2**10
lumberjack.stream_source.ship_stream(linger)  1.0
lumberjack.stream_source.ship_stream(in_flight)  2
lumberjack.wire.acks._KEEPALIVE  b'2A\x00\x00\x00\x00'
lumberjack.wire.acks.AckReader.__init__(version)  2
lumberjack.wire.acks.AckProgress.__init__(first_sequence)  1
lumberjack.wire.batches._BATCH_COST  512
lumberjack.wire.batches._EVENT_COST  64
lumberjack.wire.compression._LEVELS  1: 1, 2: 2, 3: 2
lumberjack.wire.decoder.STEP  1 * 2**20
lumberjack.wire.decoder._FRAME_WORK  2 * 2**10
lumberjack.wire.decoder._EVENT_WORK  64
lumberjack.wire.decoder._PAIR_WORK  256
lumberjack.wire.decoder._TLS  b'\x16\x03'
lumberjack.wire.decoder.FrameDecoder.__init__(inside)  0
lumberjack.wire.decoder.FrameDecoder.feed(position)  0
lumberjack.wire.decoder.FrameDecoder.feed(step)  1 * 2**20
lumberjack.wire.dump.SHOWN_DATA  32
lumberjack.wire.dump.SHOWN_FRAMES  1000
lumberjack.wire.dump.SHOWN_INFLATED  1 * 2**20
lumberjack.wire.encoder.DEFAULT_COMPRESSION_LEVEL  3
lumberjack.wire.encoder._DATA_HEAD  b'1D'
lumberjack.wire.encoder.encode_batch(version)  2
lumberjack.wire.encoder.encode_batch(compression_level)  3
lumberjack.wire.encoder.encode_batch(first_sequence)  1
lumberjack.wire.encoder.event_frames(first_sequence)  1
lumberjack.wire.events._SLICE_COUNT  64
lumberjack.wire.events._SLICE_SIZE  64 * 2**10
lumberjack.wire.frames.WINDOW  87
lumberjack.wire.frames.DATA  68
lumberjack.wire.frames.JSON  74
lumberjack.wire.frames.COMPRESSED  67
lumberjack.wire.frames.ACK  65
lumberjack.wire.frames.VERSIONS  49: 1, 50: 2
lumberjack.wire.frames.MAX_U32  4294967295
lumberjack.wire.frames.decode_first(position)  0
lumberjack.wire.inflate.STEP  64 * 2**10
lumberjack.wire.inflate._SLICE  64 * 2**10
lumberjack.wire.limits._U32  4294967295
lumberjack.wire.limits._size  from 1 to 4294967295
lumberjack.wire.limits.LumberjackLimits.max_window  64 * 2**10, from 1 to 4294967295
lumberjack.wire.limits.LumberjackLimits.max_event_size  16 * 2**20, from 1 to 4294967295
lumberjack.wire.limits.LumberjackLimits.max_compressed_size  32 * 2**20, from 1 to 4294967295
lumberjack.wire.limits.LumberjackLimits.max_inflated_size  64 * 2**20, from 1 to 4294967295
lumberjack.wire.limits.LumberjackLimits.max_compressed_frames  128 * 2**10, from 1 to 4294967295
lumberjack.wire.limits.LumberjackLimits.max_compressed_windows  4 * 2**10, from 1 to 4294967295
lumberjack.wire.limits.LumberjackLimits.max_batch_size  64 * 2**20, from 1 to 4294967295
lumberjack.wire.limits.LumberjackLimits.max_pairs  1 * 2**10, from 1 to 4294967295
lumberjack.wire.limits.LumberjackLimits.max_batch_pairs  512 * 2**10, from 1 to 4294967295
lumberjack.wire.reader.BatchReader.feed(step)  1 * 2**20
lumberjack.wire.sequences.MAX_SEQUENCE  4294967295
spool.ages._TOLERANCE  1.0
spool.ages._MAX_STEPS  256
spool.batch.ROW_COST  64
spool.batch.MAX_COUNT  2147483647
spool.batch.MAX_ENCODING  64
spool.batch.MAX_FACTS  64 * 2**10
spool.batch.Batch.count  from 1 to 2147483647
spool.batch.Batch.data  hidden
spool.batch.StoredBatch.data  hidden
spool.config.Retention.max_size  at least 0
spool.config.Retention.max_age  greater than 0 and finite
spool.config.SpoolConfig.max_group_batches  256, at least 1
spool.config.SpoolConfig.max_group_size  8 * 2**20, at least 1
spool.config.SpoolConfig.max_trim_batches  256, at least 1
spool.config.SpoolConfig.max_trim_size  16 * 2**20, at least 1
spool.config.SpoolConfig.max_read_batches  64, at least 1
spool.config.SpoolConfig.max_read_size  4 * 2**20, at least 1
spool.config.SpoolConfig.max_read_threads  4, at least 1
spool.config.SpoolConfig.checkpoint_size  16 * 2**20, at least 1
spool.config.SpoolConfig.reserve_size  8 * 2**20, at least 1
spool.config.SpoolConfig.group_readers  False
spool.directory.prepare(group)  False
spool.extent._MAX_OFFSET  9223372036854775807
spool.flusher._LONGEST_PERIOD  30.0
spool.flusher._SEEN_PERIOD  60.0
spool.instances._MAX_NAME  200
spool.instances.ConsumerInstance.absent  0.0
spool.requests._Request.over  no parameter
spool.requests._Request.error  no parameter
spool.requests.Append.first  -1, no parameter
spool.requests.Append.given_up  False, no parameter
spool.reserve._RETRY  10.0
spool.reserve._BLOCK  1 * 2**20
spool.room._LARGEST_SHARE  8
spool.room._PARTS  4
spool.room._MOST_PAGES  4294967294
spool.schema.APPLICATION  1381199920
spool.schema.VERSION  2
spool.schema.PAGE_SIZE  16 * 2**10
spool.schema.WAIT  5.0
spool.schema._LEASE_OF_VERSION_1  3600.0
spool.schema.connect_writer(group)  False
spool.spool._DEFAULT_CONFIG.retry.max_delay  2.0
spool.spool._LARGEST  900000000
spool.spool.Spool.read(follow)  False
spool.spool.Spool.commit(absent)  0.0
spool.spool.open_spool(max_size)  1024 * 2**20
spool.writer._MOVED  1032
spool.writer.Writer._store(tight)  False
"""


def test_numbers_are_what_was_decided() -> None:
    """A limit, a code on the wire, a version of a file or a default changes only on purpose.

    Most of these numbers bound memory or time that the pages promise, and no other test reaches
    all of them: that would take gigabytes or days. A new number needs a row.
    """
    rows = [
        f"{module.__name__.removeprefix('rsocket_trio.')}.{name}  {value}"
        for module in modules()
        for name, value in numbers(module)
    ]
    assert rows == TABLE.strip().splitlines()


def modules() -> Iterator[ModuleType]:
    for package in PACKAGES:
        for file in sorted((ROOT / "rsocket_trio" / package).rglob("*.py")):
            name = ".".join(file.relative_to(ROOT).with_suffix("").parts)
            yield importlib.import_module(name.removesuffix(".__init__"))


def numbers(module: ModuleType) -> Iterator[tuple[str, str]]:
    """Yield constants, default values and checked ranges, with their texts."""
    assert module.__file__ is not None
    for statement in ast.parse(Path(module.__file__).read_text()).body:
        target: ast.expr | None = None
        if isinstance(statement, ast.AnnAssign):
            target = statement.target
        elif isinstance(statement, ast.Assign):
            [target] = statement.targets
        if isinstance(target, ast.Name):
            yield from of_value(target.id, getattr(module, target.id))
    for name, item in vars(module).items():
        if getattr(item, "__module__", None) != module.__name__:
            continue
        if inspect.isclass(item):
            yield from ((f"{name}.{field}", value) for field, value in of_class(item))
        elif inspect.isfunction(function := inspect.unwrap(item)):
            yield from defaults(name, function)


def of_class(kind: type) -> Iterator[tuple[str, str]]:
    for field in attrs.fields(kind) if attrs.has(kind) else ():
        if not field.inherited and (text := of_field(field)):
            yield field.name, text
    for name, item in vars(kind).items():
        function = getattr(item, "__func__", item)
        if inspect.isfunction(function) and function.__module__ == kind.__module__:
            yield from defaults(name, function)


def of_field(field: attrs.Attribute[Any]) -> str:
    words = [] if field.default is None else [text_of(field.default)]
    words += [text_of(field.validator), "" if field.repr else "hidden"]
    words += ["" if field.init else "no parameter"]
    return ", ".join(filter(None, words))


def defaults(name: str, function: Any) -> Iterator[tuple[str, str]]:
    if name.startswith("__attrs") or function.__code__.co_filename.startswith("<attrs"):
        return
    for parameter in inspect.signature(function).parameters.values():
        if isinstance(parameter.default, int | float):
            yield f"{name}({parameter.name})", text_of(parameter.default)


def of_value(name: str, value: object) -> Iterator[tuple[str, str]]:
    if attrs.has(type(value)):  # what differs from the defaults
        for field in attrs.fields(type(value)):
            mine = getattr(value, field.name, field.default)
            if mine != field.default:
                yield from of_value(f"{name}.{field.name}", mine)
    elif text := text_of(value):
        yield name, text


def text_of(value: object) -> str:
    """Return the text of a number, or of something with numbers; empty if there are none."""
    match value:
        case int() if value and value % 2**10 == 0:
            power = 20 if value % 2**20 == 0 else 10
            return f"{value // 2**power} * 2**{power}"
        case int() | float() | bytes():
            return repr(value)
        case dict():
            texts = {key: text_of(one) for key, one in value.items()}
            return ", ".join(f"{key}: {text}" for key, text in texts.items() if text)
        case FunctionType() if value.__qualname__.startswith(CHECKS):
            found = inspect.getclosurevars(value).nonlocals
            if "check" in found:  # of what may be missing
                return text_of(found["check"])
            return str(found.get("text", ""))
        case _:
            return ""
