const data = JSON.parse(document.getElementById('data').textContent);
const byId = (id) => document.getElementById(id);
// Number of names up to which pairs are a table of buttons. More are a picture of points.
const MAX_TABLE = 30;
const SIGNS = ['+', '?', '/', '.'];
const STATES = ['connected', 'another zone was not asked', 'leaves by a gateway', 'not connected'];

function element(name, text, attributes = {}) {
  const made = document.createElement(name);
  if (text !== undefined) { made.textContent = text; }
  for (const [key, value] of Object.entries(attributes)) { made.setAttribute(key, value); }
  return made;
}

function table(titles, rows, caption) {
  const made = element('table');
  if (caption !== undefined) { made.append(element('caption', caption)); }
  const head = element('tr');
  head.append(...titles.map((title) => element('th', title, { scope: 'col' })));
  const thead = element('thead');
  thead.append(head);
  const body = element('tbody');
  body.append(...rows.map((cells) => {
    const row = element('tr');
    row.append(...cells.map((cell) => {
      if (!(cell instanceof Node)) { return element('td', cell); }
      const place = element('td');
      place.append(cell);
      return place;
    }));
    return row;
  }));
  made.append(thead, body);
  return made;
}

function lightWay(way, isStopped) {
  const on = new Set(way.map(String));
  const steps = new Set(way.slice(1).map((place, step) => [way[step], place].sort((a, b) => a - b).join(' ')));
  for (const place of places) {
    place.classList.toggle('lit', on.has(place.dataset.place));
    place.classList.toggle('stop', isStopped && place.dataset.place === String(way[way.length - 1]));
  }
  for (const link of links) {
    link.classList.toggle('lit', steps.has(`${link.dataset.from} ${link.dataset.to}`));
  }
  picture.classList.toggle('way', way.length > 0);
  lookAt(way.map((place) => places[place]));
}

const nameOf = (place) => places[place].querySelector('.name').textContent;
let pairs = data.pairs[0];
// The pair that is answered, as the number of the sender and that of the destination.
let asked = '';

function answer(from, to) {
  const count = pairs.names.length;
  const cell = pairs.cells[from * count + to];
  asked = `${from} ${to}`;
  const link = new URLSearchParams({ between: pairs.what, from: pairs.names[from], to: pairs.names[to] });
  history.replaceState(null, '', `#${link}`);
  byId('from').value = String(from);
  byId('to').value = String(to);
  for (const button of byId('matrix').querySelectorAll('button')) {
    button.setAttribute('aria-pressed', String(button.dataset.pair === asked));
  }
  const shown = byId('answer');
  shown.replaceChildren();
  shown.hidden = false;
  if (cell === null) {
    shown.append(element('p', `${pairs.names[from]} to ${pairs.names[to]}: the pair cannot be asked.`));
    lightWay([], false);
    return;
  }
  const [state, verdict, sender, receiver, way, by, row, decisions] = cell;
  const text = (number) => pairs.texts[number];
  shown.append(element('p', text(verdict), { class: 'verdict' }));
  shown.append(element('p', `${text(sender)} -> ${text(receiver)}, ${pairs.protocol}: ${STATES[state]}`));
  const path = pairs.ways[way].map(nameOf);
  if (path.length > 0) { shown.append(element('p', path.join(' - '), { class: 'path' })); }
  if (row !== 0) {
    const stop = element('p', by === 0 ? 'by: ' : `by: ${text(by)} `, { class: 'by' });
    stop.append(element('code', text(row)));
    shown.append(stop);
  }
  if (decisions.length > 0) {
    const rows = decisions.map((one) => one.map((number, place) => place === 3 ? element('code', text(number)) : text(number)));
    const details = element('details', undefined);
    details.append(element('summary', `${decisions.length} decisions`), table(['device', 'stage', 'decision', 'row'], rows));
    shown.append(details);
  } else {
    shown.append(element('p', 'Decisions: patchbay reach --rows'));
  }
  lightWay(pairs.ways[way], state === 3);
}

function showPairs() {
  const wanted = byId('filter').value.trim().toLowerCase();
  const isShown = (name) => name.toLowerCase().includes(wanted);
  const shown = pairs.names.map((name, place) => [name, place]).filter(([name]) => isShown(name)).map(([, place]) => place);
  const count = pairs.names.length;
  const cells = pairs.cells;
  const states = [0, 0, 0, 0];
  for (const from of shown) {
    for (const to of shown) {
      const cell = cells[from * count + to];
      if (cell !== null) { states[cell[0]] += 1; }
    }
  }
  const numbers = STATES.map((state, place) => `${states[place]} ${state}`).filter((_, place) => states[place] > 0);
  const more = pairs.leftOut > 0 ? `; ${pairs.leftOut} more are not asked` : '';
  byId('shown').textContent = `${shown.length} of ${count} ${pairs.what}${more}; pairs: ${numbers.join(', ') || 'none'}`;
  byId('matrix').replaceChildren(shown.length <= MAX_TABLE ? asTable(shown, count) : asPoints(shown, count));
}

