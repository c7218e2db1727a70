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
  }

  now() { return performance.now() + this.shift; }

  take(news) {
    this.shift = news.now - performance.now();
    for (const [name, kind] of Object.entries(this.kinds)) {
      const spans = news[name].map(([lane, job, start, end]) => ({lane, job, start, end}));
      if (news.all) kind.ended = [];
      kind.ended.push(...spans.filter((span) => span.end !== null));
      kind.open = spans.filter((span) => span.end === null);
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

  // For each lane the ms that each job ran in it.
  timeByLane(span) {
    const lanes = new Map();
    for (const {lane, job, start, end} of this.shown('turns', span)) {
      if (!lanes.has(lane)) lanes.set(lane, new Map());
      lanes.get(lane).set(job, (lanes.get(lane).get(job) || 0) + end - start);
    }
    return lanes;
  }

  draw() {
    const turns = this.shown('turns', this.span), requests = this.shown('requests', this.span), gates = this.shown('gates', this.span);
    const lanes = [...new Set(turns.map((turn) => turn.lane))].sort((a, b) => a - b).slice(-24);
    this.rows = lanes.map((lane) => ({title: lane < 0 ? 'first iterations' : `lane ${lane}`, spans: turns.filter((turn) => turn.lane === lane)}));
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
    this.left = width < 500 ? 64 : 96;
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

// Stacked areas over time: `samples` are [seconds ago, number, number …].
function drawAreas(canvas, samples, colours, format) {
  const {pen, width, height} = prepared(canvas);
  const left = 58, bottom = height - 16;
  const longest = Math.max(30, ...samples.map((sample) => sample[0]));
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
  pen.fillText('now', width, height - 3);
  pen.textAlign = 'left';
  pen.fillText(`−${Math.round(longest)} s`, left, height - 3);
  pen.strokeStyle = themeColour('--line');
  pen.strokeRect(left, 4, width - left - 0.5, bottom - 4);
}
