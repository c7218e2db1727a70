// The page of `salus web`. The server pushes an overview and the turns; all text of others goes into text nodes, never into HTML.
'use strict';

const $ = (id) => document.getElementById(id);
const GIB = 2 ** 30, MIB = 2 ** 20;

// ------------------------------------------------------------------------------------------------------------ texts

function bytesText(bytes) {
  return bytes >= GIB ? `${(bytes / GIB).toFixed(1)} GiB` : bytes >= MIB || bytes === 0 ? `${Math.round(bytes / MIB)} MiB` : `${Math.ceil(bytes / 1024)} KiB`;
}
function timeText(seconds) {
  if (seconds === null || seconds === undefined || !(seconds >= 0)) return '';
  if (seconds < 99.95) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds), two = (number) => String(number).padStart(2, '0');
  if (whole < 3600) return `${Math.floor(whole / 60)}m ${two(whole % 60)}s`;
  if (whole < 48 * 3600) return `${Math.floor(whole / 3600)}h ${two(Math.floor(whole / 60) % 60)}m`;
  return `${Math.floor(whole / 86400)}d ${Math.floor(whole / 3600) % 24}h`;
}
function rateText(rate) {
  return rate === null || rate === undefined ? '' : rate === 0 ? '0' : rate < 10 ? rate.toPrecision(3) : rate.toFixed(rate < 100 ? 1 : 0);
}
function shareText(share) { return share === null || share === undefined ? '' : `${Math.round(100 * share)} %`; }

// ---------------------------------------------------------------------------------------------------------- elements

function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name === 'data') Object.assign(made.dataset, value);
    else if (name === 'label') made.setAttribute('aria-label', value);
    else made[name] = value;
  }
  made.append(...children);
  return made;
}
function setText(node, text) {
  if (node.textContent !== String(text)) node.textContent = text;
}
function swatch(colour, kind) {
  const mark = element('span', {className: `swatch ${kind || ''}`});
  if (colour) mark.style.background = colour;
  return mark;
}
// Only if something has changed: a list that is built anew loses what the pointer is on.
function setList(list, entries) {
  const key = JSON.stringify(entries);
  if (list.dataset.key === key) return;
  list.dataset.key = key;
  list.replaceChildren(...entries.map(([colour, kind, text]) => element('li', {}, swatch(colour, kind), text)));
}
function fillTable(body, rows, labels) {
  body.replaceChildren(...rows.map((cells) => element('tr', {}, ...cells.map((text, i) =>
    element('td', labels && labels[i] ? {data: {label: labels[i]}} : {}, String(text))))));
}

// ------------------------------------------------------------------------------------------------------------- state

const timeline = new Timeline($('timeline'));
const names = new Map();  // of jobs, also of those that have left
let overview = null;
let chosen = 0;  // the job whose row has the keyboard
let opened = 0;  // the job whose page is open; 0: none
let sortKey = '', sortDown = false;

function nameOf(job) { return job === 0 ? 'another job' : names.get(job) ? `${names.get(job)} (${job})` : `job ${job}`; }
timeline.nameOf = nameOf;
function jobNumbered(number) { return overview && overview.jobs ? overview.jobs.find((job) => job.job === number) : undefined; }

// ------------------------------------------------------------------------------------------------------------ actions

let saidTimer = 0;
function say(text) {
  $('said').textContent = text;
  clearTimeout(saidTimer);
  saidTimer = setTimeout(() => { $('said').textContent = ''; }, 6000);
}

async function act(job, action, value) {
  try {
    const answer = await fetch('act', {method: 'POST', headers: {'Content-Type': 'application/json'}, body: JSON.stringify({job, action, value})});
    const told = await answer.json();
    say(told.said || told.why);
  } catch (error) {
    say(`salus web does not answer: ${error.message}`);
  }
}

function askToKill(job) {
  $('confirm-text').textContent = `End ${nameOf(job)}? It is told to end (SIGTERM), or killed at once (SIGKILL).`;
  const dialog = $('confirm');
  dialog.returnValue = '';
  dialog.onclose = () => {
    if (dialog.returnValue === 'kill' || dialog.returnValue === 'kill now') act(job, dialog.returnValue);
  };
  dialog.showModal();
}

const isPaused = (job) => job.state === 'paused' || job.state === 'suspended';
function pauseOrResume(job) { act(job.job, isPaused(job) ? 'resume' : 'pause'); }
function changePriority(job, by) { act(job.job, 'priority', (job.priority || 0) + by); }

