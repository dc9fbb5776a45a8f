/* The player: plays a game move by move. It asks a source for what it shows. */

class Player {
  constructor(root, source) {
    this.root = root;
    this.source = source;
    this.turns = [];
    this.place = 0;
    this.playing = false;
    this.over = false;
    this.game = 0; // answers to questions about an earlier game are thrown away
    this.images = new Map();
    this.dark = matchMedia('(prefers-color-scheme: dark)');
  }

  find(name) {
    return this.root.querySelector(name);
  }

  async start() {
    this.listen();
    try {
      this.about = await this.source.about();
    } catch (error) {
      this.say(`The game cannot be loaded: ${error.message}`, 'wrong');
      return;
    }
    const about = this.about, players = about.players;
    this.find('.values-about').textContent = about.value_name + ', by action' +
      (about.heat ? '; over the board: the better, the stronger' : '');
    const words = document.querySelector('.about-run');
    if (words) words.textContent = about.title;
    const slider = this.find('.checkpoint');
    slider.max = players.length - 1;
    slider.value = Math.max(0, players.findIndex(player => player.name === about.first));
    this.find('.seed').value = about.seed ?? 1;
    this.root.classList.toggle('one-game', Boolean(about.one_game));
    this.root.classList.toggle('with-heat', Boolean(about.heat));
    this.showSpeed();
    this.showCheckpoint();
    new ResizeObserver(() => this.draw()).observe(this.find('.stage'));
    this.dark.addEventListener('change', () => this.draw());
    await this.newGame();
  }