function asTable(shown, count) {
  const made = element('table');
  const head = element('tr');
  head.append(element('td'), ...shown.map((to) => element('th', pairs.names[to], { scope: 'col' })));
  const thead = element('thead');
  thead.append(head);
  const body = element('tbody');
  for (const from of shown) {
    const row = element('tr');
    row.append(element('th', pairs.names[from], { scope: 'row' }));
    for (const to of shown) {
      const place = element('td');
      const cell = pairs.cells[from * count + to];
      if (cell !== null) {
        const button = element('button', SIGNS[cell[0]], {
          type: 'button', class: `cell s${cell[0]}`, 'data-pair': `${from} ${to}`, 'aria-pressed': String(asked === `${from} ${to}`),
          'aria-label': `${pairs.names[from]} to ${pairs.names[to]}: ${STATES[cell[0]]}`,
        });
        button.addEventListener('click', () => answer(from, to));
        place.append(button);
      }
      row.append(place);
    }
    body.append(row);
  }
  body.addEventListener('keydown', (event) => move(event, body));
  made.append(thead, body);
  return made;
}

// Arrow keys go to the next pair.
function move(event, body) {
  const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  const step = steps[event.key];
  const place = event.target.closest('td');
  if (step === undefined || place === null) { return; }
  const row = body.rows[[...body.rows].indexOf(place.parentElement) + step[0]];
  const next = row === undefined ? undefined : row.cells[place.cellIndex + step[1]];
  const button = next === undefined ? null : next.querySelector('button');
  if (button !== null) { button.focus(); event.preventDefault(); }
}

function asPoints(shown, count) {
  const size = Math.max(2, Math.min(12, Math.floor(900 / shown.length)));
  const made = element('canvas', undefined, {
    width: shown.length * size, height: shown.length * size, role: 'img',
    'aria-label': `${shown.length} senders from top to bottom, the same destinations from left to right`,
  });
  const context = made.getContext('2d');
  const style = getComputedStyle(document.documentElement);
  const colours = ['--good', '--unknown', '--leave', '--bad'].map((name) => style.getPropertyValue(name));
  shown.forEach((from, y) => shown.forEach((to, x) => {
    const cell = pairs.cells[from * count + to];
    if (cell === null) { return; }
    context.fillStyle = colours[cell[0]];
    context.fillRect(x * size, y * size, size, size);
  }));
  const pair = (event) => {
    const box = made.getBoundingClientRect();
    const at = (position) => shown[Math.min(shown.length - 1, Math.max(0, Math.floor(position / size)))];
    return [at(event.clientY - box.top), at(event.clientX - box.left)];
  };
  made.addEventListener('mousemove', (event) => {
    const [from, to] = pair(event);
    const cell = pairs.cells[from * count + to];
    made.title = `${pairs.names[from]} to ${pairs.names[to]}${cell === null ? '' : `: ${STATES[cell[0]]}`}`;
  });
  made.addEventListener('click', (event) => answer(...pair(event)));
  return made;
}

function choosePairs(place) {
  pairs = data.pairs[place];
  for (const id of ['from', 'to']) {
    byId(id).replaceChildren(...pairs.names.map((name, number) => element('option', name, { value: number })));
    byId(id).selectedIndex = -1;
  }
  byId('answer').hidden = true;
  asked = '';
  lightWay([], false);
  showPairs();
}

// Chooses the pair of a link to this page.
function follow() {
  const link = new URLSearchParams(location.hash.slice(1));
  const place = data.pairs.findIndex((of) => of.what === link.get('between'));
  if (place < 0) { return; }
  byId('what').value = String(place);
  choosePairs(place);
  const [from, to] = ['from', 'to'].map((end) => pairs.names.indexOf(link.get(end)));
  if (from < 0 || to < 0) { return; }
  answer(from, to);
  byId('answer').scrollIntoView({ block: 'nearest' });
}