// The buttons act on the job as it is when they are pressed.
function actionButtons(number) {
  const button = (name, title, press) => element('button', {type: 'button', textContent: name, title, data: {action: name},
    onclick: (event) => { event.stopPropagation(); const job = jobNumbered(number); if (job) press(job); }});
  const pause = button('pause', 'after its current iteration (p)', pauseOrResume);
  pause.classList.add('pause');
  return [pause, button('+', 'raise its priority (+)', (job) => changePriority(job, 1)), button('−', 'lower its priority (−)', (job) => changePriority(job, -1)),
    button('end', 'end it; asks first (x)', (job) => askToKill(job.job))];
}

// -------------------------------------------------------------------------------------------------------------- parts

function showService(service) {
  const count = overview.devices.length, device = service.gpu ? `${service.device} ${service.gpu}` : service.device;
  const parts = [`salusd ${service.version}`, count > 1 ? `${count} devices` : device, `policy ${service.policy}`,
    `up ${timeText(service.uptime_s)}`];
  if (service.mps) parts.push('MPS');
  if (overview.read_only) parts.push('read-only');
  setText($('service'), parts.join(' · '));
}

// The first iterations of a job are lent what is free.
function newcomer(device) {
  const job = overview.jobs.find((one) => one.state === 'running' && one.lane === null && isOn(device, one));
  return job ? `, lent to the first iterations of ${nameOf(job.job)}` : '';
}

const isOn = (device, job) => overview.devices.length < 2 || job.gpu === device.number;

const blocks = [];  // of the devices
const BUSY_KEPT = 120;  // a minute or more
function makeBlock() {
  const made = {title: element('span'), busy: element('canvas', {className: 'busy'}), busyText: element('span'), note: element('span', {className: 'note'}),
    bar: element('div', {className: 'memory'}), legend: element('ul', {className: 'legend'}), shares: []};
  made.busy.setAttribute('role', 'img');
  made.bar.setAttribute('role', 'img');
  made.all = element('div', {className: 'device'}, element('p', {className: 'device-title'}, made.title, made.busy, made.busyText, made.note), made.bar, made.legend);
  return made;
}

function showDevices() {
  while (blocks.length < overview.devices.length) {
    blocks.push(makeBlock());
    $('devices').append(blocks.at(-1).all);
  }
  while (blocks.length > overview.devices.length) blocks.pop().all.remove();
  for (const [i, device] of overview.devices.entries()) showDevice(blocks[i], device);
}

function showDevice(block, device) {
  setText(block.title, overview.devices.length > 1 ? `gpu ${device.number} ${device.label}` : '');
  const known = device.busy_share !== null;
  block.busy.hidden = !known;
  setText(block.busyText, device.lost ? 'lost' : known ? `busy ${shareText(device.busy_share)}` : '');
  block.busyText.classList.toggle('bad', device.lost !== '');
  block.busyText.title = overview.service.device === 'host' ? 'the time that jobs were inside iterations, as a share of the last second' :
    'the share of the last second in which the GPU worked, as its driver says';
  block.busy.setAttribute('aria-label', `busy ${shareText(device.busy_share)}, and how busy it was before`);
  if (!$('overview').hidden && known) drawBusy(block.busy, block.shares, BUSY_KEPT);
  showMemory(block, device);
}

// Also while a job's page is shown.
function noteBusy() {
  for (const [i, device] of overview.devices.entries()) {
    if (!blocks[i] || device.busy_share === null) continue;
    blocks[i].shares.push(device.busy_share);
    if (blocks[i].shares.length > BUSY_KEPT) blocks[i].shares.shift();
  }
}

