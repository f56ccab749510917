'use strict';
// node server.js tcp|ws: rsocket-js as the server. Says where it listens, and serves until it is
// killed or its stdin ends.

const net = require('net');
const WebSocket = require('ws');
const {BufferEncoders, RSocketServer} = require('rsocket-core');
const RSocketTCPServer = require('rsocket-tcp-server').default;
const RSocketWebSocketServer = require('rsocket-websocket-server').default;
const {knownAnswers} = require('./known_answers');

const HOST = '127.0.0.1';

function announce(scheme, address) {
  process.stdout.write(`listening on ${scheme}://${HOST}:${address.port}\n`);
}

function tcp() {
  const serverFactory = (onConnection) => {
    const server = net.createServer((socket) => {
      // Without it replies wait for the peer's delayed acknowledgement.
      socket.setNoDelay(true);
      onConnection(socket);
    });
    server.on('listening', () => announce('tcp', server.address()));
    return server;
  };
  return new RSocketTCPServer({host: HOST, port: 0, serverFactory}, BufferEncoders);
}

function ws() {
  const factory = (options) => {
    const server = new WebSocket.Server(options);
    server.on('listening', () => announce('ws', server.address()));
    return server;
  };
  return new RSocketWebSocketServer({host: HOST, port: 0}, BufferEncoders, factory);
}

const transports = {tcp, ws};

new RSocketServer({
  // One set of answers per connection, as a connection is one peer.
  getRequestHandler: () => knownAnswers(),
  transport: transports[process.argv[2]](),
}).start();

process.stdin.on('end', () => process.exit(0)).resume();
