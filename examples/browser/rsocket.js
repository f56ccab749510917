// RSocket 1.0 over the WebSocket of the browser. It has the parts that a page needs: requests,
// streams with demand, fire-and-forget. Routes are composite metadata, data is JSON.
//
//   const service = await connect('ws://127.0.0.1:7879/rsocket');
//   const facts = await service.requestResponse('host.facts');
//   for await (const load of service.requestStream('host.load', {every: 1}, 8)) { ... }
//
// `connect(uri, {token})` sends a bearer token in SETUP. An error of the server has its `code`.

const SETUP = 0x01, KEEPALIVE = 0x03, REQUEST_RESPONSE = 0x04, REQUEST_FNF = 0x05;
const REQUEST_STREAM = 0x06, REQUEST_N = 0x08, CANCEL = 0x09, PAYLOAD = 0x0a, ERROR = 0x0b;
const METADATA = 0x100, FOLLOWS = 0x80, RESPOND = 0x80, COMPLETE = 0x40, NEXT = 0x20;
const ROUTING = 0x7e, AUTHENTICATION = 0x7c, BEARER = 0x81;
const KEEPALIVE_MS = 20000, LIFETIME_MS = 90000;

const utf8 = new TextEncoder();
const bytes = (...parts) => new Uint8Array(parts.flatMap((part) => [...part]));
const number = (value, size) => // big-endian
  Array.from({length: size}, (_, i) => Math.floor(value / 2 ** (8 * (size - 1 - i))) % 256);
const sized = (text, size) => [...number(utf8.encode(text).length, size), ...utf8.encode(text)];
const frame = (streamId, type, flags, ...parts) =>
  bytes(number(streamId, 4), number((type << 10) | flags, 2), ...parts);

// An entry of composite metadata, with the length of all metadata in front.
function metadata(id, content) {
  return [...number(content.length + 4, 3), 0x80 | id, ...number(content.length, 3), ...content];
}

function request(streamId, type, route, data, ...fields) {
  const encoded = data === undefined ? [] : utf8.encode(JSON.stringify(data));
  return frame(streamId, type, METADATA, ...fields, metadata(ROUTING, sized(route, 1)), encoded);
}

export async function connect(uri, {token} = {}) {
  const socket = new WebSocket(uri);
  socket.binaryType = 'arraybuffer';
  await new Promise((resolve, reject) => {
    socket.onopen = resolve;
    socket.onclose = () => reject(new Error(`cannot connect to ${uri}`));
  });
  return new Connection(socket, token);
}

class Connection {
  #socket;
  #streams = new Map();
  #nextId = 1; // a client's stream ids are odd
  #alive;

  constructor(socket, token) {
    this.#socket = socket;
    socket.onmessage = (event) => this.#receive(event.data);
    socket.onclose = () => this.#end(new Error('the connection was closed'));
    const auth = token && metadata(AUTHENTICATION, [BEARER, ...utf8.encode(token)]);
    this.send(frame(0, SETUP, auth ? METADATA : 0, [0, 1, 0, 0], number(KEEPALIVE_MS, 4),
      number(LIFETIME_MS, 4), sized('message/x.rsocket.composite-metadata.v0', 1),
      sized('application/json', 1), auth ?? []));
    const ping = frame(0, KEEPALIVE, RESPOND, number(0, 8));
    this.#alive = setInterval(() => this.send(ping), KEEPALIVE_MS);
  }

  async requestResponse(route, data) {
    for await (const item of this.#open(REQUEST_RESPONSE, route, data, 0)) {
      return item;
    }
  }

  close() {
    this.#end(new Error('the connection was closed here'));
  }

  fireAndForget(route, data) {
    this.send(request(this.#newId(), REQUEST_FNF, route, data));
  }

  // Returns an async iterable. The server may send at most `prefetch` items in advance.
  requestStream(route, data, prefetch = 16) {
    return this.#open(REQUEST_STREAM, route, data, prefetch);
  }

  send(encoded) {
    if (this.#socket.readyState === WebSocket.OPEN) this.#socket.send(encoded);
  }

  #newId() {
    return (this.#nextId += 2) - 2;
  }

  #open(type, route, data, prefetch) {
    const id = this.#newId();
    const stream = new Stream(this, id, prefetch, () => this.#streams.delete(id));
    this.#streams.set(id, stream);
    this.send(request(id, type, route, data, prefetch ? number(prefetch, 4) : []));
    return stream;
  }

  #receive(buffer) {
    const view = new DataView(buffer);
    const streamId = view.getUint32(0);
    const type = view.getUint16(4) >> 10, flags = view.getUint16(4) & 0x3ff;
    if (type === KEEPALIVE && flags & RESPOND) {
      this.send(frame(0, KEEPALIVE, 0, number(0, 8), new Uint8Array(buffer, 14)));
    } else if (type === ERROR) {
      const error = new Error(new TextDecoder().decode(new Uint8Array(buffer, 10)));
      error.code = view.getUint32(6);
      if (streamId) this.#streams.get(streamId)?.end(error);
      else this.#end(error);
    } else if (type === PAYLOAD) {
      const skip = flags & METADATA ? 3 + view.getUint8(6) * 65536 + view.getUint16(7) : 0;
      this.#streams.get(streamId)?.receive(flags, new Uint8Array(buffer, 6 + skip));
    }
  }

  #end(error) {
    clearInterval(this.#alive);
    for (const stream of [...this.#streams.values()]) stream.end(error);
    this.#socket.close();
  }
}

class Stream {
  received = 0;
  granted;
  #items = [];
  #fragments = [];
  #used = 0; // items read since the last REQUEST_N
  #ended = false;
  #error;
  #wake = () => {};

  constructor(connection, id, prefetch, forget) {
    Object.assign(this, {connection, id, prefetch, forget, granted: prefetch});
  }

  receive(flags, data) {
    this.#fragments.push(data);
    if (flags & FOLLOWS) return;
    const whole = bytes(...this.#fragments);
    this.#fragments = [];
    if (flags & NEXT) {
      this.received += 1;
      this.#items.push(JSON.parse(new TextDecoder().decode(whole)));
    }
    if (flags & COMPLETE) this.end();
    this.#wake();
  }

  end(error) {
    this.#ended = true;
    this.#error = error;
    this.forget();
    this.#wake();
  }

  [Symbol.asyncIterator]() {
    return this;
  }

  async next() {
    while (!this.#items.length && !this.#ended) {
      await new Promise((resolve) => (this.#wake = resolve));
    }
    if (!this.#items.length) {
      if (this.#error) throw this.#error;
      return {done: true, value: undefined};
    }
    this.#used += 1;
    if (!this.#ended && this.prefetch && this.#used >= this.prefetch * 0.75) {
      this.connection.send(frame(this.id, REQUEST_N, 0, number(this.#used, 4)));
      this.granted += this.#used;
      this.#used = 0;
    }
    return {done: false, value: this.#items.shift()};
  }

  // `break` in a `for await` loop calls this. It tells the server to stop.
  async return() {
    if (!this.#ended) this.connection.send(frame(this.id, CANCEL, 0));
    this.end();
    return {done: true, value: undefined};
  }
}
