'use strict';
const picture = document.getElementById('picture');
const found = document.getElementById('found');
const places = [...picture.querySelectorAll('.place')];
const links = [...picture.querySelectorAll('.link')];
const whole = picture.viewBox.baseVal;
const full = [whole.x, whole.y, whole.width, whole.height];
// Height of a view in widths, above which only its beginning is seen at first.
const MAX_HEIGHT = 2;
const begin = [full[0], full[1], full[2], Math.min(full[3], full[2] * MAX_HEIGHT)];
let view = begin.slice();

function show() {
  picture.setAttribute('viewBox', view.join(' '));
}

function zoom(factor, x, y) {
  const [left, top, width, height] = view;
  const cx = x === undefined ? left + width / 2 : x;
  const cy = y === undefined ? top + height / 2 : y;
  view = [cx - (cx - left) * factor, cy - (cy - top) * factor, width * factor, height * factor];
  show();
}

function point(event) {
  const inverse = picture.getScreenCTM().inverse();
  return new DOMPoint(event.clientX, event.clientY).matrixTransform(inverse);
}

// Shows some places and their surroundings, within the picture.
function lookAt(shown) {
  if (shown.length === 0) { return; }
  const boxes = shown.map((place) => place.getBBox());
  const left = Math.min(...boxes.map((box) => box.x));
  const top = Math.min(...boxes.map((box) => box.y));
  const right = Math.max(...boxes.map((box) => box.x + box.width));
  const bottom = Math.max(...boxes.map((box) => box.y + box.height));
  const margin = Math.max(right - left, bottom - top) * 0.15 + 60;
  const [x, y] = [Math.max(full[0], left - margin), Math.max(full[1], top - margin)];
  const width = Math.min(full[0] + full[2], right + margin) - x;
  const height = Math.min(full[1] + full[3], bottom + margin) - y;
  view = [x, y, width, height];
  show();
}

function choose(chosen) {
  const near = new Set(chosen.map((place) => place.dataset.place));
  const first = new Set(near);
  for (const link of links) {
    const isNear = first.has(link.dataset.from) || first.has(link.dataset.to);
    link.classList.toggle('near', isNear);
    if (isNear) {
      near.add(link.dataset.from).add(link.dataset.to);
    }
  }
  for (const place of places) {
    place.classList.toggle('near', near.has(place.dataset.place));
  }
  picture.classList.toggle('chosen', chosen.length > 0);
  const names = chosen.slice(0, 3).map((place) => place.getAttribute('aria-label'));
  found.textContent = chosen.length > 3 ? `${chosen.length} found` : names.join('; ');
}

document.getElementById('search').addEventListener('input', (event) => {
  const text = event.target.value.trim().toLowerCase();
  const isFound = (place) => place.getAttribute('aria-label').toLowerCase().includes(text);
  const chosen = text === '' ? [] : places.filter(isFound);
  choose(chosen);
  lookAt(chosen.slice(0, 50));
  if (text !== '' && chosen.length === 0) {
    found.textContent = 'nothing found';
  }
});
document.getElementById('in').addEventListener('click', () => zoom(0.8));
document.getElementById('out').addEventListener('click', () => zoom(1.25));
document.getElementById('fit').addEventListener('click', () => { view = full.slice(); show(); choose([]); });
for (const place of places) {
  place.addEventListener('click', (event) => { choose([place]); event.stopPropagation(); });
  place.addEventListener('keydown', (event) => {
    if (event.key === 'Enter' || event.key === ' ') { choose([place]); event.preventDefault(); }
  });
}
picture.addEventListener('click', () => choose([]));
document.addEventListener('keydown', (event) => { if (event.key === 'Escape') { choose([]); } });
picture.addEventListener('wheel', (event) => {
  const at = point(event);
  zoom(event.deltaY > 0 ? 1.1 : 0.9, at.x, at.y);
  event.preventDefault();
}, { passive: false });
let held = null;
picture.addEventListener('pointerdown', (event) => { held = point(event); });
picture.addEventListener('pointermove', (event) => {
  if (held === null || event.buttons === 0) { return; }
  const at = point(event);
  view = [view[0] + held.x - at.x, view[1] + held.y - at.y, view[2], view[3]];
  show();
});
picture.addEventListener('pointerup', () => { held = null; });
show();
