'use strict';
// A small stock-keeping service on rsocket-js, tested from Python. Routes are composite metadata,
// data is JSON. `node service.js` prints the address that it listens on.

const net = require('net');
const {
  BufferEncoders,
  MESSAGE_RSOCKET_ROUTING,
  RSocketServer,
  decodeCompositeMetadata,
  decodeRoutes,
} = require('rsocket-core');
const {Flowable, Single} = require('rsocket-flowable');
const RSocketTCPServer = require('rsocket-tcp-server').default;

const stock = new Map([['apples', 12], ['pears', 3]]);
const ledger = [];
let readers = 0;

const json = (value) => ({data: Buffer.from(JSON.stringify(value))});
const read = (payload) => JSON.parse(payload.data.toString());

function route(payload) {
  for (const entry of decodeCompositeMetadata(payload.metadata)) {
    if (entry.mimeType === MESSAGE_RSOCKET_ROUTING.string) {
      return decodeRoutes(entry.content).next().value;
    }
  }
  throw new Error('there is no route');
}

function count(item) {
  if (!stock.has(item)) {
    throw new Error(`there have never been ${item}`);
  }
  return stock.get(item);
}

function change(item, by) {
  stock.set(item, (stock.get(item) || 0) + by);
  ledger.push({item, by, left: stock.get(item)});
}

const requests = {
  'stock.of': (item) => ({item, left: count(item)}),
  'stock.take': ({item, count: wanted}) => {
    if (count(item) < wanted) {
      throw new Error(`there are only ${count(item)} ${item}`);
    }
    change(item, -wanted);
    return {item, left: count(item)};
  },
  'ledger.readers': () => readers,
};

// Repeats the ledger without an end, and sends as many entries as are requested.
function entries() {
  return new Flowable((subscriber) => {
    let next = 0;
    let open = true;
    readers += 1;
    subscriber.onSubscribe({
      cancel: () => {
        readers -= open ? 1 : 0;
        open = false;
      },
      request: (n) => {
        for (; open && n > 0; n -= 1) {
          subscriber.onNext(json({number: next, ...ledger[next++ % ledger.length]}));
        }
      },
    });
  });
}

const handler = {
  requestResponse(payload) {
    try {
      return Single.of(json(requests[route(payload)](read(payload))));
    } catch (error) {
      return Single.error(error);
    }
  },
  fireAndForget(payload) {
    const {item, count: delivered} = read(payload);
    change(item, delivered);
  },
  requestStream: () => entries(),
};

function serverFactory(onConnection) {
  const server = net.createServer((socket) => {
    socket.setNoDelay(true);
    onConnection(socket);
  });
  return server.on('listening', () => {
    console.log(`listening on tcp://127.0.0.1:${server.address().port}`);
  });
}

new RSocketServer({
  getRequestHandler: () => handler,
  transport: new RSocketTCPServer({host: '127.0.0.1', port: 0, serverFactory}, BufferEncoders),
}).start();
