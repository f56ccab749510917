'use strict';
// Bundled into a page: rsocket-js over the browser's own WebSocket. What it got is posted to the
// server of the page as {"response", "held", "stream", "channel"} or {"failure"}; bytes as text.

// rsocket-core takes the Buffer it finds when it is loaded.
globalThis.Buffer = require('buffer/').Buffer;

const {BufferEncoders, RSocketClient} = require('rsocket-core');
const {Flowable} = require('rsocket-flowable');
const RSocketWebSocketClient = require('rsocket-websocket-client').default;

const MIME_TYPE = 'application/octet-stream';

const bytes = (text) => Buffer.from(text);
const text = (field) => (field == null ? null : Buffer.from(field).toString());

function connect(url) {
  const client = new RSocketClient({
    setup: {
      dataMimeType: MIME_TYPE,
      metadataMimeType: MIME_TYPE,
      keepAlive: 20000,
      lifetime: 90000,
    },
    transport: new RSocketWebSocketClient({url}, BufferEncoders),
  });
  return new Promise((onComplete, onError) => client.connect().subscribe({onComplete, onError}));
}

function requestResponse(socket, payload) {
  return new Promise((onComplete, onError) =>
    socket.requestResponse(payload).subscribe({onComplete, onError})
  );
}

// Asks for `first` items, lets `between` look at what came, and asks for the rest.
function collect(flowable, first, between, rest) {
  return new Promise((resolve, reject) => {
    const items = [];
    let subscription;
    flowable.subscribe({
      onSubscribe: (s) => {
        subscription = s;
        s.request(first);
      },
      onNext: (payload) => {
        items.push(text(payload.data));
        if (items.length === first) {
          between(items).then(() => subscription.request(rest), reject);
        }
      },
      onComplete: () => resolve(items),
      onError: reject,
    });
  });
}

async function talk(url) {
  const socket = await connect(url);
  const response = await requestResponse(socket, {data: bytes('hello'), metadata: bytes('meta')});
  let held;
  const stream = await collect(
    socket.requestStream({data: bytes('10')}),
    3,
    async (items) => {
      // Had more been sent, it would be here before this answer.
      await requestResponse(socket, {data: bytes('behind')});
      held = items.length;
    },
    7
  );
  const source = Flowable.just(...['a', 'b', 'c', 'd'].map((item) => ({data: bytes(item)})));
  const channel = await collect(socket.requestChannel(source), 2, async () => {}, 2);
  socket.close();
  return {
    response: {data: text(response.data), metadata: text(response.metadata)},
    held,
    stream,
    channel,
  };
}

const url = new URLSearchParams(location.search).get('rsocket');

talk(url)
  .catch((error) => ({failure: String((error && error.stack) || error)}))
  .then((result) => fetch('/result', {method: 'POST', body: JSON.stringify(result)}));