  listen() {
    const doing = {
      play: () => this.toggle(), restart: () => this.go(0), back: () => this.step(-1),
      forward: () => this.step(1), 'new-seed': () => this.anotherSeed(),
    };
    this.root.addEventListener('click', event => {
      const button = event.target.closest('[data-do]');
      if (button) doing[button.dataset.do]();
    });
    this.find('.place').addEventListener('input', event => { this.pause(); this.go(Number(event.target.value)); });
    this.find('.speed').addEventListener('input', () => this.showSpeed());
    this.find('.heat').addEventListener('change', () => this.draw());
    this.find('.seed').addEventListener('change', () => this.newGame());
    this.find('.checkpoint').addEventListener('input', () => this.showCheckpoint());
    this.find('.checkpoint').addEventListener('change', () => this.newGame());
    document.addEventListener('keydown', event => this.key(event));
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || !this.about) return;
    const here = event.target, inside = this.root.contains(here);
    // elsewhere on a long page the keys scroll it, as they should
    if (!inside && this.about.one_game) return;
    const field = here.tagName === 'INPUT', button = here.tagName === 'BUTTON';
    const doing = {
      ' ': () => !button && (!field || here.type === 'range') && this.toggle(),
      ArrowLeft: () => !field && this.step(-1), ArrowRight: () => !field && this.step(1),
      ArrowUp: () => !field && this.faster(5), ArrowDown: () => !field && this.faster(-5),
      Home: () => !field && this.go(0), n: () => !field && !this.about.one_game && this.anotherSeed(),
    }[event.key];
    if (doing && doing() !== false) event.preventDefault();
  }

  get speed() { // moves a second, from 1 to 200
    return 200 ** (Number(this.find('.speed').value) / 100);
  }

  faster(by) {
    const slider = this.find('.speed');
    slider.value = Number(slider.value) + by;
    this.showSpeed();
  }

  showSpeed() {
    const speed = this.speed < 10 ? this.speed.toFixed(1) : Math.round(this.speed);
    this.find('.speed-text').textContent = `${speed} steps a second`;
    this.find('.speed').setAttribute('aria-valuetext', `${speed} steps a second`);
    this.root.dataset.speed = speed;
  }

  get player() {
    return this.about.players[Number(this.find('.checkpoint').value)] ?? this.about.players[0];
  }

  showCheckpoint() {
    const player = this.player, score = player.score === null ? '' : `, score ${Number(player.score.toPrecision(3))}`;
    const words = player.step === 0 ? 'untrained' :
      `${player.step.toLocaleString('en')} steps${score}${player.best ? ' (best)' : ''}`;
    this.find('.checkpoint-text').textContent = words;
    this.find('.checkpoint').setAttribute('aria-valuetext', words);
  }

  anotherSeed() {
    this.find('.seed').value = (Number(this.find('.seed').value) || 0) + 1;
    this.newGame();
  }

  async newGame() {
    const field = this.find('.seed'), seed = Math.floor(Number(field.value));
    if (!Number.isSafeInteger(seed) || seed < 0) {
      this.say('A seed is a whole number, 0 or more.', 'wrong');
      return;
    }
    field.value = seed;
    this.seed = seed;
    this.game += 1;
    Object.assign(this, { turns: [], place: 0, over: false, loading: false });
    if (this.player.name !== this.judge) Object.assign(this, { judge: this.player.name, low: 0, high: 0 });
    this.images.clear();
    this.say('The agent begins …');
    await this.load();
    this.resume();
  }

  loadAhead() {
    if (this.turns.length - this.place < 180) this.load();
  }

  /* Bring more moves; the answer may be to a game that nobody looks at any more. */
  async load() {
    if (this.over || this.loading) return;
    const game = this.game, player = this.player.name;
    this.loading = true;
    try {
      const answer = await this.source.moves(player, this.seed, this.turns.length);
      if (game !== this.game) return;
      this.turns.push(...answer.turns);
      this.over = answer.over;
      this.loading = false;
      this.growAxis(answer.turns);
      const first = this.turns.length === answer.turns.length;
      this.find('.place').max = Math.max(0, this.turns.length - 1);
      if (first) {
        this.say(this.about.note);
        Object.assign(this.root.dataset, { player, seed: this.seed });
        this.go(0);
      }
      this.root.dataset.loaded = this.over ? 'all' : this.turns.length;
      this.loadAhead();
    } catch (error) {
      if (game !== this.game) return;
      this.loading = false;
      this.pause();
      this.say(error instanceof TypeError ? 'The server does not answer: is it still running?' : error.message, 'wrong');
    }
  }

  toggle() {
    if (this.playing) this.pause(); else this.playOn();
  }

  playOn() {
    if (this.over && this.place >= this.turns.length - 1) this.go(0);
    this.playing = true;
    this.resume();
    this.showPlaying();
  }

  pause() {
    this.playing = false;
    this.showPlaying();
  }

  showPlaying() {
    this.root.dataset.playing = this.playing;
    this.find('[data-do="play"]').setAttribute('aria-label', this.playing ? 'Pause' : 'Play');
  }

  resume() {
    if (!this.playing || this.ticking) return;
    this.ticking = true;
    let before = performance.now(), owed = 0;
    const tick = now => {
      if (!this.playing) { this.ticking = false; return; }
      owed += Math.min(250, now - before) / 1000 * this.speed;
      before = now;
      const steps = Math.floor(owed);
      owed -= steps;
      if (steps > 0) this.go(this.place + steps);
      if (this.over && this.place >= this.turns.length - 1) this.pause();
      requestAnimationFrame(tick);
    };
    requestAnimationFrame(tick);
  }

  step(by) {
    this.pause();
    this.go(this.place + by);
  }

  go(place) {
    this.place = Math.max(0, Math.min(place, this.turns.length - 1));
    this.loadAhead();
    this.draw();
  }

  tint(name) {
    return this.about.palettes[this.dark.matches ? 'dark' : 'light'][name] ?? name;
  }

  draw() {
    const turn = this.turns[this.place];
    if (!turn) return;
    const missing = turn.scene.filter(shape => shape[0] === 'picture' && !this.images.has(shape[5]));
    if (missing.length) { this.fetchImages(missing); return; }
    const [width, height] = this.about.size, canvas = this.find('.board');
    const room = this.find('.stage').clientWidth;
    const wide = Math.max(120, Math.min(room, innerHeight * 0.72 * width / height));
    this.find('.transport').style.maxWidth = `${Math.max(wide, 320)}px`;
    const ratio = devicePixelRatio || 1, tint = name => this.tint(name);
    canvas.style.width = `${wide}px`;
    canvas.width = Math.round(wide * ratio);
    canvas.height = Math.round(wide * ratio * height / width);
    const on = canvas.getContext('2d');
    on.scale(canvas.width / width, canvas.height / height);
    paint(on, this.about.ground, tint, this.images);
    paint(on, turn.scene, tint, this.images);
    if (this.about.heat && turn.q.length && this.find('.heat').checked) paintHeat(on, this.about.heat, turn, tint);
    this.show(turn);
  }

  async fetchImages(shapes) {
    const game = this.game, place = this.place;
    await Promise.all(shapes.map(async shape => {
      const image = new Image();
      image.src = shape[5];
      await image.decode().catch(() => {});
      if (game !== this.game) return;
      if (this.images.size > 80) this.images.delete(this.images.keys().next().value);
      this.images.set(shape[5], image);
    }));
    if (game === this.game && place === this.place) this.draw();
  }

  /* Everything beside the board. */
  show(turn) {
    const total = String(Number(turn.total.toPrecision(4)));
    const same = turn.facts.some(([name, value]) => name === 'score' && value === total);
    const facts = same ? turn.facts : [...turn.facts, ['return', total]];
    this.find('.facts').replaceChildren(...facts.map(([name, value]) => {
      const box = document.createElement('div');
      box.append(element('dt', name), element('dd', value));
      return box;
    }));
    this.showValues(turn);
    this.find('.place').value = this.place;
    this.find('.place').setAttribute('aria-valuetext', `step ${turn.step}`);
    this.find('.step').textContent = `step ${turn.step.toLocaleString('en')}`;
    this.root.dataset.step = turn.step;
    if (turn.ending) this.say(`The game is over: ${turn.ending}.`, 'over');
    else if (this.find('.state').classList.contains('over')) this.say(this.about.note);
    const facing = facts.map(fact => fact.join(' ')).join(', ');
    this.find('.board').setAttribute('aria-label', `${this.about.title}, step ${turn.step}: ${facing}`);
  }

  /* The bars' axis holds zero, ends at round numbers and only grows: bars of two moves can be compared. */
  growAxis(turns) {
    const [low, high] = extent(turns);
    this.low = Math.min(this.low, -roundLimit(-low));
    this.high = Math.max(this.high, roundLimit(high));
    const span = this.high - this.low || 1, zero = `${(-this.low / span * 100).toFixed(2)}%`;
    const scale = this.find('.q-scale'), ends = [this.low, 0, this.high];
    this.find('.values-box').style.setProperty('--zero', zero);
    [...scale.children].forEach((mark, k) => {
      mark.textContent = k === 1 || ends[k] !== 0 ? plain(ends[k]) : '';
    });
    // an end that is too near to zero has no room for its number
    scale.children[0].hidden = -this.low / span < 0.2;
    scale.children[2].hidden = this.high / span < 0.2;
  }

  showValues(turn) {
    const legal = k => !turn.mask || turn.mask[k] === '1', span = this.high - this.low || 1;
    let actions = turn.q.map((_, k) => k);
    if (actions.length > 20) actions = actions.filter(legal).sort((a, b) => turn.q[b] - turn.q[a]).slice(0, 8);
    this.find('.values-box').hidden = !actions.length;
    this.find('.q-values').replaceChildren(...actions.map(k => {
      const item = document.createElement('li'), value = turn.q[k], chosen = (turn.parts ?? [turn.action]).includes(k);
      item.className = (chosen ? 'chosen' : '') + (legal(k) ? '' : 'illegal');
      const track = document.createElement('span'), fill = document.createElement('span');
      track.className = 'track';
      fill.className = value < 0 ? 'fill negative' : 'fill';
      fill.style.width = legal(k) ? `${(Math.min(1, Math.abs(value) / span) * 100).toFixed(2)}%` : '0';
      track.append(fill);
      item.append(element('span', this.about.actions[k], 'name'), track,
        element('span', legal(k) ? short(value) : 'not legal', 'value'));
      if (chosen) item.setAttribute('aria-current', 'true');
      return item;
    }));
  }

  say(text, kind = '') {
    const state = this.find('.state');
    if (state.textContent !== text) state.textContent = text;
    state.className = `state ${kind}`;
  }
}

function element(name, text, kind = '') {
  const made = document.createElement(name);
  made.textContent = text;
  if (kind) made.className = kind;
  return made;
}

function short(value) {
  return Math.abs(value) >= 1000 ? value.toPrecision(4) : value.toFixed(Math.abs(value) >= 100 ? 1 : 2);
}

/* The least of 1, 2, 5, 10, … (times a power of ten) that is not below a size; 0 for 0. */
function roundLimit(size) {
  if (!(size > 1e-300 && size < Infinity)) return 0;
  const power = 10 ** Math.floor(Math.log10(size));
  return [1, 2, 5, 10].find(factor => factor * power >= size * 0.999) * power;
}

function plain(value) {
  return String(Number(value.toPrecision(3)));
}

for (const root of document.querySelectorAll('.player')) {
  const inside = document.querySelector('#recorded-game');
  new Player(root, inside ? new PageSource(inside.textContent) : new ServerSource()).start();
}
