"""A tiny peer of rsio/0 that keeps all rules, and breaks any one of them when it is told to.

It shares no code with `rsocket_trio.rsio`. It shows that the checks accept a correct peer and
notice a wrong one: each text given to `Reference.wrong` is a fault, and the table in
`tests.rsio.conformance.mutants` has them all.
"""

from __future__ import annotations

import math
import mmap
from collections import Counter, deque
from urllib.parse import parse_qs, unquote

import attrs
import trio

from rsocket_trio.testing.rsio_conformance import octets
from rsocket_trio.testing.rsio_conformance.parser import Malformed, Message, Parser

OWN = 321
"""The id of an extension that the reference lists, and does not have."""
LIMIT = 16 << 20
PART = 16_384
CAP = 1024
WRITE = 65_536


class Refuse(Exception):
    """The peer broke a rule of the connection."""


class OtherVersion(Exception):
    """The peer has another version."""


class Ended(Exception):
    """The connection is over."""


@attrs.define
class Shared:
    """What all connections of an implementation count together, by fixture."""

    current: Counter = attrs.field(factory=Counter)
    total: Counter = attrs.field(factory=Counter)
    failed: Counter = attrs.field(factory=Counter)
    kept: set = attrs.field(factory=set)

    def began(self, name):
        if name == "subscribers":
            return
        self.current[name] += 1
        self.total[name] += 1

    def ended(self, name, *, failed=False):
        if name == "subscribers":
            return
        self.current[name] -= 1
        self.failed[name] += failed

    def text(self, name):
        counters = (self.current, self.total, self.failed)
        return " ".join(str(each[name] if name else each.total()) for each in counters)


@attrs.define(eq=False)
class Publication:
    """A stream that the peer has subscribed to."""

    id: int
    name: str
    credit: int = 0
    size: int = 0
    ready: deque = attrs.field(factory=deque)
    source: object = None
    end: str | None = None
    used: int = 0
    upstream: object = None
    sent: int = 0
    old: int = 0
    left: int = 0
    query: dict = attrs.field(factory=dict)
    held: bytes | None = None

    def fill(self, count=1):
        """Take elements out of the source until some are ready, or it ends."""
        while self.source is not None and len(self.ready) < count:
            try:
                self.ready.append(next(self.source))
            except StopIteration:
                self.source = None
                self.end = self.end or ""


@attrs.define(eq=False)
class Subscription:
    """A stream that we have subscribed to, for a fixture that reflects it."""

    id: int
    name: str
    demand: int
    back: Publication
    size: int | None = None
    parts: dict = attrs.field(factory=dict)
    taken: int = 0
    cancelled: bool = False