function showFindings() {
  const wanted = byId('finding-filter').value.trim().toLowerCase();
  const severities = new Set([...document.querySelectorAll('[data-severity]')].filter((box) => box.checked).map((box) => box.dataset.severity));
  const isShown = (one) => severities.has(one.severity) && `${one.rule} ${one.object} ${one.message}`.toLowerCase().includes(wanted);
  const shown = data.findings.filter(isShown);
  const more = data.findingsLeftOut > 0 ? `, ${data.findingsLeftOut} more are left out` : '';
  byId('finding-count').textContent = `${shown.length} of ${data.findings.length}${more}`;
  const rows = shown.slice(0, 500).map((one) => [
    one.rule, element('span', one.severity, { class: one.severity }), one.object, one.message, one.repair,
  ]);
  byId('finding-list').replaceChildren(table(['rule', 'severity', 'row', 'what happens', 'what to do'], rows));
}

function list(lines) {
  const made = element('div');
  made.append(...lines.map((line) => element('div', line)));
  return made;
}

function showConnects() {
  const rows = data.connects.map((one) => [
    one.name, element('span', one.state, { class: one.isGood ? 'good' : 'error' }), list(one.networks), one.key,
    list(one.capacity), list(one.reasons),
  ]);
  byId('connect-list').replaceChildren(table(['connect', 'state', 'networks', 'tunnel key', 'used and left', 'reasons'], rows));
}

function showDifferences() {
  const { before, come, go, changes, leftOut } = data.differences;
  const parts = [`Before: ${before}`, `${changes.length + leftOut} ways differ`];
  if (come.length > 0) { parts.push(`machines that come: ${come.join(', ')}`); }
  if (go.length > 0) { parts.push(`machines that go: ${go.join(', ')}`); }
  if (leftOut > 0) { parts.push(`${leftOut} are left out`); }
  byId('difference-text').textContent = `${parts.join('; ')}.`;
  const rows = changes.map((one) => [one.change, one.from, one.to, one.protocols, one.before, one.after, one.by || '']);
  byId('difference-list').replaceChildren(table(['way', 'from', 'to', 'packets', 'before', 'after', 'by'], rows));
}

// Age of a time when the page is read.
function age(time) {
  const seconds = (Date.now() - Date.parse(time)) / 1000;
  if (seconds < -2) { return 'ahead of the clock of this machine'; }
  const units = [['days', 86400], ['hours', 3600], ['minutes', 60]];
  const fitting = units.find(([, length]) => seconds >= 2 * length);
  return fitting === undefined ? 'new' : `${Math.floor(seconds / fitting[1])} ${fitting[0]} old`;
}

function showSources() {
  const shown = data.sources.map(({ name, time }) => `${name}, ${time === null ? 'of an unknown time' : `of ${time}, ${age(time)}`}`);
  byId('sources').textContent = shown.join('; ');
  byId('sources').hidden = shown.length === 0;
}

function hide(section) {
  byId(section).hidden = true;
  document.querySelector(`nav a[href="#${section}"]`).hidden = true;
}

// A flat picture needs no high frame.
document.querySelector('.frame').style.aspectRatio = `${full[2]} / ${full[3]}`;
byId('title').textContent = data.title;
byId('facts').textContent = data.facts.filter(([count]) => count > 0).map(([count, noun]) => `${count} ${noun}`).join(', ');
showSources();
data.pairs.forEach((of, place) => byId('what').append(element('option', of.what, { value: place })));
byId('what').addEventListener('change', (event) => choosePairs(Number(event.target.value)));
byId('filter').addEventListener('input', showPairs);
for (const id of ['from', 'to']) {
  byId(id).addEventListener('change', () => {
    const [from, to] = [byId('from').selectedIndex, byId('to').selectedIndex];
    if (from >= 0 && to >= 0) { answer(from, to); }
  });
}
byId('finding-filter').addEventListener('input', showFindings);
for (const box of document.querySelectorAll('[data-severity]')) { box.addEventListener('change', showFindings); }
byId('theme').addEventListener('click', () => {
  const root = document.documentElement;
  const next = { undefined: 'light', light: 'dark', dark: undefined }[root.dataset.theme];
  if (next === undefined) { delete root.dataset.theme; } else { root.dataset.theme = next; }
  byId('theme').textContent = `Theme: ${next || 'system'}`;
  showPairs();
});
for (const id of ['search', 'fit']) { byId(id).addEventListener('click', () => lightWay([], false)); }
choosePairs(0);
showFindings();
if (data.connects.length > 0) { showConnects(); } else { hide('connects'); }
if (data.findings.length === 0) { hide('findings'); }
if (data.differences === null) { hide('differences'); } else { showDifferences(); }
window.addEventListener('hashchange', follow);
follow();