function showMemory(block, device) {
  const memory = device.memory;
  const wanted = memory.reserved + memory.saved, most = 1.5 * memory.capacity;  // more of the ghost would leave too little for the rest
  const total = Math.max(memory.capacity, Math.min(wanted, most), 1);
  const parts = [
    ...memory.jobs.map(({job, bytes}) => ({colour: colourOf(job), kind: '', bytes, text: `${nameOf(job)}: P ${bytesText(bytes)}`, name: names.get(job) || String(job)})),
    ...memory.lanes.map(({lane, bytes, holder}) => ({kind: 'lane', bytes, text: `lane ${lane}: ${bytesText(bytes)}${holder ? `, held by ${nameOf(holder)}` : ''}`, name: `lane ${lane}`})),
    {kind: 'other', bytes: memory.other, text: `other: ${bytesText(memory.other)}${newcomer(device)}`, name: 'other'},
    {kind: 'free', bytes: Math.max(memory.capacity - memory.reserved, 0), text: `free: ${bytesText(Math.max(memory.capacity - memory.reserved, 0))}`, name: 'free'}];
  const shown = parts.filter((part) => part.bytes > 0);
  const key = JSON.stringify([shown, memory.saved, total]);
  const bar = block.bar;
  if (bar.dataset.key === key) return;
  bar.dataset.key = key;
  bar.replaceChildren(...shown.map((part) => {
    const made = element('span', {className: part.kind || 'p', title: part.text});
    made.style.width = `${100 * part.bytes / total}%`;
    if (part.colour) made.style.background = part.colour;
    if (part.bytes / total > 0.06) made.textContent = part.name;
    return made;
  }));
  if (memory.saved > 0) {
    const ghost = element('span', {className: wanted > most ? 'ghost longer' : 'ghost', title: `without lanes: ${bytesText(memory.saved)} more`});
    ghost.style.left = `${100 * memory.reserved / total}%`;
    ghost.style.width = `${100 * (Math.min(wanted, total) - memory.reserved) / total}%`;
    const capacity = element('span', {className: 'capacity', title: `capacity: ${bytesText(memory.capacity)}`});
    capacity.style.left = `${100 * memory.capacity / total}%`;
    bar.append(ghost, ...(total > memory.capacity ? [capacity] : []));
  }
  setText(block.note, `${bytesText(memory.reserved)} of ${bytesText(memory.capacity)} reserved` +
    (memory.saved > 0 ? `; without lanes ${bytesText(memory.reserved + memory.saved)}` : ''));
  bar.setAttribute('aria-label', shown.map((part) => part.text).join('; '));
  const owners = shown.filter((part) => part.kind === ''), rest = shown.filter((part) => part.kind !== '');
  const entries = owners.slice(0, 8).map((part) => [part.colour, '', part.text]);
  if (owners.length > 8) entries.push(['', '', `and ${owners.length - 8} more jobs`]);
  entries.push(...rest.map((part) => ['', part.kind, part.text]));
  if (memory.saved > 0) entries.push(['', 'ghost', `what lanes save: ${bytesText(memory.saved)}`]);
  setList(block.legend, entries);
}

function showTimeline() {
  if ($('overview').hidden) return;
  const jobs = [...timeline.draw()].sort((a, b) => a - b);
  setList($('timeline-legend'), jobs.map((job) => [colourOf(job), '', nameOf(job)]));
  const parts = timeline.timeByLane(timeline.span).map(({title, times}) => {
    const share = [...times.values()].reduce((sum, ms) => sum + ms, 0) / timeline.span;
    return `${title} ${Math.round(100 * Math.min(share, 1))} %`;
  });
  const lanes = parts.length;
  for (const device of (overview && overview.devices) || [])
    if (device.gates_closed_share > 0) parts.push(`gates closed ${Math.round(100 * device.gates_closed_share)} %`);
  setText($('busy'), lanes > 4 ? `${lanes} lanes in use` : parts.join(', '));
}

// --------------------------------------------------------------------------------------------------------------- jobs

const COLUMNS = [
  {key: 'job', title: 'job', number: true, text: (job) => job.job},
  {key: 'name', title: 'name'},
  {key: 'user', title: 'user', label: 'user', text: (job) => job.user},
  {key: 'gpu', title: 'gpu', label: 'gpu', number: true, text: (job) => job.gpu ?? ''},
  {key: 'state', title: 'state'},
  {key: 'actions', title: ''},
  {key: 'class', title: 'class', text: (job) => job.class || ''},
  {key: 'priority', title: 'pri', label: 'priority', number: true, text: (job) => job.priority ?? ''},
  {key: 'rate', title: 'it/s', label: 'it/s', number: true, text: (job) => rateText(job.rate)},
  {key: 'of_alone', title: 'alone', label: 'of its speed alone', number: true, text: (job) => shareText(job.of_alone)},
  {key: 'share', title: 'share', label: 'share'},
  {key: 'progress', title: 'iterations', label: 'iterations', number: true, text: (job) => job.iterations || ''},
  {key: 'left_s', title: 'left', label: 'left', number: true, text: (job) => timeText(job.left_s)},
  {key: 'p', title: 'P', label: 'P', number: true, text: (job) => (job.p === undefined ? '' : bytesText(job.p))},
  {key: 't', title: 'T', label: 'T', number: true, text: (job) => (job.t === undefined ? '' : bytesText(job.t))},
  {key: 'why', title: 'why', text: (job) => job.why}];
