// The client of rsocket-js 0.0.27: callbacks keep the wanted number of requests in flight.
'use strict';

const readline = require('readline');
const {BufferEncoders, RSocketClient} = require('rsocket-core');
const {Flowable} = require('rsocket-flowable');
const RSocketTcpClient = require('rsocket-tcp-client').default;
const RSocketWebSocketClient = require('rsocket-websocket-client').default;
const WebSocket = require('ws');

const ITEM = Buffer.alloc(128, 'x');
const COUNT = Buffer.from('count');
const BURST = 1000;

const uri = new URL(process.argv[2]);
const noDelay = process.argv.includes('--no-delay');
const now = () => performance.now() / 1000;

function connect() {
  const transport =
    uri.protocol === 'tcp:'
      ? new RSocketTcpClient(
          {host: uri.hostname, port: Number(uri.port), noDelay},
          BufferEncoders,
        )
      : new RSocketWebSocketClient(
          {url: uri.href, wsCreator: (url) => new WebSocket(url)},
          BufferEncoders,
        );
  const setup = {
    dataMimeType: 'application/octet-stream',
    keepAlive: 60000,
    lifetime: 600000,
    metadataMimeType: 'application/octet-stream',
  };
  const client = new RSocketClient({setup, transport});
  return new Promise((resolve, reject) =>
    client.connect().subscribe({onComplete: resolve, onError: reject}),
  );
}

function stopwatch(seconds) {
  const start = now();
  return {
    count: 0,
    start,
    deadline: start + seconds,
    latencies: [],
    outcome() {
      const result = {count: this.count, elapsed: now() - start};
      if (this.latencies.length) {
        const ordered = this.latencies.sort((a, b) => a - b);
        const at = (fraction) => ordered[Math.floor((ordered.length - 1) * fraction)];
        result.latencies = [at(0.5), at(0.99)];
      }
      return result;
    },
  };
}

const ask = (socket, data) =>
  new Promise((resolve, reject) =>
    socket.requestResponse({data}).subscribe({onComplete: resolve, onError: reject}),
  );

// Keeps one request of each of the sockets in flight until the deadline.
function askAll(sockets, watch, onAnswer) {
  return new Promise((resolve, reject) => {
    let open = sockets.length;
    const next = (socket) =>
      socket.requestResponse({data: ITEM}).subscribe({
        onComplete: () => {
          watch.count++;
          if (onAnswer) onAnswer();
          if (now() < watch.deadline) next(socket);
          else if (--open === 0) resolve();
        },
        onError: reject,
      });
    sockets.forEach(next);
  });
}

async function request_response(socket, {seconds, in_flight}) {
  const watch = stopwatch(seconds);
  await askAll(Array(in_flight).fill(socket), watch);
  return watch.outcome();
}

async function sequential(socket, {seconds}) {
  const watch = stopwatch(seconds);
  let before = watch.start;
  await askAll([socket], watch, () => {
    const after = now();
    watch.latencies.push(after - before);
    before = after;
  });
  return watch.outcome();
}

// Counts items, grants more when three quarters of the window are consumed, then cancels.
function consume(flowable, watch, window) {
  const batch = Math.max(1, Math.floor((window * 3) / 4));
  return new Promise((resolve, reject) => {
    let subscription;
    let consumed = 0;
    flowable.subscribe({
      onSubscribe: (given) => {
        subscription = given;
        subscription.request(window);
      },
      onNext: () => {
        watch.count++;
        if (++consumed < batch) return;
        if (now() > watch.deadline) {
          subscription.cancel();
          resolve();
        } else {
          subscription.request(consumed);
          consumed = 0;
        }
      },
      onComplete: resolve,
      onError: reject,
    });
  });
}

async function request_stream(socket, {seconds, window}) {
  const watch = stopwatch(seconds);
  await consume(socket.requestStream({data: Buffer.alloc(0)}), watch, window);
  return watch.outcome();
}

async function request_channel(socket, {seconds, window}) {
  let open = true;
  const source = new Flowable((subscriber) =>
    subscriber.onSubscribe({
      cancel: () => {
        open = false;
      },
      request: (n) => {
        while (n-- > 0 && open) subscriber.onNext({data: ITEM});
      },
    }),
  );
  const watch = stopwatch(seconds);
  await consume(socket.requestChannel(source), watch, window);
  open = false;
  return watch.outcome();
}

async function fire_and_forget(socket, {seconds}) {
  const seen = async () => Number((await ask(socket, COUNT)).data.toString());
  const before = await seen();
  const watch = stopwatch(seconds);
  const send = async () => {
    do {
      for (let i = 0; i < BURST; i++) socket.fireAndForget({data: ITEM});
      watch.count += BURST;
      await seen();
    } while (now() < watch.deadline);
  };
  await Promise.all([send(), send()]);
  while ((await seen()) < before + watch.count);
  return watch.outcome();
}

async function many_streams(socket, {streams, items, window}) {
  const watch = stopwatch(Infinity);
  const data = Buffer.from(String(items));
  await Promise.all(
    Array.from({length: streams}, () => consume(socket.requestStream({data}), watch, window)),
  );
  return watch.outcome();
}

const many = [];

async function many_connections(_, {seconds, connections}) {
  while (many.length < connections) many.push(await connect());
  const watch = stopwatch(seconds);
  await askAll(many, watch);
  return watch.outcome();
}

const operations = {
  sequential,
  request_response,
  request_stream,
  request_channel,
  fire_and_forget,
  many_streams,
  many_connections,
};

async function main() {
  const socket = await connect();
  for await (const line of readline.createInterface({input: process.stdin})) {
    const {operation, ...parameters} = JSON.parse(line);
    console.log(JSON.stringify(await operations[operation](socket, parameters)));
  }
  process.exit(0);
}

main().catch((error) => {
  console.log(JSON.stringify({error: String(error)}));
  process.exit(1);
});