class Reference:
    """One connection."""

    def __init__(self, stream, role, shared, fault=""):
        self.stream = stream
        self.role = role
        self.shared = shared
        self.fault = fault
        self.publications = {}
        self.subscriptions = {}
        self.control = deque()
        self.control_size = 0
        self.greeted = self.said_hello = self.said_goodbye = self.leaving = False
        self.other_layout = False
        self.used_ids = set()
        self.hoarded = []
        self.cancelled_ids = set()
        self.wake = trio.Event()
        self.idle = True
        self.next_id = 0
        limit = 1 << 63 if self.wrong("waits for what a length announces") else LIMIT
        self.parser = Parser(self.size_of, limit=limit)
        self.nursery = None

    def wrong(self, fault):
        return self.fault == fault

    def size_of(self, subscriber):
        sub = self.subscriptions.get(subscriber)
        if sub is None or sub.size is None:
            if self.wrong("takes elements before subscribed") and sub is not None:
                return 0
            if self.wrong("takes elements of unknown ids"):
                return 0
            raise Refuse("no subscription")
        return sub.size

    # The connection.

    async def run(self):
        try:
            async with trio.open_nursery() as self.nursery:
                if self.wrong("subscribes before it is greeted"):
                    self.hello()
                    self.put(octets.subscribe("x", 0, 1))
                if self.role == "client" or self.wrong("is of two versions and greets first"):
                    self.hello()
                self.nursery.start_soon(self.reader)
                self.nursery.start_soon(self.writer)
                self.nursery.start_soon(self.deadline)
                if self.wrong("buffers what the peer does not read"):
                    self.nursery.start_soon(self.hoard)
        except* (
            Ended,
            trio.BrokenResourceError,
            trio.ClosedResourceError,
        ):  # it has said goodbye, or the other end is gone
            pass
        finally:
            self.freed()
            await trio.aclose_forcefully(self.stream)

    def freed(self):
        if self.wrong("forgets streams when the connection ends"):
            return
        for pub in list(self.publications.values()):
            self.shared.ended(pub.name)
        for sub in list(self.subscriptions.values()):
            if not sub.cancelled:
                failed = not self.wrong("hides the end of the connection from subscribers")
                self.shared.ended(f"reflect:{sub.name}", failed=failed)
        self.publications.clear()
        self.subscriptions.clear()

    async def hoard(self):
        kept = []
        while len(kept) < 64:
            # New pages: bytes could get memory that earlier tests of this process have freed.
            kept.append(mmap.mmap(-1, 1 << 20))
            kept[-1].write(b"x" * (1 << 20))
            await trio.sleep(0.01)
        await trio.sleep(math.inf)

    async def deadline(self):
        if self.wrong("waits for ever for a hello"):
            return
        await trio.sleep(10)
        if not self.greeted:
            raise Ended

    async def reader(self):
        while True:
            while self.control_size > WRITE // 4 and not self.wrong("queues answers without limit"):
                await trio.sleep(0.01)
            while not self.idle and self.wrong("does not read while it writes"):
                await trio.sleep(0.01)
            data = await self.stream.receive_some(WRITE)
            if not data:
                if self.wrong("ignores the end of the connection"):
                    await trio.sleep(math.inf)
                raise Ended
            if self.wrong("takes one segment for one message"):
                data = data if len(data) > 3 else b""
            if not self.leaving:
                self.parser.feed(data)
            try:
                while not self.leaving and (message := self.next()) is not None:
                    self.handle(message)
                    if self.wrong("takes only the first message of a segment"):
                        self.parser = Parser(self.size_of)
                    if message.number == 0 and message.name == "clientHello" and self.discards():
                        self.parser = Parser(self.size_of)
            except Malformed as error:
                if self.accepts(error):
                    continue
                await self.refuse(f"protocol error: {error}")
            except Refuse as refused:
                await self.refuse(f"protocol error: {refused}")
            except OtherVersion as version:
                await self.refuse(f"unsupported version {version}")

    def discards(self):
        return self.wrong("discards what follows the hello at once")

    def accepts(self, error):
        text = str(error)
        for fault, part in (
            ("ignores unknown types", "no message of type"),
            ("accepts long varints", "varint"),
            ("accepts names that are not UTF-8", "UTF-8"),
            ("accepts a wrong varint or name", ""),
        ):
            if self.wrong(fault) and part in text:
                self.parser.feed(b"")
                self.parser._start = len(self.parser._buffer)
                return True
        return False

    def next(self):
        rest = self.parser.rest[:1]
        if not self.greeted and rest:
            first = b"\x01" if self.role == "server" else b"\x02"
            if rest != first and not self.wrong("needs no hello"):
                raise Refuse("hello expected")
            version = self.parser.rest[1:2]
            if rest == first and version and version != b"\0":
                if self.wrong("obeys what follows another version"):
                    self.shared.began("count")
                several = self.wrong("is of two versions and greets first")
                if not self.wrong("accepts any version") and not several:
                    raise OtherVersion(version[0])
        elif rest and 0x40 <= rest[0] < 0x80 and not self.wrong("ignores unknown types"):
            raise Refuse("extension")
        return self.parser.next()

    async def refuse(self, reason):
        if self.wrong("closes without goodbye"):
            raise Ended
        if not self.said_hello and not self.wrong("says goodbye without a hello"):
            self.hello()
        self.bye(reason)
        self.leaving = True
        self.wake.set()

    def hello(self):
        version = 0
        if self.wrong("is of two versions and greets first") and self.greeted:
            return
        self.said_hello = True
        if self.wrong("has version 1"):
            version = 1
        if self.wrong("greets as the other role"):
            self.put(octets.client_hello() if self.role == "server" else octets.server_hello())
        elif not self.wrong("says no hello"):
            make = octets.client_hello if self.role == "client" else octets.server_hello
            self.put(make(version, (OWN,)))
            if self.wrong("says hello twice"):
                self.put(make(version))

    def bye(self, reason):
        if self.said_goodbye:
            return
        self.said_goodbye = True
        if self.wrong("fails streams at goodbye"):
            for pub in self.publications.values():
                self.put(octets.error(pub.id, "goodbye"))
        self.put(octets.goodbye(reason))
        if self.wrong("says goodbye twice"):
            self.put(octets.goodbye(reason))
        if self.wrong("completes streams after goodbye"):
            for pub in self.publications.values():
                self.put(octets.complete(pub.id))
        if not self.wrong("forgets streams when the connection ends"):
            self.freed()

    def put(self, data):
        self.control.append(data)
        self.control_size += len(data)
        if self.wrong("queues answers without limit"):
            self.hoarded.append(b"x" * (1 << 16))
        self.wake.set()

    # Writing.

    async def writer(self):
        while True:
            out = bytearray()
            while self.control and len(out) < WRITE:
                data = self.control.popleft()
                self.control_size -= len(data)
                out += data
            for pub in self.in_turn():
                if len(out) >= WRITE:
                    break
                self.pump(pub, out)
            # The last one is the first in the next turn.
            rotates = out and not self.wrong("waits for the first stream")
            for key in list(self.publications)[: 1 if rotates else 0]:
                self.publications[key] = self.publications.pop(key)
            if out:
                self.idle = False
                await self.send(bytes(out))
                self.idle = True
            elif self.leaving:
                raise Ended
            elif not self.control:
                self.wake = trio.Event()
                if not self.control and not any(map(self.can, self.in_turn())):
                    await self.wake.wait()

    def in_turn(self):
        pubs = list(self.publications.values())
        return pubs[:1] if self.wrong("waits for the first stream") else pubs

    async def send(self, data):
        if self.leaving:
            with trio.move_on_after(1):
                await self.stream.send_all(data)
            return
        await self.stream.send_all(data)

    def can(self, pub):
        pub.fill()
        if pub.end and not pub.used and not pub.credit and self.wrong("fails with demand only"):
            return False
        return (pub.ready and pub.credit) or (not pub.ready and pub.end is not None)

    def pump(self, pub, out):
        for _ in range(64):
            if not self.can(pub) or len(out) >= WRITE:
                break
            if pub.ready:
                out += self.element(pub)
                continue
            out += self.ending(pub)
            break

    def ending(self, pub):
        del self.publications[pub.id]
        self.shared.ended(pub.name)
        message = octets.error(pub.id, pub.end) if pub.end else octets.complete(pub.id)
        if self.wrong("completes instead of failing"):
            message = octets.complete(pub.id)
        if self.wrong("ends twice"):
            message += message
        if self.wrong("sends an element after the end") and not pub.end:
            message += octets.next_sized(pub.id, b"late")
        return message

    def take(self, pub):
        element = pub.ready.popleft()
        if self.wrong("drops high octets"):
            element = bytes(each & 0x7F for each in element)
        if self.wrong("swaps elements") and pub.ready:
            pub.ready.append(element)
            element = pub.ready.popleft()
        pub.used += 1
        if not self.wrong("counts no demand"):
            pub.credit -= 1
        # An element of a subscription that was cancelled is no reason to request from the next one.
        pub.old, was_old = max(0, pub.old - 1), pub.old > 0
        if pub.upstream is not None and not pub.upstream.cancelled and not was_old:
            amount = 5 if self.wrong("requests five for one") else 1
            self.request(pub.upstream, amount)
        return element

    def element(self, pub):
        id_ = 1 if self.wrong("answers to id 1") else pub.id
        if pub.size:
            pub.fill(100)
            count = max(1, min(pub.credit, len(pub.ready), 100))
            if self.wrong("packs more than the demand"):
                count = min(len(pub.ready), 10)
            if self.wrong("counts a pack as one") and count > 1:
                pub.credit += count - 1
            elements = [self.take(pub) for _ in range(count)]
            if self.wrong("gives fixed-size elements a length"):
                return octets.next_sized(id_, elements[0])
            if count == 1:
                return octets.next_fixed(id_, elements[0])
            said = count + 1 if self.wrong("packs one less than it says") else count
            return octets.packed(id_, said, b"".join(elements))
        element = self.take(pub)
        if self.wrong("packs elements of any size") and pub.name == "count":
            return octets.packed(id_, 1, element)
        if self.other_layout:
            return octets.next_fixed(id_, element)
        if len(element) <= PART:
            return octets.next_sized(id_, element)
        parts = [element[at : at + PART] for at in range(0, len(element), PART)]
        if self.wrong("loses a part"):
            del parts[0]
        make = octets.part if self.wrong("sends no last part") else octets.last_part
        head = b"".join(octets.part(id_, pub.used, each) for each in parts[:-1])
        if self.wrong("sends the last part alone"):
            head = b""
        if self.wrong("numbers each part anew"):
            head = b"".join(octets.part(id_, 100 + n, each) for n, each in enumerate(parts[:-1]))
        return head + make(id_, pub.used, parts[-1])

    # Reading.

    def handle(self, message):
        name = message.name
        if name in {"clientHello", "serverHello"}:
            if self.greeted and not self.wrong("accepts a second hello"):
                raise Refuse("second hello")
            self.greeted = True
            if not self.said_hello:
                self.hello()
            other = "gives elements another layout if an extension is listed"
            own = "gives elements another layout if its own extension is listed"
            self.other_layout = (message.numbers and self.wrong(other)) or (
                OWN in message.numbers and self.wrong(own)
            )
            if message.numbers and self.wrong("uses extensions that only the peer lists"):
                self.put(octets.extension(0x41, b"hi"))
            if self.wrong("sends extension messages"):
                self.put(octets.extension(0x40, b"hi"))
            return
        if name == "goodbye":
            self.leave(message)
        elif name in {"subscribe", "request", "cancel"}:
            getattr(self, f"on_{name}")(message)
        else:
            self.on_element(message)

    def leave(self, message):
        if self.wrong("reads reasons strictly") and "\ufffd" in message.text:
            raise Refuse("UTF-8")
        if self.wrong("does not answer goodbye"):
            raise Ended
        self.bye("")
        if self.wrong("stays after goodbye"):
            return
        self.leaving = True
        self.wake.set()

    def on_subscribe(self, message):
        old = self.publications.get(message.id)
        if self.wrong("keeps one table of ids for both directions"):
            old = old or self.subscriptions.get(message.id)
        if message.id in self.used_ids and self.wrong("refuses ids that were used before"):
            raise Refuse("used before")
        self.used_ids.add(message.id)
        if self.wrong("keeps streams for the next connection") and message.id in self.shared.kept:
            raise Refuse("in use by another connection")
        self.shared.kept.add(message.id)
        if old is not None:
            if self.wrong("replaces a stream that has its id"):
                self.publications.pop(message.id)
            else:
                raise Refuse(f"id {message.id} is in use")
        pub = Publication(message.id, message.text.partition("?")[0], message.number)
        if self.wrong("has no initial demand"):
            pub.credit = 0
        if len(self.publications) >= CAP:
            if self.wrong("leaves when there are too many subscriptions"):
                raise Refuse("too many")
            if not self.wrong("has no cap"):
                self.put(octets.subscribed(pub.id) + octets.error(pub.id, "too many"))
                return
        found = self.open(pub, message.text)
        first = octets.subscribed(pub.id, pub.size)
        if not self.wrong("sends no subscribed") and not (
            not found and self.wrong("sends no subscribed for unknown names")
        ):
            self.put(first)
        if message.id in self.cancelled_ids:
            self.put(octets.next_sized(message.id, b"old"))
        if self.wrong("sends subscribed twice"):
            self.put(first)
        if found:
            self.shared.began(pub.name)
            self.publications[pub.id] = pub
            self.wake.set()
        else:
            self.put(octets.error(pub.id, "no such publisher"))
        if self.wrong("sends an element without demand") and not pub.credit:
            self.put(octets.next_sized(pub.id, b"0"))

    def on_request(self, message):
        pub = self.publications.get(message.id)
        if pub is None:
            if self.wrong("refuses late requests"):
                raise Refuse("unknown id")
            if self.wrong("answers late requests"):
                self.put(octets.complete(message.id))
            return
        if not message.number:
            if self.wrong("refuses a request of 0"):
                raise Refuse("request of 0")
            if not self.wrong("ignores a request of 0"):
                pub.end, pub.source = "rule 3.9: the demand must be positive", None
                pub.ready.clear()
        if self.wrong("replaces the demand"):
            pub.credit = 0
        pub.credit += message.number
        if self.wrong("adds one to each request"):
            pub.credit += 1
        self.wake.set()

    def on_cancel(self, message):
        pub = self.publications.get(message.id)
        if pub is None:
            if self.wrong("refuses late cancels"):
                raise Refuse("unknown id")
            if self.wrong("answers late cancels"):
                self.put(octets.complete(message.id))
            return
        if self.wrong("ignores cancel") and pub.name == "big":
            return
        if self.wrong("does not acknowledge cancel"):
            del self.publications[pub.id]
            self.shared.ended(pub.name)
            return
        self.stop(pub)
        if self.wrong("keeps elements of a cancelled stream"):
            return
        pub.ready.clear()
        pub.source, pub.end = None, "cancelled" if self.wrong("answers cancel by onError") else ""
        # At once, as a new subscribe with the same id may follow.
        out = self.ending(pub)
        self.put(out)
        if self.wrong("sends elements after the acknowledgement"):
            self.cancelled_ids.add(pub.id)

    def stop(self, pub):
        if pub.upstream is not None and not pub.upstream.cancelled:
            self.cancel(pub.upstream)

    # Publishers.

    def open(self, pub, name):
        query = {key: values[0] for key, values in parse_qs(name.partition("?")[2]).items()}
        n = int(query.get("n", 1 << 62))
        bytes_ = int(query.get("bytes", 1 << 20))
        if pub.name in {"count", "ticks"}:
            pub.source = (b"%d" % number for number in range(n))
        elif pub.name == "forever":
            pub.source = iter(lambda: b"a", None)
        elif pub.name == "empty":
            pub.end = ""
        elif pub.name == "fail":
            pub.source = (b"%d" % number for number in range(int(query.get("after", 0))))
            pub.end = "it fails"
        elif pub.name == "ints":
            pub.size = int(query.get("size", 4))
            count = min(n, 1 << 20) if "n" in query else 5
            pub.source = (number.to_bytes(pub.size, "big") for number in range(1, count + 1))
        elif pub.name == "big":
            pattern = bytes(range(256)) * (bytes_ // 256 + 2)
            pub.source = (pattern[k % 256 : k % 256 + bytes_] for k in range(n))
        elif pub.name == "slow":
            pub.size = int(query.get("size", 0))
            self.nursery.start_soon(self.tick, pub, int(query["ms"]) / 1000, n)
        elif pub.name == "echo-name":
            text = unquote(name) if self.wrong("changes names") else name
            pub.ready.append(text.encode())
            pub.end = ""
        elif pub.name == "subscribers":
            pub.ready.append(self.shared.text(query.get("of", "")).encode())
            pub.end = ""
        elif pub.name == "goodbye":
            self.nursery.start_soon(self.say_goodbye, query.get("reason", ""))
        elif pub.name == "reflect":
            if self.wrong("does not subscribe"):
                return True
            self.upstream(pub, query)
        else:
            return pub.name == "never"
        return True

    async def tick(self, pub, seconds, count):
        held = []
        for number in range(1, count + 1):
            await trio.sleep(seconds)
            held.append(number.to_bytes(pub.size or 4, "big"))
            if self.wrong("waits for a whole pack") and len(held) < 4 and number < count:
                continue
            pub.ready += held
            held.clear()
            if number == count:
                pub.end = ""
            self.wake.set()

    async def say_goodbye(self, reason):
        self.bye("bye" if self.wrong("changes the reason") else reason)
        if self.wrong("does not wait for the answer"):
            self.leaving = True
            self.wake.set()
        elif not self.wrong("waits for ever for an answer"):
            await trio.sleep(5)
            raise Ended

    # Subscribing: the fixture that reflects.

    def upstream(self, pub, query):
        id_ = 0 if self.wrong("has one id for all") else self.next_id
        self.next_id += 1
        name, demand = query["name"], int(query.get("prefetch", 16))
        pub.left = int(query.get("cancel", 1)) if "take" in query else 0
        sub = pub.upstream = Subscription(id_, name, demand, pub)
        pub.query = query
        pub.old = len(pub.ready)
        self.shared.began(f"reflect:{name}")
        self.subscriptions[id_] = sub
        self.put(octets.subscribe(name, id_, demand))
        if self.wrong("requests for the old stream") and pub.sent:
            self.put(octets.request(id_, 2))

    def request(self, sub, number):
        sub.demand += number
        self.put(octets.request(sub.id, number))

    def cancel(self, sub):
        sub.cancelled = True
        self.shared.ended(f"reflect:{sub.name}")
        self.put(octets.cancel(sub.id))

    def on_element(self, message: Message):
        sub = self.subscriptions.get(message.id)
        if sub is None:
            if self.wrong("takes elements of unknown ids"):
                return
            raise Refuse("unknown id")
        name = message.name
        if name == "subscribed":
            if sub.size is not None and not self.wrong("takes a second subscribed"):
                raise Refuse("second subscribed")
            sub.size = message.number
            return
        if sub.size is None and not self.wrong("takes elements before subscribed"):
            raise Refuse("not subscribed")
        if name in {"onComplete", "onError"}:
            self.upstream_ended(sub, message)
            return
        if name == "onNext":
            self.spend(sub, 1)
            self.deliver(sub, message.data)
        elif name == "onNextPacked":
            if self.wrong("takes elements before it counts them"):
                for at in range(0, len(message.data), sub.size):
                    self.put(octets.next_sized(sub.back.id, message.data[at : at + sub.size]))
            self.spend(sub, message.number)
            for at in range(0, len(message.data), sub.size):
                self.deliver(sub, message.data[at : at + sub.size])
                if self.wrong("takes one element of a pack"):
                    break
        else:
            self.on_part(sub, message)

    def spend(self, sub, count):
        if count > sub.demand and not self.wrong("takes elements without demand"):
            raise Refuse("more elements than the demand")
        sub.demand -= count

    def on_part(self, sub, message):
        if not message.data and self.wrong("drops empty parts"):
            return
        key = 0 if self.wrong("joins parts by stream alone") else message.number
        if self.wrong("joins parts by element id alone"):
            self.all_parts = getattr(self, "all_parts", {})
            sub.parts = self.all_parts
        if key not in sub.parts:
            if message.name == "onNextLastPart" and not self.wrong("takes a last part alone"):
                raise Refuse("last part alone")
            if not self.wrong("takes the demand at the last part"):
                self.spend(sub, 1)
        parts = sub.parts.setdefault(key, [])
        if self.wrong("joins parts in reverse"):
            parts.insert(0, message.data)
        else:
            parts.append(message.data)
        if message.name == "onNextPart":
            if self.wrong("delivers each part"):
                self.deliver(sub, message.data)
            return
        del sub.parts[key]
        if self.wrong("remembers element ids"):
            sub.parts[key] = parts
        if self.wrong("takes the demand at the last part"):
            self.spend(sub, 1)
        whole = b"".join(parts)
        if sub.size and len(whole) != sub.size and not self.wrong("takes elements of other sizes"):
            raise Refuse("wrong size")
        if self.wrong("delivers in the order of first parts") and sub.parts:
            sub.back.held = whole
            return
        self.deliver(sub, whole)
        if held := sub.back.held:
            sub.back.held = None
            self.deliver(sub, held)

    def deliver(self, sub, element):
        pub = sub.back
        if sub.cancelled or (not element and self.wrong("drops empty elements")):
            return
        pub.ready.append(element)
        pub.sent += 1
        sub.taken += 1
        self.wake.set()
        if "take" in pub.query and sub.taken == int(pub.query["take"]):
            self.cancel(sub)
            pub.left -= 1
            if pub.left <= 0:
                pub.end = ""
            else:
                left = pub.left
                self.upstream(pub, pub.query)
                pub.left = left

    def upstream_ended(self, sub, message):
        if sub.parts and message.name == "onComplete" and not self.wrong("completes with parts"):
            raise Refuse("an element is not complete")
        if sub.parts and self.wrong("refuses an error with parts"):
            raise Refuse("an element is not complete")
        self.subscriptions.pop(sub.id, None)
        if sub.cancelled:
            return
        self.shared.ended(f"reflect:{sub.name}", failed=message.name == "onError")
        sub.cancelled = True
        sub.back.end = message.text or "error" if message.name == "onError" else ""
        if self.wrong("completes what failed"):
            sub.back.end = ""
        self.wake.set()