const rows = new Map();

function makeRow(number) {
  const row = element('tr', {tabIndex: 0, data: {job: number}, onclick: () => choose(number), ondblclick: () => openJob(number), onfocus: () => choose(number)});
  const cells = {};
  for (const column of COLUMNS) {
    cells[column.key] = element('td', {className: column.number ? 'number' : column.key});
    if (column.label) cells[column.key].dataset.label = column.label;
    row.append(cells[column.key]);
  }
  cells.link = element('a', {href: `#job/${number}`});
  cells.name.append(swatch(colourOf(number)), cells.link);
  const fill = element('i'), fair = element('b');
  cells.meter = element('span', {className: 'meter'}, fill, fair);
  cells.shareText = element('span');
  cells.share.append(cells.meter, ' ', cells.shareText);
  Object.assign(cells, {fill, fair});
  return {row, cells};
}

function updateRow({row, cells}, job) {
  for (const column of COLUMNS) if (column.text) setText(cells[column.key], column.text(job));
  setText(cells.link, job.name || `job ${job.job}`);
  setText(cells.state, job.state + (job.clients > 1 ? ` ×${job.clients}` : ''));
  cells.state.title = job.clients > 1 ? `${job.clients} processes` : '';
  cells.state.className = `state ${String(job.state).replace(/[^a-z]/g, '')}`;
  const known = job.share !== null && job.share !== undefined;
  cells.meter.hidden = !known;
  cells.fill.style.width = `${100 * (job.share || 0)}%`;
  cells.fair.hidden = job.fair === null || job.fair === undefined;
  cells.fair.style.left = `${100 * (job.fair || 0)}%`;
  cells.meter.title = known ? `${shareText(job.share)} of the time in its iterations${cells.fair.hidden ? '' : `; a fair share is ${shareText(job.fair)}`}` : '';
  setText(cells.shareText, shareText(job.share));
  updateActions(cells.actions, job);
  row.classList.toggle('chosen', job.job === chosen);
}

function updateActions(place, job) {
  if (job.may_change && place.childElementCount === 0) place.append(...actionButtons(job.job));
  if (!job.may_change && place.childElementCount > 0) place.replaceChildren();
  const pause = place.querySelector('.pause');
  if (pause) setText(pause, isPaused(job) ? 'resume' : 'pause');
}

function shownJobs() {
  const wanted = $('filter').value.trim().toLowerCase();
  const jobs = (overview.jobs || []).filter((job) => !wanted || [job.job, job.name, job.user, job.state, job.class].join(' ').toLowerCase().includes(wanted));
  const value = (job) => job[sortKey] ?? -1;
  const order = (a, b) => (typeof a === 'string' || typeof b === 'string' ? String(a).localeCompare(String(b)) : a - b);
  return jobs.sort((a, b) => (sortDown ? -1 : 1) * order(value(a), value(b)) || a.job - b.job);
}

function showJobs() {
  const jobs = shownJobs(), body = $('jobs').tBodies[0], present = new Set(overview.jobs.map((job) => job.job));
  for (const [number, {row}] of rows) {
    if (present.has(number)) continue;
    row.remove();
    rows.delete(number);
  }
  for (const job of overview.jobs) {
    if (!rows.has(job.job)) rows.set(job.job, makeRow(job.job));
    updateRow(rows.get(job.job), job);
  }
  const order = jobs.map((job) => rows.get(job.job).row);
  if (order.length !== body.childElementCount || order.some((row, i) => body.children[i] !== row)) {
    const focused = document.activeElement;
    body.replaceChildren(...order);
    if (body.contains(focused)) focused.focus();
  }
  hideWhatIsTheSame();
  $('jobs').hidden = overview.jobs.length === 0;
  $('no-jobs').hidden = overview.jobs.length > 0;
  const running = overview.jobs.filter((job) => job.state === 'running').length;
  setText($('jobs-count'), `${overview.jobs.length}${jobs.length !== overview.jobs.length ? `, ${jobs.length} shown` : ''}, ${running} running`);
}

// Columns that say the same of every job, as in `salus ps`.
function hideWhatIsTheSame() {
  const jobs = overview.jobs, same = {gpu: overview.devices.length < 2, user: jobs.every((job) => job.mine), class: jobs.every((job) => (job.class || 'batch') === 'batch'),
    priority: jobs.every((job) => (job.priority || 0) === 0), left_s: jobs.every((job) => (job.left_s ?? null) === null)};
  for (const [i, column] of COLUMNS.entries()) {
    if (!(column.key in same)) continue;
    $('jobs').tHead.rows[0].cells[i].classList.toggle('same', same[column.key]);
    for (const {cells} of rows.values()) cells[column.key].classList.toggle('same', same[column.key]);
  }
}

