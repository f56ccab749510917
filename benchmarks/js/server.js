// The server of rsocket-js 0.0.27, over TCP or WebSocket. It does what the other servers do.
'use strict';

const net = require('net');
const WebSocket = require('ws');
const {BufferEncoders, RSocketServer} = require('rsocket-core');
const {Flowable, Single} = require('rsocket-flowable');
const RSocketTcpServer = require('rsocket-tcp-server').default;
const RSocketWebSocketServer = require('rsocket-websocket-server').default;

const ITEM = Buffer.alloc(128, 'x');
const COUNT = Buffer.from('count');
const IDLE = Buffer.from('idle');

const scheme = process.argv[2];
// The library leaves Nagle's algorithm on; this shows it without.
const noDelay = process.argv.includes('--no-delay');
// Handlers that wait once, as briefly as can be.
const yields = process.argv.includes('--yield');

const ready = (server) =>
  server.on('listening', () =>
    console.log(`READY ${scheme}://127.0.0.1:${server.address().port}`),
  );

function items(count) {
  return new Flowable((subscriber) => {
    let left = count;
    subscriber.onSubscribe({
      cancel: () => {
        left = -1;
      },
      request: (n) => {
        while (n-- > 0 && left > 0) {
          left--;
          subscriber.onNext({data: ITEM});
        }
        if (left === 0) {
          left = -1;
          subscriber.onComplete();
        }
      },
    });
  });
}

function later(payload) {
  return new Single((subscriber) => {
    subscriber.onSubscribe();
    setImmediate(() => subscriber.onComplete(payload));
  });
}

function responder() {
  let seen = 0;
  return {
    requestResponse: ({data}) =>
      yields
        ? later({data})
        : Single.of({data: COUNT.equals(data) ? Buffer.from(String(seen)) : data}),
    fireAndForget: () => {
      seen++;
    },
    requestStream: ({data}) => {
      if (!data || !data.length) return items(Infinity);
      return IDLE.equals(data) ? Flowable.never() : items(Number(data.toString()));
    },
    requestChannel: (payloads) => payloads,
  };
}

const transport =
  scheme === 'tcp'
    ? new RSocketTcpServer(
        {
          host: '127.0.0.1',
          port: 0,
          serverFactory: (onConnection) => ready(net.createServer({noDelay}, onConnection)),
        },
        BufferEncoders,
      )
    : new RSocketWebSocketServer(
        {host: '127.0.0.1', port: 0},
        BufferEncoders,
        (options) => ready(new WebSocket.Server(options)),
      );

new RSocketServer({getRequestHandler: responder, transport}).start();
process.stdin.on('end', () => process.exit(0)).resume();
