/* The viewer's page: goes through one playthrough, or through two of one deal side by side.
 *
 * What it shows comes from the JSON block `data`, what all games have in common from the JSON block
 * `table`; qv_env/playthroughs/viewer.py writes and describes both. It moves cards from pile to
 * pile as the data says and knows no rules. All texts of the data are set as text.
 */
"use strict";

(() => {
  const [data, table] = ["data", "table"].map((id) => JSON.parse(document.getElementById(id).textContent));
  const { cardName, cardSign, suitOf, pileName } = globalThis.QVTable;
  const SVG = "http://www.w3.org/2000/svg";
  const LEAP = 10;
  const LEAST_DRAWN = 0.02; // less likely moves are listed, but not drawn
  const GLIDE = 260; // milliseconds a card takes, where there is time
  const [SOURCE, TARGET, CARD, POINTS, SCORE, NAME] = [0, 1, 2, 3, 4, 5];

  const byId = (id) => document.getElementById(id);

  function element(tag, properties = {}, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(properties)) {
      if (name in made && !name.includes("-")) made[name] = value;
      else made.setAttribute(name, value);
    }
    made.append(...children);
    return made;
  }

  function drawn(tag, attributes = {}, ...children) {
    const made = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...children);
    return made;
  }

  const signed = (points) => (points > 0 ? `+${points}` : points < 0 ? `−${-points}` : "0");
  const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
  const plural = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;

  function valueText(value) {
    const size = Math.abs(value);
    const digits = size >= 100 ? 0 : size >= 10 ? 1 : 2;
    return size >= 1e6 ? value.toExponential(2) : value.toFixed(digits).replace("-", "−");
  }

  const percentText = (p) => (p > 0 && p < 0.001 ? "<0.1 %" : `${(100 * Math.min(p, 1)).toFixed(1)} %`);

  // ------------------------------------------------------------------------------- positions

  /* A game's moves with names for numbers, and the score after each; see SOURCE .. NAME. */
  function movesOf(game) {
    let score = 0;
    return game.moves.map(([action, target, card, points]) => {
      const [source, name] = table.actions[action];
      score += points;
      return [source, table.piles[target], table.cards[card], points, score, name];
    });
  }

  /* All positions of a game as views: its start, and one after each move. */
  function positionsOf(game) {
    const start = {
      ...game.start,
      won: false,
      foundations: game.start.foundations.map((foundation) => ({ ...foundation, stack: [] })),
    };
    const positions = [start];
    for (const move of game.moves) positions.push(moved(positions[positions.length - 1], move));
    positions[positions.length - 1].won = game.won;
    return positions;
  }

  function moved(view, move) {
    const next = {
      ...view,
      columns: view.columns.slice(),
      foundations: view.foundations.slice(),
      score: move[SCORE],
      moves: view.moves + 1,
    };
    const change = (pile, how) => {
      const index = Number(pile.slice(1)) - 1;
      if (pile === "w") next.waste = how(next.waste);
      else if (pile[0] === "c") next.columns[index] = how(next.columns[index]);
      else if (pile[0] === "f") {
        const stack = how(next.foundations[index].stack);
        const top = stack[stack.length - 1] ?? "";
        next.foundations[index] = { ...next.foundations[index], stack, cards: stack.length, top };
      }
    };
    if (move[SOURCE] === "stock") next.stock -= 1;
    else change(move[SOURCE], (cards) => cards.slice(0, -1));
    change(move[TARGET], (cards) => [...cards, move[CARD]]);
    return next;
  }

  const cardsUp = (view) => view.foundations.reduce((sum, { cards }) => sum + cards, 0);

  // ------------------------------------------------------------------------------- one game

  const LETTERS = "AB";

  class Game {
    constructor(game, index, alone) {
      this.game = game;
      this.positions = positionsOf(game);
      this.last = game.moves.length;
      this.step = -1;
      this.name = game.player || game.title || "unnamed player";
      this.letter = alone ? "" : LETTERS[index];
      this.build(index, alone);
    }

    build(index, alone) {
      const { game } = this;
      this.player = element("h2", { className: "player", textContent: this.name });
      if (game.title && game.title !== this.name) this.player.title = game.title;
      const badge = alone ? [] : [element("span", { className: "letter", textContent: this.letter })];
      const numbers = {};
      const number = (name) => {
        numbers[name] = element("b");
        return element("span", { className: "number" }, `${name} `, numbers[name]);
      };
      this.numbers = numbers;
      this.holder = element("div", { className: "table" });
      this.value = element("p", { className: "value" });
      this.bars = element("ol", { className: "bars" });
      this.thinking = element(
        "section",
        { className: "panel thinking", "aria-label": `What ${this.name} thought` },
        element("h3", { textContent: "Player’s estimate" }),
        this.value,
        this.bars,
      );
      this.list = element("ol", {
        className: "moves",
        role: "listbox",
        tabIndex: 0,
        "aria-label": alone ? "Moves" : `Moves of ${this.letter}`,
      });
      this.list.append(...this.rows());
      const result = `${game.won ? "won, " : ""}${game.score} points, ${plural(this.last, "move")}`;
      const moves = element(
        "section",
        { className: "panel list" },
        element("h3", { textContent: "Moves" }, element("span", { className: "faint", textContent: ` ${result}` })),
        this.list,
      );
      const side = element("div", { className: "side" });
      if (game.values || game.likeliest) side.append(this.thinking);
      side.append(moves);
      if (game.notes.length) side.append(this.notes());
      const head = element(
        "div",
        { className: "head" },
        element("div", { className: "who" }, ...badge, this.player),
        element("div", { className: "numbers" }, number("cards"), number("score"), number("moves")),
      );
      this.section = element(
        "section",
        { className: `game game-${index}`, "aria-label": alone ? "Game" : `Game ${this.letter}` },
        element("div", { className: "felt" }, head, this.holder),
        side,
      );
      this.list.addEventListener("click", (event) => {
        const row = event.target.closest("[data-step]");
        if (row) goToStep(this, Number(row.dataset.step));
      });
      this.list.addEventListener("keydown", (event) => {
        const to = { ArrowDown: this.step + 1, ArrowUp: this.step - 1 }[event.key];
        if (to === undefined || event.altKey || event.ctrlKey || event.metaKey) return;
        event.preventDefault();
        event.stopPropagation();
        goToStep(this, to);
      });
    }

    /* The file's further keys. */
    notes() {
      const list = element("dl");
      for (const [key, text] of [...(this.game.title ? [["file", this.game.title]] : []), ...this.game.notes]) {
        list.append(element("dt", { textContent: key }), element("dd", { textContent: text }));
      }
      const summary = element("summary", { textContent: "About this file" });
      return element("details", { className: "panel notes" }, summary, list);
    }

    rows() {
      const row = (step, cells, label) =>
        element(
          "li",
          { role: "option", id: `move-${this.letter}${step}`, "data-step": step, "aria-label": label, "aria-selected": "false" },
          ...cells,
        );
      const cell = (className, textContent) => element("span", { className, textContent });
      const rows = [row(0, [cell("n", "0"), cell("name", "the deal")], "Step 0: the deal")];
      this.game.moves.forEach((move, i) => {
        const card = cell("card", cardSign(move[CARD]));
        card.classList.add(`suit-${suitOf(move[CARD])}`);
        const points = cell(move[POINTS] ? "points" : "points none", signed(move[POINTS]));
        rows.push(
          row(
            i + 1,
            [cell("n", i + 1), cell("name", move[NAME]), card, points, cell("score", move[SCORE])],
            this.spoken(i + 1),
          ),
        );
      });
      return rows;
    }

    /* What a screen reader says of a step. */
    spoken(step) {
      if (step === 0) return "Step 0: the deal";
      const move = this.game.moves[step - 1];
      const way = `${cardName(move[CARD])} from ${pileName(move[SOURCE])} to ${pileName(move[TARGET])}`;
      const what = move[SOURCE] === "stock" ? `drew the ${cardName(move[CARD])}` : way;
      const end = step === this.last && this.game.won ? ", won" : "";
      return `Step ${step}, ${move[NAME]}: ${what}, ${move[POINTS]} points, score ${move[SCORE]}${end}`;
    }

    attach(layout, art) {
      const label = this.letter ? `Table of game ${this.letter}` : "Table";
      this.table = globalThis.QVTable.create(this.holder, layout, art, { label });
    }

    /* Show the position after a step. */
    show(step, time, withArrows) {
      const near = Math.abs(step - this.step) === 1;
      const { game } = this;
      const move = step ? game.moves[step - 1] : null;
      const thoughts = step < this.last ? game.likeliest?.[step] : null;
      const played = step < this.last ? game.moves[step][NAME] : null;
      const view = this.positions[step];
      this.table.show(view, {
        animate: near ? time : 0,
        lastMove: move && { source: move[SOURCE], target: move[TARGET] },
        probabilities: withArrows && thoughts
          ? thoughts
            .filter(([, p, source]) => source !== null && p >= LEAST_DRAWN)
            .map(([name, probability, source, target]) => ({
              source, target, probability, chosen: name === played,
            }))
          : [],
      });
      if (this.step !== step) this.mark(step);
      this.numbers.cards.textContent = `${cardsUp(view)}/104`;
      this.numbers.score.textContent = view.score;
      this.numbers.moves.textContent = view.moves;
      this.showThoughts(step, thoughts, played);
      this.step = step;
    }

    mark(step) {
      this.list.querySelector("[aria-selected=true]")?.setAttribute("aria-selected", "false");
      const row = this.list.children[step];
      row.setAttribute("aria-selected", "true");
      this.list.setAttribute("aria-activedescendant", row.id);
      // Only the list scrolls, not the page.
      const above = row.offsetTop - this.list.clientHeight * 0.4;
      this.list.scrollTop = Math.max(above, 0);
    }

    showThoughts(step, thoughts, played) {
      const { values } = this.game;
      if (step >= this.last) {
        this.value.textContent = "The playthrough ends here.";
        this.bars.replaceChildren();
        return;
      }
      const value = values ? `Value ${valueText(values[step])}` : "";
      this.value.textContent = `${value}${value ? " " : ""}before step ${step + 1}`;
      this.bars.replaceChildren(
        ...(thoughts ?? []).map(([name, probability]) => {
          const fill = element("span", { className: "fill" });
          fill.style.width = `${100 * Math.min(probability, 1)}%`;
          const chosen = name === played;
          return element(
            "li",
            { className: chosen ? "chosen" : "" },
            element("span", { className: "name", textContent: name }),
            element("span", { className: "bar", "aria-hidden": "true" }, fill),
            element("span", { className: "p", textContent: percentText(probability) }),
            element("span", { className: "played", textContent: chosen ? "played" : "" }),
          );
        }),
      );
    }
  }

  // -------------------------------------------------------------------------------- playback

  const alone = data.games.length === 1;
  const games = data.games.map((game, index) => new Game({ ...game, moves: movesOf(game) }, index, alone));
  const moments = data.moments ?? games[0].positions.map((_, step) => [step]);
  const last = moments.length - 1;
  const thinks = games.some(({ game }) => game.likeliest);
  const timeline = byId("timeline");
  const stepInput = byId("step");
  const speedSelect = byId("speed");
  const arrows = byId("arrows");
  const playButton = byId("play");
  let moment = -1;
  let timer = null;

  const stepOf = (game, at = moment) => moments[at][games.indexOf(game)];
  const speed = () => Number(speedSelect.value);

  function goTo(target, { say = true } = {}) {
    const to = clamp(target, 0, last);
    const time = Math.min(GLIDE, timer === null ? GLIDE : 700 / speed());
    moment = to;
    for (const game of games) {
      const step = stepOf(game);
      if (step !== game.step) game.show(step, time, arrows.checked);
    }
    stepInput.value = to;
    timeline.setAttribute("aria-valuenow", to);
    timeline.setAttribute("aria-valuetext", games.map((game) => spokenAt(game)).join("; "));
    curves.point();
    byId("first").disabled = byId("back").disabled = to === 0;
    byId("last").disabled = byId("forward").disabled = to === last;
    if (to === last) pause();
    if (say && timer === null) byId("said").textContent = timeline.getAttribute("aria-valuetext");
  }

  const spokenAt = (game) => (alone ? "" : `${game.letter}: `) + game.spoken(stepOf(game));

  /* Go to the first moment at which a game has taken so many steps. */
  function goToStep(game, step) {
    pause();
    const index = games.indexOf(game);
    goTo(moments.findIndex((steps) => steps[index] === clamp(step, 0, game.last)));
  }

  function play() {
    if (timer !== null || last === 0) return;
    if (moment === last) goTo(0);
    schedule();
    showPlaying();
  }

  function schedule() {
    timer = setTimeout(() => {
      schedule();
      goTo(moment + 1);
    }, 1000 / speed());
  }

  function pause() {
    if (timer === null) return;
    clearTimeout(timer);
    timer = null;
    showPlaying();
  }

  function showPlaying() {
    const playing = timer !== null;
    playButton.setAttribute("aria-label", playing ? "Pause" : "Play");
    playButton.classList.toggle("playing", playing);
  }

  function browse(target) {
    pause();
    goTo(target);
  }

  function changeSpeed(by) {
    const at = data.speeds.indexOf(speed());
    speedSelect.value = String(data.speeds[clamp(at + by, 0, data.speeds.length - 1)]);
  }

  function redraw() {
    for (const game of games) game.show(stepOf(game), 0, arrows.checked);
  }

  // -------------------------------------------------------------------------- the time line

  const curves = {
    svg: drawn("svg", { "aria-hidden": "true" }),
    pad: 10,

    x(at) {
      return this.pad + (last ? at / last : 0) * (this.width - 2 * this.pad);
    },

    /* Score, and below it the players' value estimates, each in a lane of its own. */
    draw() {
      this.width = timeline.clientWidth;
      this.height = timeline.clientHeight;
      if (!this.width) return;
      this.svg.setAttribute("viewBox", `0 0 ${this.width} ${this.height}`);
      const valued = games.filter(({ game }) => game.values?.length);
      const foot = 9; // the draws' ticks
      const room = this.height - foot - 6;
      const cut = valued.length ? Math.round(room * 0.58) : room;
      const lanes = [];
      const scores = games.map((game) => game.positions.map((view) => view.score));
      const most = Math.max(1, ...scores.flat());
      lanes.push(...games.map((game, i) => this.lane(i, "score", scores[i], game, 6, cut, 0, most)));
      const labels = [this.label(`score, up to ${most}`, 14)];
      if (valued.length) {
        const all = valued.flatMap(({ game }) => game.values);
        const [low, high] = [Math.min(...all), Math.max(...all)];
        lanes.push(drawn("line", { class: "divide", x1: 0, x2: this.width, y1: cut + 6.5, y2: cut + 6.5 }));
        for (const game of valued) {
          const values = [...game.game.values, game.game.values[game.game.values.length - 1]];
          const index = games.indexOf(game);
          lanes.push(this.lane(index, "estimate", values, game, cut + 11, room + 4, low, high));
        }
        const text = `value, ${valueText(low)} to ${valueText(high)}`;
        labels.push(this.label(text, cut + 19, "end")); // estimates of what is left start high
      }
      const ticks = [];
      for (let at = 1; at <= last; at += 1) {
        const drew = games.some((game) => {
          const step = stepOf(game, at);
          return step > stepOf(game, at - 1) && game.game.moves[step - 1][SOURCE] === "stock";
        });
        if (drew) ticks.push(`M${this.x(at).toFixed(1)} ${this.height - 7}v5`);
      }
      this.head = drawn("g", { class: "head-line" });
      this.svg.replaceChildren(
        ...lanes, drawn("path", { class: "ticks", d: ticks.join("") }), ...labels, this.head,
      );
      this.tops = games.map((_, i) => (step) => cut + 6 - (scores[i][step] / most) * cut);
      this.point();
    },

    label(text, y, anchor = "start") {
      const x = anchor === "start" ? this.pad + 4 : this.width - this.pad - 4;
      return drawn("text", { class: "lane", x, y, "text-anchor": anchor }, text);
    },

    lane(index, kind, values, game, top, bottom, low, high) {
      const span = high - low || 1;
      const height = kind === "score" ? bottom : bottom - top;
      const base = kind === "score" ? bottom + 6 : bottom;
      const points = moments.map((_, at) => {
        const y = base - ((values[stepOf(game, at)] - low) / span) * height;
        return `${this.x(at).toFixed(1)} ${y.toFixed(1)}`;
      });
      const line = drawn("path", { class: `${kind} line line-${index}`, d: `M${points.join("L")}` });
      if (kind !== "score") return line;
      const area = `M${this.x(0)} ${base}L${points.join("L")}L${this.x(last)} ${base}Z`;
      return drawn("g", {}, drawn("path", { class: `area area-${index}`, d: area }), line);
    },

    point() {
      if (!this.head || moment < 0) return;
      const x = this.x(moment);
      this.head.replaceChildren(
        drawn("line", { x1: x, x2: x, y1: 2, y2: this.height - 2 }),
        ...games.map((game, i) =>
          drawn("circle", { class: `dot dot-${i}`, cx: x, cy: this.tops[i](stepOf(game)), r: 5 }),
        ),
      );
    },

    at(clientX) {
      const box = timeline.getBoundingClientRect();
      const share = (clientX - box.left - this.pad) / (box.width - 2 * this.pad);
      return clamp(Math.round(share * last), 0, last);
    },
  };

  timeline.append(curves.svg);
  timeline.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    timeline.setPointerCapture(event.pointerId);
    timeline.focus({ preventScroll: true });
    browse(curves.at(event.clientX));
  });
  timeline.addEventListener("pointermove", (event) => {
    if (timeline.hasPointerCapture(event.pointerId)) browse(curves.at(event.clientX));
  });

  // --------------------------------------------------------------------------------- controls

  byId("first").addEventListener("click", () => browse(0));
  byId("back").addEventListener("click", () => browse(moment - 1));
  byId("forward").addEventListener("click", () => browse(moment + 1));
  byId("last").addEventListener("click", () => browse(last));
  playButton.addEventListener("click", () => (timer === null ? play() : pause()));
  arrows.addEventListener("change", redraw);
  stepInput.addEventListener("change", () => {
    if (stepInput.value !== "") browse(Math.round(Number(stepInput.value)) || 0);
    stepInput.value = moment;
  });
  const help = byId("help");
  byId("help-open").addEventListener("click", () => help.showModal());
  byId("help-close").addEventListener("click", () => help.close());

  const KEYS = {
    ArrowRight: () => browse(moment + 1),
    ArrowLeft: () => browse(moment - 1),
    n: () => browse(moment + 1),
    p: () => browse(moment - 1),
    ArrowDown: () => browse(moment + LEAP),
    ArrowUp: () => browse(moment - LEAP),
    PageDown: () => browse(moment + LEAP),
    PageUp: () => browse(moment - LEAP),
    Home: () => browse(0),
    End: () => browse(last),
    " ": () => playButton.click(),
    "+": () => changeSpeed(1),
    "=": () => changeSpeed(1),
    "-": () => changeSpeed(-1),
    "−": () => changeSpeed(-1),
    g: () => {
      stepInput.focus();
      stepInput.select();
    },
    l: () => thinks && arrows.click(),
    "?": () => help.showModal(),
  };

  document.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey || help.open) return;
    const on = event.target;
    if (on.matches?.("input[type=number], select")) {
      if (event.key === "Escape") on.blur();
      return;
    }
    const presses = on.matches?.("button, summary, input[type=checkbox]");
    if (presses && event.key === " ") return; // which presses what has the focus
    const action = KEYS[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  });

  for (const value of data.speeds) {
    speedSelect.append(element("option", { value: String(value), textContent: `${value} per s` }));
  }
  speedSelect.value = String(data.speed);
  stepInput.max = last;
  byId("of").textContent = `of ${last}`;
  byId("step-word").textContent = alone ? "Step" : "Moment";
  byId("deal").textContent = games[0].game.deal || "explicit deck";
  byId("arrows-label").hidden = !thinks;
  timeline.setAttribute("aria-valuemax", last);
  document.title = `${games.map((game) => game.name).join(" and ")} · Quarante Voleurs`;
  document.body.classList.toggle("two", !alone);
  byId("games").append(...games.map((game) => game.section));
  for (const game of games) game.attach(table.layout, table.art);
  curves.draw();
  new ResizeObserver(() => curves.draw()).observe(timeline);

  const asked = Number(location.hash.slice(1));
  goTo(location.hash.length > 1 && Number.isInteger(asked) ? asked : data.step, { say: false });
  globalThis.addEventListener("hashchange", () => browse(Number(location.hash.slice(1)) || 0));
})();