function showEnded() {
  const key = JSON.stringify(overview.ended), part = $('ended-part');
  setText($('ended-count'), overview.ended.length);
  if (!part.open || part.dataset.key === key) return;
  part.dataset.key = key;
  fillTable($('ended').tBodies[0], overview.ended.map((job) => [job.job, job.name, job.user, job.status ?? 'not known', timeText(job.elapsed_s),
    new Date(1000 * job.ended_unix_s).toLocaleTimeString(), job.command]), ['job', '', 'user', 'status', 'ran', 'ended', '']);
}

function makeHead() {
  const head = $('jobs').tHead.rows[0];
  for (const column of COLUMNS) {
    const cell = element('th', {textContent: column.title, className: column.number ? 'number' : ''});
    if (column.title) {
      cell.dataset.sort = column.key;
      cell.onclick = () => sortBy(column.key);
    }
    head.append(cell);
  }
  sortBy('job');
}
function sortBy(key) {
  sortDown = key === sortKey ? !sortDown : !['job', 'name', 'user', 'state'].includes(key);
  sortKey = key;
  for (const cell of $('jobs').tHead.rows[0].cells)
    cell.ariaSort = cell.dataset.sort === key ? (sortDown ? 'descending' : 'ascending') : null;
  if (overview && overview.jobs) showJobs();
}

// --------------------------------------------------------------------------------------------------------- a job's page

function bars(place, entries) {
  const key = JSON.stringify(entries);
  if (place.dataset.key === key) return;
  place.dataset.key = key;
  const most = Math.max(1e-9, ...entries.map((entry) => entry.value));
  place.replaceChildren(...entries.map(({name, value, text, colour}) => {
    const fill = element('div', {className: 'fill'});
    fill.style.width = `${100 * value / most}%`;
    if (colour) fill.style.background = colour;
    return element('div', {}, element('span', {textContent: name}), element('div', {className: 'track'}, fill), element('span', {className: 'number', textContent: text}));
  }));
  if (entries.length === 0) place.textContent = 'nothing yet';
}

function showLane(number) {
  const lanes = timeline.timeByLane(60_000).filter(({times}) => times.has(number));
  const times = new Map();
  for (const lane of lanes) for (const [job, ms] of lane.times) times.set(job, (times.get(job) || 0) + ms);
  const sum = [...times.values()].reduce((all, ms) => all + ms, 0);
  const sorted = [...times].sort((a, b) => b[1] - a[1]).slice(0, 12);
  bars($('job-lane'), sorted.map(([job, ms]) => ({name: nameOf(job), value: ms, text: shareText(ms / sum), colour: colourOf(job)})));
}

function showFacts(number) {
  const job = jobNumbered(number), ended = overview && overview.ended ? overview.ended.find((one) => one.job === number) : undefined;
  const any = job || ended;
  setText($('job-title'), nameOf(number));
  setText($('job-why'), job ? `${job.state}${job.why ? `: ${job.why}` : ''}` : ended ? `ended with status ${ended.status ?? 'not known'}` : 'There is no such job (any more).');
  updateActions($('job-actions'), job || {may_change: false});
  if (!any) return $('job-facts').replaceChildren();
  const facts = {user: any.user, command: any.command, class: any.class, gpu: overview && overview.devices && overview.devices.length > 1 ? any.gpu : undefined, priority: any.priority, weight: any.weight, lane: any.lane,
    iterations: any.iterations, 'it/s': rateText(any.rate), 'of its speed alone': shareText(any.of_alone), share: shareText(any.share), 'fair share': shareText(any.fair),
    'time left': timeText(any.left_s), running: timeText(any.elapsed_s), waited: timeText(any.waited_s), 'device time': timeText(any.device_s)};
  const known = Object.entries(facts).filter(([, value]) => value !== undefined && value !== null && value !== '');
  if ($('job-facts').dataset.key === JSON.stringify(known)) return;
  $('job-facts').dataset.key = JSON.stringify(known);
  $('job-facts').replaceChildren(...known.map(([name, value]) => element('div', {className: name === 'command' ? 'long' : ''},
    element('dt', {textContent: name}), element('dd', {textContent: String(value)}))));
}

