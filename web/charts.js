// Drawing: the timeline of turns, and small charts. Knows nothing of the service.
'use strict';

// Far apart for jobs that follow each other, and readable on dark and light.
function colourOf(job) {
  return job === 0 ? '#888888' : `hsl(${(job * 137.508) % 360} 55% 48%)`;
}

// The canvas at the screen's resolution; width and height in CSS pixels.
function prepared(canvas, height) {
  if (height) canvas.style.height = `${height}px`;
  const width = canvas.clientWidth, tall = canvas.clientHeight, scale = window.devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * scale)) canvas.width = Math.round(width * scale);
  if (canvas.height !== Math.round(tall * scale)) canvas.height = Math.round(tall * scale);
  const pen = canvas.getContext('2d');
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.clearRect(0, 0, width, tall);
  pen.font = '11px system-ui, sans-serif';
  return {pen, width, height: tall};
}

function themeColour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

// Who ran when: keeps a minute of turns, requests and gates, draws the last seconds of it, and finds what lies at a point.
class Timeline {
  constructor(canvas) {
    this.canvas = canvas;
    this.kinds = {turns: {ended: [], open: []}, requests: {ended: [], open: []}, gates: {ended: [], open: []}};
    this.shift = 0;  // the server's clock less ours, in ms
    this.span = 10_000;
    this.rows = [];
    this.devices = [];
  }

  now() { return performance.now() + this.shift; }

  // News of each device, in the order of the overview.
  take(all) {
    for (const [device, news] of all.devices.entries()) this.takeOf(device, news);
    for (const kind of Object.values(this.kinds))
      for (const part of ['ended', 'open']) kind[part] = kind[part].filter((span) => span.device < all.devices.length);
  }

  takeOf(device, news) {
    this.shift = news.now - performance.now();
    for (const [name, kind] of Object.entries(this.kinds)) {
      const spans = news[name].map(([lane, job, start, end]) => ({device, lane, job, start, end}));
      if (news.all) kind.ended = kind.ended.filter((span) => span.device !== device);
      kind.ended.push(...spans.filter((span) => span.end !== null));
      kind.open = [...kind.open.filter((span) => span.device !== device), ...spans.filter((span) => span.end === null)];
      const oldest = news.now - 61_000;
      if (kind.ended.length > 0 && kind.ended[0].end < oldest) kind.ended = kind.ended.filter((span) => span.end >= oldest);
    }
  }

  // Those that reach into the last `span` ms, cut to it.
  shown(name, span) {
    const now = this.now(), from = now - span, kind = this.kinds[name], found = [];
    for (const one of kind.ended) if (one.end > from) found.push({...one, start: Math.max(one.start, from)});
    for (const one of kind.open) found.push({...one, start: Math.max(Math.min(one.start, now), from), end: now});
    return found;
  }

  titleOf({device, lane}) {
    const place = this.devices.length > 1 ? `gpu ${this.devices[device]?.number ?? '?'} ` : '';
    return place + (lane < 0 ? 'first iterations' : `lane ${lane}`);
  }

  // The lanes in which jobs ran, in order, each with the ms of each job.
  timeByLane(span) {
    const lanes = new Map();
    for (const {device, lane, job, start, end} of this.shown('turns', span)) {
      const key = 1e6 * device + lane;
      if (!lanes.has(key)) lanes.set(key, {device, lane, title: this.titleOf({device, lane}), times: new Map()});
      const {times} = lanes.get(key);
      times.set(job, (times.get(job) || 0) + end - start);
    }
    return [...lanes].sort((a, b) => a[0] - b[0]).map((entry) => entry[1]);
  }

  draw() {
    const turns = this.shown('turns', this.span), requests = this.shown('requests', this.span), gates = this.shown('gates', this.span);
    this.rows = this.timeByLane(this.span).slice(-24).map(({device, lane, title}) =>
      ({title, spans: turns.filter((turn) => turn.device === device && turn.lane === lane)}));
    if (requests.length > 0) this.rows.push({title: 'requests', spans: requests, thin: true});
    if (gates.length > 0) this.rows.push({title: 'gates closed', spans: gates, thin: true, gates: true});
    if (this.rows.length === 0) this.rows.push({title: '', spans: []});
    const room = this.rows.length > 10 ? 14 : 24;
    let top = 2;
    for (const row of this.rows) {
      row.top = top;
      row.height = row.thin ? 8 : room - 4;
      top += row.thin ? 14 : room;
    }
    const {pen, width} = prepared(this.canvas, top + 18);
    this.left = (width < 500 ? 64 : 96) + (this.devices.length > 1 ? 32 : 0);
    this.drawAxis(pen, width, top);
    for (const row of this.rows) this.drawRow(pen, row, width);
    return new Set([...turns, ...requests].map((one) => one.job));
  }

