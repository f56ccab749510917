'use strict';
// node client.js URI [KEEPALIVE_MS]: rsocket-js as the client, driven over stdin and stdout.
//
// Each line of stdin is a command, each line of stdout an event; both are JSON objects. `id` is the
// test's own number of the interaction, bytes are hexadecimal:
//
//   {"id", "op": "request_response" | "fire_and_forget" | "metadata_push", "data", "metadata"}
//   {"id", "op": "request_stream", "data", "metadata", "initial_n"}
//   {"id", "op": "request_channel", "items": [data, ...], "initial_n", "open": bool}
//        an open channel does not complete after its items
//   {"id", "op": "request_n", "n"}    {"id", "op": "cancel"}    {"op": "close"}
//
//   {"event": "connected"}    {"event": "closed", "message"}
//   {"id", "event": "next", "data", "metadata"}    {"id", "event": "complete"}
//   {"id", "event": "error", "message"}    {"id", "event": "sent"}
//   {"id", "event": "granted", "n"}, {"id", "event": "cancelled"}: what our source of a channel saw
//
// It ends with its stdin. Requests of the peer get the known answers.

const readline = require('readline');
const WebSocket = require('ws');
const {BufferEncoders, RSocketClient} = require('rsocket-core');
const {Flowable} = require('rsocket-flowable');
const RSocketTcpClient = require('rsocket-tcp-client').default;
const RSocketWebSocketClient = require('rsocket-websocket-client').default;
const {bytes, knownAnswers} = require('./known_answers');

const MIME_TYPE = 'application/octet-stream';

function say(event) {
  process.stdout.write(JSON.stringify(event) + '\n');
}

// An absent field is undefined: rsocket-js takes null for metadata that is present and empty.
const fromHex = (text) => (text == null ? undefined : Buffer.from(text, 'hex'));
const toHex = (field) => (field == null ? null : Buffer.from(field).toString('hex'));

const payloadOf = (command) => ({
  data: fromHex(command.data),
  metadata: fromHex(command.metadata),
});

function sayNext(id, payload) {
  say({id, event: 'next', data: toHex(bytes(payload.data)), metadata: toHex(payload.metadata)});
}

// The source of a channel: its items as they are asked for, telling what was asked for.
function source(id, items, open) {
  return new Flowable((subscriber) => {
    let next = 0;
    let wanted = 0;
    let ended = false;
    subscriber.onSubscribe({
      cancel: () => {
        ended = true;
        say({id, event: 'cancelled'});
      },
      request: (n) => {
        say({id, event: 'granted', n});
        wanted += n;
        while (!ended && wanted > 0 && next < items.length) {
          wanted -= 1;
          subscriber.onNext({data: fromHex(items[next++])});
        }
        if (!ended && !open && next === items.length) {
          ended = true;
          subscriber.onComplete();
        }
      },
    });
  });
}

function operations(socket) {
  const subscriptions = new Map();

  function receive(id, flowable, initialN) {
    flowable.subscribe({
      onSubscribe: (subscription) => {
        subscriptions.set(id, subscription);
        subscription.request(initialN);
      },
      onNext: (payload) => sayNext(id, payload),
      onComplete: () => say({id, event: 'complete'}),
      onError: (error) => say({id, event: 'error', message: error.message}),
    });
  }

  return {
    request_response(command) {
      const {id} = command;
      socket.requestResponse(payloadOf(command)).subscribe({
        onSubscribe: (cancel) => subscriptions.set(id, {cancel}),
        onComplete: (payload) => {
          sayNext(id, payload);
          say({id, event: 'complete'});
        },
        onError: (error) => say({id, event: 'error', message: error.message}),
      });
    },
    fire_and_forget(command) {
      socket.fireAndForget(payloadOf(command));
      say({id: command.id, event: 'sent'});
    },
    metadata_push(command) {
      socket.metadataPush(payloadOf(command)).subscribe({
        onComplete: () => say({id: command.id, event: 'sent'}),
      });
    },
    request_stream(command) {
      receive(command.id, socket.requestStream(payloadOf(command)), command.initial_n);
    },
    request_channel(command) {
      const payloads = source(command.id, command.items, command.open);
      receive(command.id, socket.requestChannel(payloads), command.initial_n);
    },
    request_n(command) {
      subscriptions.get(command.id).request(command.n);
    },
    cancel(command) {
      subscriptions.get(command.id).cancel();
    },
    close() {
      socket.close();
    },
  };
}

function transportTo(uri) {
  if (uri.startsWith('ws:')) {
    return new RSocketWebSocketClient(
      {url: uri, wsCreator: (url) => new WebSocket(url)},
      BufferEncoders
    );
  }
  const {hostname, port} = new URL(uri);
  return new RSocketTcpClient({host: hostname, port: Number(port), noDelay: true}, BufferEncoders);
}

const [uri, keepAlive = '20000'] = process.argv.slice(2);

const client = new RSocketClient({
  setup: {
    dataMimeType: MIME_TYPE,
    metadataMimeType: MIME_TYPE,
    keepAlive: Number(keepAlive),
    lifetime: 90000,
  },
  responder: knownAnswers(),
  transport: transportTo(uri),
});

client.connect().subscribe({
  onComplete: (socket) => {
    socket.connectionStatus().subscribe(({kind, error}) => {
      if (kind === 'CLOSED' || kind === 'ERROR') {
        say({event: 'closed', message: error ? error.message : ''});
      }
    });
    const run = operations(socket);
    const commands = readline.createInterface({input: process.stdin});
    commands.on('line', (line) => {
      const command = JSON.parse(line);
      run[command.op](command);
    });
    commands.on('close', () => process.exit(0));
    say({event: 'connected'});
  },
  onError: (error) => say({event: 'closed', message: String(error.message)}),
});