const REASONS = {turn: 'its turn', memory: 'memory', reservation: 'room kept for another', profiling: 'others\' first iterations', paging: 'paging',
  mapping: 'its lane to be mapped', 'stopped-holder': 'a holder that is stopped', order: 'the policy\'s order'};

// What is in use all the time stands below what comes and goes.
function showIteration(memory, colour) {
  $('job-iteration-part').hidden = memory === undefined;
  if (memory === undefined) return;
  const most = memory.most_bytes, count = most.length, least = memory.least_bytes, length = memory.step_ms * count;
  const lengthText = length < 1000 ? `${length.toPrecision(3)} ms` : timeText(length / 1000);
  // Each step is as wide as it lasts.
  const samples = most.flatMap((bytes, i) => [[count - i, least, bytes - least], [count - i - 1, least, bytes - least]]);
  setText($('job-iteration-note'), lengthText);
  drawAreas($('job-iteration'), samples, [colour, themeColour('--lane')], bytesText, {span: count, from: '0', to: lengthText});
  $('job-iteration').setAttribute('aria-label', `memory in use over one iteration, from ${bytesText(least)} to ${bytesText(Math.max(...most))}`);
}

async function showPast() {
  const number = opened;
  if (number === 0) return;
  showFacts(number);
  showLane(number);
  const answer = await fetch(`job/${number}`).catch(() => null);
  if (!answer || !answer.ok || number !== opened) return;
  const past = await answer.json();
  if (number !== opened) return;
  const colour = colourOf(number);
  drawAreas($('job-rate'), past.samples.map((sample) => [sample[0], sample[1]]), [colour], rateText);
  drawAreas($('job-memory'), past.samples.map((sample) => [sample[0], sample[3], sample[4]]), [colour, themeColour('--lane')], bytesText);
  $('job-rate').setAttribute('aria-label', `rate over time, now ${rateText((past.samples.at(-1) || [])[1])}`);
  $('job-memory').setAttribute('aria-label', `memory over time, now ${bytesText((past.samples.at(-1) || [0, 0, 0, 0, 0])[3])} of P`);
  showIteration(past.iteration_memory, colour);
  bars($('job-waited'), Object.entries(past.waited_s).sort((a, b) => b[1] - a[1])
    .map(([reason, seconds]) => ({name: REASONS[reason] || reason, value: seconds, text: timeText(seconds)})));
  fillTable($('job-clients').tBodies[0], past.clients.map((client) => [client.pid || '', client.state,
    ...['p', 't', 'private', 'in_lane'].map((key) => (client[key] === undefined ? '' : bytesText(client[key])))]), ['pid', '', 'P', 'T', 'private', 'lane']);
  $('job-log-part').hidden = past.log === undefined;
  if (past.log === undefined || $('job-log').textContent === past.log) return;
  const log = $('job-log'), atEnd = log.scrollTop + log.clientHeight >= log.scrollHeight - 4;
  log.textContent = past.log;
  if (atEnd) log.scrollTop = log.scrollHeight;
}

function openJob(number) { location.hash = `#job/${number}`; }
function follow() {
  const wanted = /^#job\/(\d+)$/.exec(location.hash);
  opened = wanted ? Number(wanted[1]) : 0;
  $('overview').hidden = opened !== 0;
  $('job').hidden = opened === 0;
  if (opened === 0) return show();
  choose(opened);
  $('job-actions').replaceChildren();
  $('job-log').textContent = '';
  showPast();
}

// -------------------------------------------------------------------------------------------------------- rarer parts

async function showUsage() {
  const answer = await fetch('usage').catch(() => null);
  if (!answer) return;
  const usage = await answer.json();
  if (!usage.users) return fillTable($('usage').tBodies[0], [[usage.why]]);
  const most = Math.max(1e-9, ...usage.users.map((user) => user.device_s));
  $('usage').tBodies[0].replaceChildren(...usage.users.map((user) => {
    const fill = element('i'), meter = element('span', {className: 'meter'}, fill);
    fill.style.width = `${100 * user.device_s / most}%`;
    const cell = (label, text) => element('td', {textContent: text, data: {label}});
    return element('tr', {}, cell('', user.user), cell('jobs', user.jobs), cell('iterations', user.iterations),
      cell('device time', user.device_s < 360 ? timeText(user.device_s) : `${(user.device_s / 3600).toFixed(1)} h`),
      cell('memory time', `${(user.memory_time_gib_s / 3600).toFixed(2)} GiB h`), element('td', {}, meter));
  }));
  if (usage.users.length === 0) fillTable($('usage').tBodies[0], [['no jobs have ended']]);
}

