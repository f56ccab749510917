// Draws the samples of the server. Demand controls the server: a paused page requests no more
// samples, so the server stops when the window is used up.

import {connect} from './rsocket.js';

const EVERY = 0.25; // seconds between samples
const PREFETCH = 8; // samples that the server may send in advance
const SHOWN = 60; // seconds in the chart

const $ = (id) => document.getElementById(id);
const samples = [];
let paused = null; // while paused: {promise, resolve}

function say(text, failed = false) {
  $('status').textContent = text;
  $('status').classList.toggle('failed', failed);
}

function showFacts(facts) {
  const hours = facts.uptime / 3600;
  const gib = (bytes) => `${(bytes / 2 ** 30).toFixed(1)} GiB`;
  const shown = {
    Kernel: facts.kernel.split('-')[0],
    Machine: `${facts.machine}, ${facts.cpus} CPUs`,
    Memory: gib(facts.memory_total),
    Available: gib(facts.memory_available),
    Up: hours < 48 ? `${hours.toFixed(1)} h` : `${(hours / 24).toFixed(1)} days`,
  };
  $('hostname').textContent = facts.hostname;
  $('facts').replaceChildren(...Object.entries(shown).map(([name, value]) => {
    const [pair, term, description] = ['div', 'dt', 'dd'].map((tag) => document.createElement(tag));
    term.textContent = name; // textContent: data of the server is text, never markup
    description.textContent = value;
    pair.append(term, description);
    return pair;
  }));
}

function draw() {
  const canvas = $('chart'), scale = devicePixelRatio;
  const width = canvas.clientWidth, height = canvas.clientHeight;
  canvas.width = width * scale;
  canvas.height = height * scale;
  const pen = canvas.getContext('2d');
  pen.scale(scale, scale);
  const style = getComputedStyle(document.querySelector('main'));
  const colour = (name) => {
    canvas.style.color = `var(${name})`;
    return getComputedStyle(canvas).color;
  };
  const [line, faint, accent] = ['--line', '--faint', '--accent'].map(colour);
  const left = 50, top = 8, bottom = height - 8;
  const now = samples.at(-1)?.at ?? 0;
  const x = (at) => width - (now - at) / SHOWN * (width - left);
  const y = (share) => bottom - share * (bottom - top);

  pen.font = `12px ${style.fontFamily}`;
  pen.textBaseline = 'middle';
  for (const share of [0, 0.25, 0.5, 0.75, 1]) {
    pen.strokeStyle = line;
    pen.strokeRect(left, Math.round(y(share)) + 0.5, width - left, 0);
    pen.fillStyle = faint;
    pen.textAlign = 'right';
    pen.fillText(`${share * 100} %`, left - 8, y(share));
  }
  if (!samples.length) return;

  const trace = (values) => {
    pen.beginPath();
    samples.forEach((sample, i) => pen[i ? 'lineTo' : 'moveTo'](x(sample.at), y(values(sample))));
  };
  pen.lineJoin = 'round';
  pen.strokeStyle = faint;
  pen.globalAlpha = 0.35;
  samples[0].cpus.forEach((_, cpu) => {
    trace((sample) => sample.cpus[cpu]);
    pen.stroke();
  });
  trace((sample) => sample.busy);
  pen.globalAlpha = 1;
  pen.lineWidth = 2;
  pen.strokeStyle = accent;
  pen.stroke();
  pen.lineTo(x(now), bottom);
  pen.lineTo(x(samples[0].at), bottom);
  pen.globalAlpha = 0.12;
  pen.fillStyle = accent;
  pen.fill();
}

$('pause').onclick = () => {
  if (paused) {
    paused.resolve();
    paused = null;
  } else {
    let resolve;
    paused = {promise: new Promise((done) => (resolve = done)), resolve};
  }
  $('pause').textContent = paused ? 'Go on' : 'Pause';
};
onresize = draw;

async function main() {
  draw();
  const uri = await (await fetch('rsocket-uri')).text();
  const service = await connect(uri);
  showFacts(await service.requestResponse('host.facts'));
  say(`connected to ${uri}`);
  $('pause').disabled = false;
  const stream = service.requestStream('host.load', {every: EVERY}, PREFETCH);
  setInterval(() => {
    $('demand').textContent = `${stream.received} samples received of ${stream.granted} granted`;
  }, 100);
  for await (const sample of stream) {
    samples.push(sample);
    while (samples[0].at < sample.at - SHOWN) samples.shift();
    $('busy').textContent = `${Math.round(sample.busy * 100)} %`;
    draw();
    await paused?.promise;
  }
}

main().catch((error) => {
  say(error.message, true);
  $('pause').disabled = true;
});