  drawAxis(pen, width, top) {
    pen.fillStyle = themeColour('--faint');
    pen.strokeStyle = themeColour('--line');
    for (let i = 0; i <= 5; ++i) {
      const x = this.left + (width - this.left) * i / 5, ago = Math.round(this.span / 1000 * (5 - i) / 5);
      pen.beginPath();
      pen.moveTo(x, 0);
      pen.lineTo(x, top);
      pen.stroke();
      pen.textAlign = i === 5 ? 'right' : i === 0 ? 'left' : 'center';
      pen.fillText(ago === 0 ? 'now' : `−${ago} s`, x, top + 13);
    }
  }

  x(at, width) { return this.left + (width - this.left) * (1 - (this.now() - at) / this.span); }

  drawRow(pen, row, width) {
    pen.textAlign = 'left';
    pen.fillStyle = themeColour('--faint');
    pen.fillText(row.title, 0, row.top + row.height / 2 + 4, this.left - 6);
    for (const span of row.spans) {
      const start = this.x(span.start, width), end = Math.max(this.x(span.end, width), start + 0.4);
      pen.fillStyle = row.gates ? themeColour('--bad') : colourOf(span.job);
      pen.fillRect(start, row.top, end - start, row.height);
      if (!row.thin && end - start > 60 && row.height > 15) {
        pen.save();
        pen.beginPath();
        pen.rect(start, row.top, end - start, row.height);
        pen.clip();
        pen.fillStyle = '#ffffff';
        pen.fillText(this.nameOf ? this.nameOf(span.job) : `job ${span.job}`, start + 5, row.top + row.height / 2 + 4);
        pen.restore();
      }
    }
  }

  // The span under the pointer, for a tip.
  at(x, y) {
    const width = this.canvas.clientWidth;
    const row = this.rows.find((one) => y >= one.top && y <= one.top + one.height);
    const span = row && row.spans.find((one) => x >= this.x(one.start, width) - 1 && x <= this.x(one.end, width) + 1);
    return span ? {row, span} : null;
  }
}

// How busy a device was: shares from 0 to 1, the last one now.
function drawBusy(canvas, shares, most) {
  const {pen, width, height} = prepared(canvas);
  pen.fillStyle = themeColour('--free');
  pen.fillRect(0, 0, width, height);
  pen.fillStyle = themeColour('--accent');
  const step = width / most;
  shares.forEach((share, i) => pen.fillRect(width - (shares.length - i) * step, height * (1 - share), step + 0.3, height * share));
}

// Stacked areas over time: `samples` are [seconds ago, number, number …]. `span`: the seconds shown, if not those of the samples,
// and what stands at the ends of the axis.
function drawAreas(canvas, samples, colours, format, {span, from, to} = {}) {
  const {pen, width, height} = prepared(canvas);
  const left = 58, bottom = height - 16;
  const longest = span || Math.max(30, ...samples.map((sample) => sample[0]));
  const highest = Math.max(1e-9, ...samples.map((sample) => sample.slice(1).reduce((sum, part) => sum + part, 0))) * 1.1;
  const x = (ago) => left + (width - left) * (1 - ago / longest), y = (value) => bottom - (bottom - 4) * value / highest;
  colours.forEach((colour, part) => {
    const sum = (sample) => sample.slice(1, 2 + part).reduce((all, one) => all + one, 0);
    const below = (sample) => sample.slice(1, 1 + part).reduce((all, one) => all + one, 0);
    pen.beginPath();
    samples.forEach((sample, i) => (i === 0 ? pen.moveTo(x(sample[0]), y(sum(sample))) : pen.lineTo(x(sample[0]), y(sum(sample)))));
    for (const sample of [...samples].reverse()) pen.lineTo(x(sample[0]), y(below(sample)));
    pen.closePath();
    pen.fillStyle = colour;
    pen.fill();
  });
  pen.fillStyle = themeColour('--faint');
  pen.textAlign = 'right';
  pen.fillText(format(highest / 1.1), left - 6, 14);
  pen.fillText('0', left - 6, bottom);
  pen.fillText(to || 'now', width, height - 3);
  pen.textAlign = 'left';
  pen.fillText(from || `−${Math.round(longest)} s`, left, height - 3);
  pen.strokeStyle = themeColour('--line');
  pen.strokeRect(left, 4, width - left - 0.5, bottom - 4);
}