const LENGTHS = {stated: 'stated', history: 'as before', 'runs-on': 'not known', new: 'not known', aside: 'takes no turns'};
async function showForecast() {
  const answer = await fetch('forecast').catch(() => null);
  if (!answer) return;
  const forecast = await answer.json();
  setText($('forecast-note'), forecast.why || '');
  if (answer.status !== 200) return;
  const parts = forecast.devices || [forecast], policies = parts[0].policies.map((row) => row.policy);
  const cell = (tag, text, number) => element(tag, {textContent: text, className: number ? 'number' : ''});
  $('forecast').tHead.rows[0].replaceChildren(cell('th', 'job', true), cell('th', 'name'), cell('th', 'length'),
    ...policies.map((policy) => cell('th', policy === parts[0].policy ? `${policy} (now)` : policy, true)));
  const row = (job, name, length, left, none) => element('tr', {}, cell('td', job, true), cell('td', name), cell('td', length),
    ...policies.map((policy) => cell('td', timeText(left[policy]) || none, true)));
  const noEnd = (length) => (['stated', 'history'].includes(length) ? 'not while others run' : '');
  $('forecast').tBodies[0].replaceChildren(...parts.flatMap((part, i) => {
    const means = Object.fromEntries(part.policies.map((one) => [one.policy, one.mean_left_s]));
    return [row('', parts.length > 1 ? `gpu ${overview.devices[i]?.number ?? i}: mean` : 'mean', '', means, ''),
      ...part.jobs.map((job) => row(job.job, job.name, LENGTHS[job.length] || job.length, job.left_s, noEnd(job.length)))];
  }));
}

function troubles() {
  const service = overview.service, found = [];
  const unshared = overview.jobs.filter((job) => job.state === 'unshared' || job.state === 'unseen');
  if (unshared.length > 0) found.push(['jobs without sharing', unshared.map((job) => nameOf(job.job)).join(', ')]);
  for (const device of overview.devices) if (device.lost) found.push([`gpu ${device.number} is lost`, device.lost]);
  const lost = overview.jobs.filter((job) => job.state === 'lost');
  if (lost.length > 0) found.push(['jobs whose GPU is lost', lost.map((job) => nameOf(job.job)).join(', ')]);
  if (service.restarts > 0) found.push(['restarts of the service', `${service.restarts} since this page's server started`]);
  if (service.fallbacks > 0) found.push(['policy', 'it misbehaved, and fifo took over']);
  if (service.denials > 0) found.push(['denied', `${service.denials} requests for memory in mid-iteration`]);
  if (service.refusals > 0) found.push(['refused', `${service.refusals} jobs that could never fit`]);
  if (service.orphans > 0) found.push(['memory', `${bytesText(service.orphans)} still held by jobs of an earlier service`]);
  if (!service.recording) found.push(['trace', 'is no longer recorded']);
  return found;
}
let findings = [];
function showHealth() {
  const found = troubles(), bad = found.length + findings.filter((finding) => !finding.ok).length;
  setText($('health-count'), bad === 0 ? 'no trouble seen' : `${bad} to look at`);
  $('health-count').classList.toggle('bad', bad > 0);
  const lines = [...found.map(([what, detail]) => ['NO', what, detail]), ...findings.map((finding) => [finding.ok ? 'ok' : 'NO', finding.what, finding.detail])];
  const key = JSON.stringify(lines), body = $('health').tBodies[0];
  if (!$('health-part').open || body.dataset.key === key) return;
  body.dataset.key = key;
  fillTable(body, lines);
  for (const row of body.rows) row.cells[0].classList.toggle('bad', row.cells[0].textContent === 'NO');
}
async function examine() {
  const answer = await fetch('health').catch(() => null);
  if (answer && answer.ok) findings = await answer.json();
  if (overview && overview.jobs) showHealth();
}

// ------------------------------------------------------------------------------------------------------------ the whole

function show() {
  if (!overview) return;
  $('problem').hidden = !overview.problem;
  setText($('problem'), overview.problem || '');
  if (overview.problem) return;
  for (const job of [...overview.ended, ...overview.jobs]) names.set(job.job, job.name);
  showService(overview.service);
  timeline.devices = overview.devices;
  $('forecast-part').hidden = !overview.forecast;
  showHealth();
  if (opened !== 0) return showFacts(opened);
  showDevices();
  showJobs();
  showEnded();
}

