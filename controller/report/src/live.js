// The choices of the reader outlive the page.
const KEPT = ['what', 'filter', 'finding-filter', 'search'];

function keep() {
  const choices = Object.fromEntries(KEPT.map((id) => [id, byId(id).value]));
  const [from, to] = ['from', 'to'].map((id) => byId(id).selectedOptions[0]?.textContent);
  choices.pair = [from, to];
  choices.theme = document.documentElement.dataset.theme;
  choices.scroll = window.scrollY;
  sessionStorage.setItem('choices', JSON.stringify(choices));
}

function restore() {
  const choices = JSON.parse(sessionStorage.getItem('choices') || 'null');
  if (choices === null) { return; }
  sessionStorage.removeItem('choices');
  if (choices.theme !== undefined) {
    document.documentElement.dataset.theme = choices.theme;
    byId('theme').textContent = `Theme: ${choices.theme}`;
  }
  for (const id of KEPT) {
    byId(id).value = choices[id];
    byId(id).dispatchEvent(new Event(byId(id).tagName === 'SELECT' ? 'change' : 'input'));
  }
  const [from, to] = choices.pair.map((name) => pairs.names.indexOf(name));
  if (from >= 0 && to >= 0) { answer(from, to); }
  window.scrollTo(0, choices.scroll);
}

const state = element('p', '', { id: 'state', role: 'status' });
document.querySelector('header').append(state);
restore();
const events = new EventSource(`events${location.search}`);
events.addEventListener('message', (event) => {
  const { version: current, failure } = JSON.parse(event.data);
  state.textContent = failure === null ? 'live' : `not of the present state: ${failure}`;
  state.className = failure === null ? '' : 'error';
  if (failure === null && current !== version) {
    keep();
    events.close();
    location.reload();
  }
});
events.addEventListener('error', () => { state.textContent = 'the server is not reached'; state.className = 'error'; });
