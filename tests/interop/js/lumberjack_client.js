'use strict';

// node lumberjack_client.js PORT CA_FILE WINDOW COUNT: the client of lumberjack-protocol, which is
// version 1 over TLS. It writes COUNT events, with `window` as the size of its only window, and
// prints a JSON line for each thing that happens. It ends when its stdin ends.

const fs = require('fs');
const lumberjack = require('lumberjack-protocol');

const [port, authority, windowSize, count] = process.argv.slice(2);

function say(event, value) {
  process.stdout.write(JSON.stringify({ [event]: value }) + '\n');
}

const client = lumberjack.client(
  { host: '127.0.0.1', port: Number(port), servername: 'localhost', ca: [fs.readFileSync(authority)] },
  { windowSize: Number(windowSize), reconnect: 200 }
);
client.on('connect', () => {
  client._socket.on('ack', (sequence) => say('acked', sequence));
  say('connected', true);
});
client.on('disconnect', (error) => say('disconnected', error ? error.message : ''));
client.on('dropped', (number) => say('dropped', number));

for (let n = 0; n < Number(count); n++) {
  client.writeDataFrame({ n: String(n), line: `event ${n} \u00e4` });
}

process.stdin.resume();
process.stdin.on('end', () => process.exit(0));