function listen() {
  const source = new EventSource('events');
  const link = (text, kind) => {
    setText($('link'), text);
    $('link').className = `pill ${kind}`;
  };
  source.addEventListener('overview', (event) => {
    overview = JSON.parse(event.data);
    link('live', 'live');
    if (overview.devices) noteBusy();
    show();
  });
  source.addEventListener('turns', (event) => {
    timeline.take(JSON.parse(event.data));
    showTimeline();
  });
  source.onerror = () => link(source.readyState === EventSource.CLOSED ? 'ended: start salus web again' : 'connecting again', 'gone');
}

// ------------------------------------------------------------------------------------------------------------- keyboard

function choose(number) {
  chosen = number;
  for (const [job, {row}] of rows) row.classList.toggle('chosen', job === number);
}
function move(by) {
  const jobs = shownJobs();
  if (jobs.length === 0) return;
  const at = jobs.findIndex((job) => job.job === chosen);
  const next = jobs[at < 0 ? 0 : Math.min(Math.max(at + by, 0), jobs.length - 1)].job;
  choose(next);
  rows.get(next).row.focus();
}
function setSpan(seconds) {
  timeline.span = 1000 * seconds;
  for (const button of document.querySelectorAll('[data-span]')) button.ariaPressed = String(Number(button.dataset.span) === seconds);
  showTimeline();
}
function ifMine(press) {
  const job = jobNumbered(opened || chosen);
  if (!job) return say('choose a job first');
  if (!job.may_change) return say(overview.read_only ? 'this page only shows' : `${nameOf(job.job)} is another user's`);
  press(job);
}
const KEYS = {
  ArrowDown: () => move(1), j: () => move(1), ArrowUp: () => move(-1), k: () => move(-1),
  Enter: () => { if (chosen && opened === 0) openJob(chosen); },
  Escape: () => { if (opened !== 0) location.hash = ''; else $('filter').value = '', show(); },
  p: () => ifMine(pauseOrResume), x: () => ifMine((job) => askToKill(job.job)),
  '+': () => ifMine((job) => changePriority(job, 1)), '-': () => ifMine((job) => changePriority(job, -1)),
  '/': () => { if (opened === 0) $('filter').focus(); },
  t: () => setSpan({10: 30, 30: 60, 60: 10}[timeline.span / 1000]),
  '?': () => $('help').showModal()};

document.addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey || document.querySelector('dialog[open]')) return;
  const typing = event.target instanceof HTMLInputElement;
  if (typing && event.key !== 'Escape') return;
  if (event.key === 'Enter' && event.target instanceof HTMLElement && event.target.closest('button, a, summary')) return;
  if (!KEYS[event.key] || (opened !== 0 && ['ArrowDown', 'ArrowUp'].includes(event.key))) return;
  event.preventDefault();
  if (typing) event.target.blur();
  KEYS[event.key]();
});

$('filter').addEventListener('input', () => { if (overview && overview.jobs) showJobs(); });
$('help-button').onclick = () => $('help').showModal();
for (const button of document.querySelectorAll('[data-span]')) button.onclick = () => setSpan(Number(button.dataset.span));
$('usage-part').ontoggle = () => { if ($('usage-part').open) showUsage(); };
$('forecast-part').ontoggle = () => { if ($('forecast-part').open) showForecast(); };
$('ended-part').ontoggle = show;
$('health-part').ontoggle = () => { if ($('health-part').open) examine(); };
$('timeline').onpointermove = (event) => {
  const found = timeline.at(event.offsetX, event.offsetY), tip = $('tip');
  tip.hidden = !found;
  if (!found) return;
  tip.textContent = `${found.row.title}: ${found.row.gates ? '' : nameOf(found.span.job)} ${((found.span.end - found.span.start) / 1000).toPrecision(3)} s`;
  tip.style.left = `${event.clientX + 12}px`;
  tip.style.top = `${event.clientY + 14}px`;
};
$('timeline').onpointerleave = () => { $('tip').hidden = true; };
window.addEventListener('hashchange', follow);
window.addEventListener('resize', () => { showTimeline(); showPast(); });

makeHead();
setSpan(10);
follow();
listen();
examine();
setInterval(showPast, 2000);
setInterval(() => { if ($('usage-part').open) showUsage(); }, 30_000);
setInterval(() => { if ($('forecast-part').open) showForecast(); }, 3000);
// The server tells every half second to two seconds; in between the picture moves on, unless the reader wants it still.
if (!matchMedia('(prefers-reduced-motion: reduce)').matches) setInterval(() => { if (!document.hidden) showTimeline(); }, 125);
