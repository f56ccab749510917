'use strict';
// Draws what Spark sends: two streams of the alerts server, with rsocket-js over the WebSocket of
// the browser. `python examples/pipeline/alerts_server.py` bundles this file with its modules.

// rsocket-core takes the Buffer that it finds when it is loaded.
globalThis.Buffer = require('buffer/').Buffer;

const core = require('rsocket-core');
const RSocketWebSocketClient = require('rsocket-websocket-client').default;

const PREFETCH = 64; // items that the server may send in advance
const SHOWN = 90; // minutes in a chart
const LISTED = 200; // alerts
const WIDTH = 360, HEIGHT = 100; // of a chart, in its own units

const $ = (id) => document.getElementById(id);
const services = new Map(); // by name: {minutes: Map, figure}
let alerts = 0;

function say(text, failed = false) {
  $('status').textContent = text;
  $('status').classList.toggle('failed', failed);
}

function connect(url) {
  const client = new core.RSocketClient({
    setup: {
      dataMimeType: 'application/json',
      metadataMimeType: core.MESSAGE_RSOCKET_COMPOSITE_METADATA.string,
      keepAlive: 20000,
      lifetime: 90000,
    },
    transport: new RSocketWebSocketClient({url}, core.BufferEncoders),
  });
  return new Promise((onComplete, onError) => client.connect().subscribe({onComplete, onError}));
}

// Calls `onItem` for each item of a route, and asks for more items as they are drawn.
function subscribe(socket, route, onItem) {
  const {encodeAndAddWellKnownMetadata, encodeRoute, MESSAGE_RSOCKET_ROUTING} = core;
  const metadata = encodeAndAddWellKnownMetadata(
    Buffer.alloc(0), MESSAGE_RSOCKET_ROUTING, encodeRoute(route));
  return new Promise((onComplete, onError) => {
    let subscription, drawn = 0;
    socket.requestStream({metadata, data: Buffer.alloc(0)}).subscribe({
      onSubscribe: (it) => (subscription = it).request(PREFETCH),
      onNext: (payload) => {
        onItem(JSON.parse(payload.data.toString()));
        drawn += 1;
        if (drawn === PREFETCH / 2) {
          subscription.request(drawn);
          drawn = 0;
        }
      },
      onComplete,
      onError,
    });
  });
}

function element(name, attributes = {}, text = '') {
  const svg = ['svg', 'rect', 'circle', 'polyline', 'title'].includes(name);
  const made = svg ? document.createElementNS('http://www.w3.org/2000/svg', name)
                   : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.textContent = text; // data of the server is text, never markup
  return made;
}

function addMinute(row) {
  let service = services.get(row.service);
  if (!service) {
    service = {minutes: new Map(), figure: element('figure')};
    services.set(row.service, service);
    const sorted = [...services.keys()].sort().map((name) => services.get(name).figure);
    $('charts').replaceChildren(...sorted);
  }
  service.minutes.set(Date.parse(row.minute), row);
  if (!service.waits) {
    service.waits = true;
    requestAnimationFrame(() => {
      service.waits = false;
      draw(service);
    });
  }
}

function draw({minutes, figure}) {
  const newest = Math.max(...minutes.keys());
  for (const minute of minutes.keys()) {
    if (minute <= newest - SHOWN * 60000) minutes.delete(minute);
  }
  const rows = [...minutes.entries()].sort(([a], [b]) => a - b);
  const oldest = rows[0][0];
  const step = WIDTH / Math.max(60, (newest - oldest) / 60000 + 1);
  const most = Math.max(...rows.map(([, row]) => row.lines), 1);
  const slowest = Math.max(...rows.map(([, row]) => row.mean_ms ?? 0), 1);
  const svg = element('svg', {viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: 'none'});
  const base = HEIGHT - 8, height = HEIGHT - 14; // below the base: the marks of alerts
  const curves = [[]]; // one for each time in which there is a mean
  for (const [at, row] of rows) {
    const x = (at - oldest) / 60000 * step;
    const bar = (count, name) => element('rect', {
      class: name, x, width: step * 0.8,
      y: base - count / most * height, height: count / most * height,
    });
    svg.append(bar(row.lines, 'lines'), bar(row.errors, 'errors'));
    if (row.mean_ms === null) curves.push([]);
    else curves.at(-1).push(`${x + step * 0.4},${base - row.mean_ms / slowest * height}`);
    if (row.alert) {
      const mark = element('circle', {class: 'mark', cx: x + step * 0.4, cy: HEIGHT - 3, r: 2.5});
      mark.append(element('title', {}, row.alert));
      svg.append(mark);
    }
  }
  for (const points of curves) {
    svg.append(element('polyline', {class: 'mean', points: points.join(' ')}));
  }
  const [, last] = rows.at(-1);
  const caption = element('figcaption');
  const ms = last.mean_ms === null ? '–' : `${Math.round(last.mean_ms)} ms`;
  caption.append(element('b', {}, last.service),
    element('span', {}, `${last.lines} lines, ${ms} at ${clock(last.minute)}`));
  figure.replaceChildren(caption, svg);
}

const clock = (text) => new Date(text).toISOString().slice(11, 16);

function addAlert(row) {
  alerts += 1;
  $('count').textContent = alerts;
  const item = element('li');
  item.append(element('time', {datetime: row.minute}, clock(row.minute)),
    element('span', {}, row.service), element('span', {}, row.team ?? ''),
    element('span', {}, row.alert));
  $('alerts').prepend(item);
  while ($('alerts').children.length > LISTED) $('alerts').lastChild.remove();
}

async function main() {
  const uri = await (await fetch('rsocket-uri')).text();
  const socket = await connect(uri);
  say(`connected to ${uri}`);
  socket.connectionStatus().subscribe({
    onSubscribe: (it) => it.request(Number.MAX_SAFE_INTEGER),
    onNext: (status) => {
      if (status.kind !== 'CONNECTED') say('the connection has ended', true);
    },
  });
  await Promise.all([
    subscribe(socket, 'minutes', addMinute),
    subscribe(socket, 'alerts', addAlert),
  ]);
}

main().catch((error) => say(error.message || String(error), true));
