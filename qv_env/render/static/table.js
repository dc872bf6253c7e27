/* The table in a browser: an SVG drawn from qv_env.render.layout and qv_env.render.art.
 *
 * It knows no rules. It draws a *view* (the keys of qv_env.play.game.Game.view() that it needs:
 * `columns`, `foundations`, `waste`, `stock`, `score`, `moves`, `won`) and moves a card from where it
 * lay in the last view to where it lies in this one. Piles are named as the views name them: `stock`,
 * `w`, `c1` .. `c10`, `f1` .. `f8`.
 *
 *     const table = QVTable.create(container, layout, art, {label, interactive, onPress});
 *
 *   container    an element; the table takes its width
 *   layout, art  what layout_json() and art_json() of qv_env.render return
 *   label        what a screen reader calls the table
 *   interactive  false: the piles are labelled pictures. true: they are buttons; one of them can be
 *                tabbed to, arrow keys go from pile to pile, Enter and Space press
 *   onPress      called with (pile, event) when a pile is pressed by keyboard. Pointers are the
 *                page's own business: listen on table.element and ask table.pileAt
 *
 *     table.show(view, {animate, lastMove, highlights, probabilities})
 *
 *   animate        milliseconds that a card takes to its new place; 0 or absent: it is there at once
 *                  (always so for who prefers reduced motion)
 *   lastMove       {source, target}: an outline where the card was, a frame around it where it is
 *   highlights     piles to light up, such as those that accept a card that is dragged
 *   probabilities  [{source, target, probability, chosen}]: arrows with badges, likeliest first
 *
 *     table.pileAt(clientX, clientY)   the pile at a point of the window, or null; a column reaches
 *                                      down to the table's edge
 *     table.highlight(piles)           change the highlights alone
 *     table.lift(pile, clientX, clientY)
 *                                      take the pile's top card up (the stock's next one face down):
 *                                      null where there is none, else
 *                                      {move(clientX, clientY), putBack(animate), release()}.
 *                                      release() leaves it where it is, so that the next show()
 *                                      moves it from there
 *     table.focus(pile)                move the keyboard's focus
 *     table.element                    the svg
 *     table.destroy()                  stop watching the container's size
 *
 *     QVTable.cardName("TD")           "10 of diamonds"
 *     QVTable.cardSign("TD")           "10♦"
 *     QVTable.suitOf("TD")             2
 *     QVTable.pileName("c3")           "column 3"
 *
 * All texts are set as text, never as markup. Styles are set by classes and from script, as a strict
 * content security policy wants it; table.css goes with it.
 */
"use strict";

globalThis.QVTable = (() => {
  const SVG = "http://www.w3.org/2000/svg";
  const RANKS = "A23456789TJQK";
  const SUITS = "SHDC";
  const RANK_NAMES = [
    "ace", "2", "3", "4", "5", "6", "7", "8", "9", "10", "jack", "queen", "king",
  ];
  const SUIT_NAMES = ["spades", "hearts", "diamonds", "clubs"];
  const SIGNS = "♠♥♦♣";
  const JACK = 10;
  const FONT = "'Helvetica Neue', Helvetica, Arial, 'Liberation Sans', sans-serif";
  const CAPITALS = 0.73; // how high a font's capitals are
  const NARROW = 600; // pixels of width below which the indices are drawn larger ...
  const STRETCH = 1.3; // ... by so much, and the fans longer
  const SMALL = 760; // below it the piles' names are larger

  const COLUMNS = Array.from({ length: 10 }, (_, c) => `c${c + 1}`);
  const FOUNDATIONS = Array.from({ length: 8 }, (_, f) => `f${f + 1}`);
  const UPPER = ["stock", "w", ...FOUNDATIONS];
  const PILES = [...UPPER, ...COLUMNS];

  const rankOf = (card) => RANKS.indexOf(card[0]);
  const suitOf = (card) => SUITS.indexOf(card[1]);
  const rankText = (card) => (card[0] === "T" ? "10" : card[0]);
  const cardName = (card) => `${RANK_NAMES[rankOf(card)]} of ${SUIT_NAMES[suitOf(card)]}`;
  const cardSign = (card) => rankText(card) + SIGNS[suitOf(card)];

  function pileName(pile) {
    if (pile === "stock") return "stock";
    if (pile === "w") return "waste";
    return `${pile[0] === "c" ? "column" : "foundation"} ${pile.slice(1)}`;
  }

  function make(tag, attributes = {}, ...children) {
    const element = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  }

  const rgb = (colour) => `rgb(${colour.join(" ")})`;
  const plural = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;

  // -------------------------------------------------------------------------------- geometry

  /* The layout as it is, or, for a narrow screen, with larger indices and longer fans. Nothing moves
   * sideways: where column 7 is, the layout alone says. */
  function geometry(layout, width) {
    const narrow = width < NARROW;
    const k = narrow ? STRETCH : 1;
    const [, cardHeight] = layout.card;
    const top = layout.stock[1] - 8; // above it is a header, which is the page's own
    const shift = narrow ? 16 : 0; // room for the larger names of the foundations
    const fans = layout.fans.map((fan) => fan.map((y) => Math.round(y * k)));
    const columnsTop = layout.columns[0][1] + shift;
    const deepest = Math.max(...fans.map((fan) => fan[fan.length - 1] ?? 0));
    const bottom = columnsTop + deepest + cardHeight;
    const places = {
      stock: layout.stock,
      w: layout.waste,
      ...Object.fromEntries(layout.foundations.map((place, f) => [`f${f + 1}`, place])),
      ...Object.fromEntries(
        layout.columns.map(([x, y, w, h], c) => [`c${c + 1}`, [x, y + shift, w, h]]),
      ),
    };
    const names = {};
    for (const pile of [...FOUNDATIONS, ...COLUMNS]) {
      const { place, size } = layout.labels[pile];
      const [x, y, w, h] = place;
      const top = narrow ? (pile[0] === "f" ? y + 4 : bottom + 6) : y;
      names[pile] = { x: x + w / 2, y: top + (narrow ? 10 : h / 2), size: narrow ? 21 : width < SMALL ? 17 : size };
    }
    const counts = {};
    for (const [pile, name] of [["stock", "stock"], ["w", "waste"]]) {
      const { place, size } = layout.labels[name];
      const grow = narrow ? 6 : 0;
      counts[pile] = {
        x: place[0] - grow,
        y: place[1] - grow,
        width: place[2] + 2 * grow,
        height: place[3] + 2 * grow,
        size: narrow ? 31 : size,
      };
    }
    return {
      narrow,
      small: width < SMALL,
      width: layout.width,
      top,
      height: (narrow ? bottom + 30 : layout.height) - top,
      card: layout.card,
      corner: layout.corner,
      index: layout.index.map((value, i) => (i === 0 ? value : Math.round(value * k))),
      tightIndex: layout.tight_index.map((value, i) => (i === 0 ? value : Math.round(value * k))),
      courtTop: fans[2][1] + 2, // nothing of a covered court card's picture shows
      tight: layout.tight,
      fans,
      places,
      names,
      counts,
      won: layout.labels.won,
      columnsTop,
      bottom,
    };
  }

  const widths = new Map();
  let measure = null;

  /* How wide a text is at a size of 100. */
  function textWidth(text) {
    if (!widths.has(text)) {
      measure ??= document.createElement("canvas").getContext("2d");
      measure.font = `600 100px ${FONT}`;
      widths.set(text, measure.measureText(text).width);
    }
    return widths.get(text);
  }

  // --------------------------------------------------------------------------------- the table

  function create(container, layout, art, options = {}) {
    const interactive = Boolean(options.interactive);
    const colour = Object.fromEntries(
      Object.entries(art.colours).map(([name, value]) => [name, rgb(value)]),
    );
    const suitColours = art.suit_colours.map(rgb);
    const svg = make("svg", {
      class: "qv-table",
      role: "group",
      "aria-label": options.label ?? "Table",
      "font-family": FONT,
      "text-rendering": "geometricPrecision",
    });
    for (const [name, value] of Object.entries(colour)) {
      svg.style.setProperty(`--qv-${name.replace("_", "-")}`, value);
    }
    const layers = {};
    for (const name of ["places", "under", "cards", "over", "arrows", "piles", "lifted"]) {
      layers[name] = make("g", { class: `qv-${name}` });
      if (name !== "piles") layers[name].setAttribute("aria-hidden", "true");
      svg.append(layers[name]);
    }
    const still = globalThis.matchMedia?.("(prefers-reduced-motion: reduce)");

    let g = null; // the geometry
    let shown = null; // the last view
    let settings = {}; // ... and how it was shown
    let cards = []; // {element, card, pile, row, x, y, tight}
    let lifted = null;
    let leaving = []; // elements that go when their animation ends
    const piles = new Map();
    const listening = new AbortController();

    // ----------------------------------------------------------------------------- drawing

    const rectangle = ([x, y, width, height], attributes, grow = 0) =>
      make("rect", {
        x: x - grow,
        y: y - grow,
        width: width + 2 * grow,
        height: height + 2 * grow,
        rx: g.corner + grow,
        ...attributes,
      });

    const shape = (path, x, y, size, attributes) =>
      make("path", { d: path, transform: `translate(${x} ${y}) scale(${size / 100})`, ...attributes });

    const letters = (text, x, y, size, attributes) =>
      make("text", { x, y: y + (size * CAPITALS) / 2, "font-size": size, ...attributes }, text);

    function face(card, tight) {
      const [width, height] = g.card;
      const suit = suitOf(card);
      const rank = rankOf(card);
      const fill = suitColours[suit];
      const path = art.suits[suit];
      const [left, top, , indexHeight] = tight ? g.tightIndex : g.index;
      const size = (indexHeight * 0.94) / CAPITALS;
      const pip = indexHeight * 0.92;
      const text = rankText(card);
      const room = width - left - pip - 3 - 2;
      const length = Math.min((textWidth(text) * size) / 100, room);
      const nodes = [
        rectangle([-1, 0, width + 2, height + 2], { class: "qv-shadow" }),
        rectangle([0, 0, width, height], { class: "qv-face" }),
        make(
          "text",
          {
            x: left - 0.5,
            y: top + indexHeight * 0.97,
            "font-size": size,
            fill,
            stroke: fill,
            "stroke-width": size * 0.045,
            ...(text.length > 1 ? { textLength: length, lengthAdjust: "spacingAndGlyphs" } : {}),
          },
          text,
        ),
        shape(path, left + length + 3, top + indexHeight - pip, pip, { fill }),
      ];
      const middle = width / 2;
      if (rank >= JACK) {
        const start = g.courtTop;
        const panel = [11, start, width - 22, height - 8 - start];
        nodes.push(
          rectangle(panel, { class: "qv-court", rx: 5, stroke: fill }),
          shape(art.crowns[rank - JACK], middle - 14, start, 28, { fill }),
          shape(path, middle - 17, start + 26, Math.min(34, height - 12 - start - 26), { fill }),
        );
      } else {
        const big = rank ? 50 : 58;
        nodes.push(shape(path, middle - big / 2, 74 - big / 2, big, { fill }));
      }
      return nodes;
    }

    function back() {
      const [width, height] = g.card;
      const nodes = [
        rectangle([-1, 0, width + 2, height + 2], { class: "qv-shadow" }),
        rectangle([0, 0, width, height], { class: "qv-face" }),
        rectangle([4, 4, width - 8, height - 8], { rx: g.corner - 3, fill: colour.back }),
      ];
      for (let row = 0; row < 9; row += 1) {
        const diamonds = 6 - (row % 2);
        for (let i = 0; i < diamonds; i += 1) {
          const x = width / 2 + (i - (diamonds - 1) / 2) * 12;
          const y = height / 2 + (row - 4) * 11;
          nodes.push(shape(art.suits[2], x - 5, y - 5, 10, { class: "qv-back-line" }));
        }
      }
      return nodes;
    }

    const translate = (x, y) => `translate(${x} ${y})`;

    function drawPlaces() {
      svg.setAttribute("viewBox", `0 ${g.top} ${g.width} ${g.height}`);
      svg.classList.toggle("qv-narrow", g.narrow);
      const nodes = [];
      for (const pile of PILES) {
        nodes.push(rectangle(g.places[pile], { class: "qv-place" }));
        if (pile[0] === "f") {
          const [x, y, width, height] = g.places[pile];
          const suit = art.suits[(Number(pile.slice(1)) - 1) % 4];
          nodes.push(shape(suit, x + width / 2 - 23, y + height / 2 - 23, 46, { class: "qv-suit" }));
        }
        if (g.names[pile]) {
          const { x, y, size } = g.names[pile];
          nodes.push(letters(pile, x, y, size, { class: "qv-name" }));
        }
      }
      layers.places.replaceChildren(...nodes);
    }

    // ------------------------------------------------------------------------------- places

    const heightOf = (view, pile) => view.columns[Number(pile.slice(1)) - 1].length;

    /* Where a pile's card lies: the row-th of a column, else the pile's place. */
    function placeOf(view, pile, row = null, height = null) {
      const [x, y, width, cardHeight] = g.places[pile];
      if (pile[0] !== "c") return [x, y, width, cardHeight];
      const count = height ?? heightOf(view, pile);
      const fan = g.fans[Math.min(count, g.fans.length - 1)];
      const at = row ?? Math.max(count - 1, 0);
      return [x, y + (fan[Math.min(at, fan.length - 1)] ?? 0), width, cardHeight];
    }

    /* Where the next card of a pile would lie. */
    const nextPlace = (view, pile) =>
      pile[0] === "c"
        ? placeOf(view, pile, heightOf(view, pile), heightOf(view, pile) + 1)
        : placeOf(view, pile);

    /* The whole of a pile. */
    function extentOf(view, pile) {
      const [x, y, width, height] = g.places[pile];
      if (pile[0] !== "c") return [x, y, width, height];
      return [x, y, width, placeOf(view, pile)[1] + height - y];
    }

    function wantedCards(view) {
      const wanted = [];
      const add = (card, pile, row, tight, place) =>
        wanted.push({ card, pile, row, tight, x: place[0], y: place[1] });
      if (view.waste.length) {
        const row = view.waste.length - 1;
        add(view.waste[row], "w", row, false, g.places.w);
      }
      view.foundations.forEach((foundation, f) => {
        const pile = `f${f + 1}`;
        if (foundation.cards) add(foundation.top, pile, foundation.cards - 1, false, g.places[pile]);
      });
      view.columns.forEach((column, c) => {
        const pile = `c${c + 1}`;
        column.forEach((card, row) => {
          add(card, pile, row, g.tight[column.length], placeOf(view, pile, row));
        });
      });
      return wanted;
    }

    // --------------------------------------------------------------------------------- show

    function show(view, how = {}) {
      const before = shown;
      shown = view;
      settings = how;
      const time = still?.matches ? 0 : Number(how.animate) || 0;
      settle();
      dropLifted();
      const moving = placeCards(view, how, time);
      drawUpper(view);
      drawMarks(view, how);
      if (time && before && view.stock > before.stock) returnToStock(before, time);
      drawArrows(view, how.probabilities ?? []);
      updatePiles(view);
      highlight(how.highlights ?? []);
      for (const { entry, from } of moving) glide(entry.element, from, [entry.x, entry.y], time);
    }

    /* Let everything that is on its way arrive. */
    function settle() {
      for (const element of leaving) element.remove();
      leaving = [];
      for (const { element } of cards) {
        for (const animation of element.getAnimations()) animation.cancel();
      }
    }

    /* Match the cards that lie there with those that should; returns the ones on their way. */
    function placeCards(view, how, time) {
      const wanted = wantedCards(view);
      const free = new Set(cards);
      const taken = new Map(); // by wanted entry, the old one
      const at = new Map(cards.map((entry) => [`${entry.pile} ${entry.row}`, entry]));
      for (const want of wanted) {
        const old = at.get(`${want.pile} ${want.row}`);
        if (old && old.card === want.card && free.delete(old)) taken.set(want, old);
      }
      const source = how.lastMove?.source;
      for (const want of wanted) {
        if (taken.has(want)) continue;
        const twins = [...free].filter((entry) => entry.card === want.card);
        const old = twins.find((entry) => entry.pile === source) ?? twins[0];
        if (old && free.delete(old)) taken.set(want, old);
      }
      const moving = [];
      const resting = [];
      const flying = [];
      cards = wanted.map((want) => {
        const old = taken.get(want);
        const element = old?.element ?? make("g", { class: "qv-card" });
        if (!old || old.tight !== want.tight || old.narrow !== g.narrow) {
          element.replaceChildren(...face(want.card, want.tight));
        }
        const entry = { ...want, element, narrow: g.narrow };
        let from = old ? [old.x, old.y] : null;
        if (!old && want.pile === "w" && source === "stock") from = g.places.stock;
        element.setAttribute("transform", translate(want.x, want.y));
        const travels = from && (old ? old.pile !== want.pile : true);
        (travels ? flying : resting).push(element);
        if (time && from && (from[0] !== want.x || from[1] !== want.y)) {
          moving.push({ entry, from });
        }
        return entry;
      });
      // What is covered now, or gone, stays below until the card on its way has arrived.
      const remains = [...free].map((entry) => entry.element);
      if (time && flying.length) {
        leaving.push(...remains);
        layers.cards.replaceChildren(...remains, ...resting, ...flying);
      } else {
        layers.cards.replaceChildren(...resting, ...flying);
      }
      return moving;
    }

    function glide(element, from, to, time) {
      const at = ([x, y]) => `translate(${x}px, ${y}px)`;
      const animation = element.animate([{ transform: at(from) }, { transform: at(to) }], {
        duration: time,
        easing: "cubic-bezier(.3, .1, .2, 1)",
      });
      animation.addEventListener("finish", () => {
        for (const old of leaving) old.remove();
        leaving = [];
      });
      return animation;
    }

    /* A draw that is taken back: the waste's card goes back under the stock's. */
    function returnToStock(before, time) {
      const card = before.waste[before.waste.length - 1];
      if (!card) return;
      const element = make("g", { class: "qv-card" }, ...face(card, false));
      const [x, y] = g.places.stock;
      element.setAttribute("transform", translate(x, y));
      layers.cards.append(element);
      leaving.push(element);
      glide(element, g.places.w, [x, y], time);
    }

    /* Stock, counts, and what a won game says. */
    function drawUpper(view) {
      const nodes = [];
      for (const [pile, size] of [["stock", view.stock], ["w", view.waste.length]]) {
        const { x, y, width, height, size: font } = g.counts[pile];
        nodes.push(
          make(
            "g",
            { class: "qv-count" },
            make("rect", { x, y, width, height, rx: height / 2 }),
            letters(String(size), x + width / 2, y + height / 2, font, { "font-weight": 600 }),
          ),
        );
      }
      if (view.won) nodes.push(wonPanel(view));
      layers.over.replaceChildren(...nodes);
      const stock = [];
      const depth = (size) => (size >= 40 ? 3 : size >= 16 ? 2 : size >= 1 ? 1 : 0);
      for (const [pile, size] of [["stock", view.stock], ["w", view.waste.length]]) {
        const [x, y] = g.places[pile];
        for (let below = depth(size) - 1; below >= (pile === "stock" ? 0 : 1); below -= 1) {
          if (depth(size) === 0) break;
          const transform = translate(x + below, y + 2 * below);
          stock.push(make("g", { class: "qv-card", transform }, ...back()));
        }
      }
      layers.under.replaceChildren(...stock);
    }

    function wonPanel(view) {
      const [x, y, width, height] = g.won.place;
      const middle = x + width / 2;
      const nodes = [
        make("rect", { class: "qv-won-ground", x, y, width, height, rx: 16 }),
        make("rect", {
          class: "qv-won-line", x: x + 5, y: y + 5, width: width - 10, height: height - 10, rx: 12,
        }),
        letters("Won", middle, y + 51, g.won.size, { class: "qv-won-word" }),
        letters(`${view.score} points in ${view.moves} moves`, middle, y + 106, 24, {
          class: "qv-won-text",
        }),
      ];
      [-2, -1, 1, 2].forEach((side, suit) => {
        const at = middle + side * 62 + (side > 0 ? 40 : -40) - 18;
        nodes.push(shape(art.suits[suit], at, y + 33, 36, { class: "qv-won-suit" }));
      });
      return make("g", { class: "qv-won" }, ...nodes);
    }

    function drawMarks(view, how) {
      for (const frame of layers.cards.querySelectorAll(".qv-frame")) frame.remove();
      const move = how.lastMove;
      if (!move) return;
      const left =
        move.source[0] === "c" ? nextPlace(view, move.source) : placeOf(view, move.source);
      const outline = rectangle(left, { class: "qv-source", rx: g.corner + 2 }, 2);
      (move.source[0] === "c" ? layers.under : layers.over).prepend(outline);
      const top = topCard(move.target);
      const [width, height] = g.card;
      top?.element.append(
        rectangle([0, 0, width, height], { class: "qv-frame", rx: g.corner + 1 }, 1.5),
      );
    }

    const topCard = (pile) =>
      cards.filter((entry) => entry.pile === pile).reduce((a, b) => (a && a.row > b.row ? a : b), null);

    // ------------------------------------------------------------------------------- arrows

    function drawArrows(view, probabilities) {
      const size = g.narrow ? 30 : 19;
      const badges = [];
      const lines = [];
      const starts = [];
      const middle = ([x, y, width, height]) => [x + width / 2, y + height / 2];
      for (const { source, target, probability, chosen } of probabilities) {
        if (!g.places[source] || !g.places[target]) continue;
        const from = middle(placeOf(view, source));
        const to = middle(nextPlace(view, target));
        // Two from one card part at once.
        const side = starts.filter((start) => start === source).length % 2 ? -1 : 1;
        starts.push(source);
        const curve = curveOf(from, to, side);
        const weight = 3 + 6 * Math.min(Math.max(probability, 0), 1);
        const group = make("g", { class: chosen ? "qv-arrow qv-chosen" : "qv-arrow" });
        const head = headOf(curve, 11 + weight);
        group.append(
          make("path", { class: "qv-arrow-case", d: curve.path, "stroke-width": weight + 4 }),
          make("path", { class: "qv-arrow-head qv-arrow-case", d: head }),
          make("path", { class: "qv-arrow-line", d: curve.path, "stroke-width": weight }),
          make("path", { class: "qv-arrow-head", d: head }),
          make("circle", { class: "qv-arrow-start", cx: from[0], cy: from[1], r: 3 + weight / 2 }),
        );
        group.style.opacity = String(chosen ? 1 : 0.6 + 0.4 * probability);
        lines.unshift(group); // the likeliest lies on top
        badges.push(badge(curve, percent(probability), size, chosen, badges));
      }
      layers.arrows.replaceChildren(...lines, ...badges.map(({ element }) => element).reverse());
    }

    function curveOf(from, to, side) {
      const [dx, dy] = [to[0] - from[0], to[1] - from[1]];
      const length = Math.hypot(dx, dy) || 1;
      const bend = Math.min(60, length * 0.22) * (dx < 0 ? side : -side);
      const control = [
        (from[0] + to[0]) / 2 - (dy / length) * bend,
        (from[1] + to[1]) / 2 + (dx / length) * bend,
      ];
      const at = (t) =>
        [0, 1].map((i) => (1 - t) ** 2 * from[i] + 2 * t * (1 - t) * control[i] + t * t * to[i]);
      const path = `M${from.join(" ")} Q${control.map((v) => v.toFixed(1)).join(" ")} ${to.join(" ")}`;
      return { at, path, control, to };
    }

    function headOf({ control, to }, size) {
      const [dx, dy] = [to[0] - control[0], to[1] - control[1]];
      const length = Math.hypot(dx, dy) || 1;
      const [ux, uy] = [dx / length, dy / length];
      const point = (along, across) =>
        `${(to[0] + ux * along - uy * across).toFixed(1)} ${(to[1] + uy * along + ux * across).toFixed(1)}`;
      return `M${point(size * 0.6, 0)} L${point(-size * 0.6, size * 0.6)} L${point(-size * 0.6, -size * 0.6)} Z`;
    }

    function badge(curve, text, size, chosen, others) {
      const width = (textWidth(text) * size) / 100 + size * 0.9;
      const height = size * 1.5;
      let best = null;
      for (const t of [0.5, 0.36, 0.64, 0.24, 0.76, 0.12, 0.88]) {
        const [x, y] = curve.at(t);
        const overlap = others.reduce((sum, other) => {
          const across = Math.max(0, (width + other.width) / 2 + 3 - Math.abs(x - other.x));
          const down = Math.max(0, height + 3 - Math.abs(y - other.y));
          return sum + across * down;
        }, 0);
        if (!best || overlap < best.overlap) best = { x, y, overlap };
        if (!overlap) break;
      }
      const x = Math.min(Math.max(best.x, width / 2 + 2), g.width - width / 2 - 2);
      const y = Math.max(best.y, g.top + height / 2 + 2);
      const element = make(
        "g",
        { class: chosen ? "qv-badge qv-chosen" : "qv-badge" },
        make("rect", { x: x - width / 2, y: y - height / 2, width, height, rx: height / 2 }),
        letters(text, x, y, size, { "font-weight": 600 }),
      );
      return { element, x, y, width };
    }

    function percent(probability) {
      const value = Math.min(probability, 1) * 100;
      if (value > 0 && value < 1) return "<1%";
      return value > 99 && value < 100 ? ">99%" : `${Math.round(value)}%`;
    }

    // -------------------------------------------------------------------------------- piles

    function makePiles() {
      for (const pile of PILES) {
        const element = make("g", {
          class: "qv-pile",
          role: interactive ? "button" : "img",
          "data-pile": pile,
        });
        if (interactive) element.setAttribute("tabindex", pile === "stock" ? "0" : "-1");
        element.append(make("rect", { class: "qv-hit" }), make("rect", { class: "qv-ring" }));
        piles.set(pile, element);
        layers.piles.append(element);
      }
      if (!interactive) return;
      // Not on the svg: browsers take SVG elements that listen for the focus for focusable ones.
      container.addEventListener("keydown", onKey, { signal: listening.signal });
      container.addEventListener("focusin", onFocus, { signal: listening.signal });
    }

    function onFocus(event) {
      const pile = event.target.closest("[data-pile]")?.dataset.pile;
      if (!pile) return;
      for (const [name, element] of piles) {
        element.setAttribute("tabindex", name === pile ? "0" : "-1");
      }
    }

    function onKey(event) {
      if (event.altKey || event.ctrlKey || event.metaKey) return;
      const pile = event.target.closest("[data-pile]")?.dataset.pile;
      if (!pile) return;
      if (event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        options.onPress?.(pile, event);
        return;
      }
      const rows = [UPPER, COLUMNS];
      const row = pile[0] === "c" ? 1 : 0;
      const at = rows[row].indexOf(pile);
      const goal = {
        ArrowLeft: rows[row][at - 1],
        ArrowRight: rows[row][at + 1],
        ArrowUp: rows[0][at],
        ArrowDown: rows[1][at],
        Home: rows[row][0],
        End: rows[row][rows[row].length - 1],
      }[event.key];
      if (goal) {
        event.preventDefault();
        focus(goal);
      }
    }

    function labelOf(view, pile) {
      const name = pileName(pile).replace(/^./, (letter) => letter.toUpperCase());
      if (pile === "stock") {
        return `${name}: ${view.stock ? `${plural(view.stock, "card")} face down` : "empty"}`;
      }
      if (pile === "w") {
        const count = view.waste.length;
        if (!count) return `${name}: empty`;
        return `${name}: ${plural(count, "card")}, ${cardName(view.waste[count - 1])} on top`;
      }
      const index = Number(pile.slice(1)) - 1;
      if (pile[0] === "f") {
        const { suit, cards: count, top } = view.foundations[index];
        const of = SUIT_NAMES[SUITS.indexOf(suit)];
        if (!count) return `${name}, ${of}: empty`;
        return `${name}, ${of}: ${plural(count, "card")}, ${cardName(top)} on top`;
      }
      const column = view.columns[index];
      if (!column.length) return `${name}: empty`;
      const listed = [...column].reverse().map(cardName);
      return `${name}: ${plural(column.length, "card")}, from the top ${listed.join(", ")}`;
    }

    function updatePiles(view) {
      for (const [pile, element] of piles) {
        element.setAttribute("aria-label", labelOf(view, pile));
        const [x, y, width, height] = extentOf(view, pile);
        const [hit, ring] = element.children;
        for (const [rect, grow] of [[hit, 0], [ring, 3.5]]) {
          rect.setAttribute("x", x - grow);
          rect.setAttribute("y", y - grow);
          rect.setAttribute("width", width + 2 * grow);
          rect.setAttribute("height", height + 2 * grow);
          rect.setAttribute("rx", g.corner + grow);
        }
      }
    }

    function highlight(names) {
      const lit = new Set(names);
      settings = { ...settings, highlights: names };
      for (const [pile, element] of piles) element.classList.toggle("qv-lit", lit.has(pile));
    }

    function focus(pile) {
      const element = piles.get(pile);
      if (interactive) element?.focus({ preventScroll: false });
    }

    function toTable(clientX, clientY) {
      const matrix = svg.getScreenCTM();
      if (!matrix) return null;
      const point = new DOMPoint(clientX, clientY).matrixTransform(matrix.inverse());
      return [point.x, point.y];
    }

    function pileAt(clientX, clientY) {
      const point = toTable(clientX, clientY);
      if (!point) return null;
      const [x, y] = point;
      if (x < 0 || x > g.width || y < g.top || y > g.top + g.height) return null;
      const gap = (g.places.c2[0] - g.places.c1[0] - g.card[0]) / 2;
      const row = y >= g.columnsTop - 8 ? COLUMNS : UPPER;
      return row.find((pile) => {
        const [left, , width] = g.places[pile];
        return x >= left - gap && x < left + width + gap;
      }) ?? null;
    }

    // ---------------------------------------------------------------------------- a card in hand

    function lift(pile, clientX, clientY) {
      dropLifted();
      const entry = pile === "stock" ? nextCard() : topCard(pile);
      const start = toTable(clientX, clientY);
      if (!entry || !start || !shown) return null;
      settle();
      const home = [entry.x, entry.y];
      const under = coveredBy(pile);
      layers.lifted.append(entry.element);
      entry.element.classList.add("qv-up");
      if (under) layers.cards.append(under);
      const at = (x, y) => {
        [entry.x, entry.y] = [x, y];
        entry.element.setAttribute("transform", translate(x, y));
      };
      const down = () => {
        lifted = null;
        entry.element.classList.remove("qv-up");
        under?.remove();
        if (pile === "stock") entry.element.remove();
        else layers.cards.append(entry.element);
      };
      const mine = { down };
      lifted = mine;
      return {
        move(x, y) {
          const point = lifted === mine && toTable(x, y);
          if (point) at(home[0] + point[0] - start[0], home[1] + point[1] - start[1]);
        },
        putBack(time = 0) {
          if (lifted !== mine) {
            // Another card was lifted meanwhile; this one lies where it was dropped.
            if (cards.includes(entry)) at(...home);
            return;
          }
          const from = [entry.x, entry.y];
          down();
          at(...home);
          if (!time || still?.matches) return;
          if (pile === "stock") {
            layers.cards.append(entry.element);
            leaving.push(entry.element);
          }
          glide(entry.element, from, home, time);
        },
        release() {
          if (lifted === mine) down();
        },
      };
    }

    /* The stock's next card, face down. */
    function nextCard() {
      if (!shown?.stock) return null;
      const [x, y] = g.places.stock;
      const element = make("g", { class: "qv-card" }, ...back());
      element.setAttribute("transform", translate(x, y));
      return { element, x, y };
    }

    /* What shows below the top card of a pile that has only its top card drawn. */
    function coveredBy(pile) {
      let card = null;
      if (pile === "w") card = shown.waste[shown.waste.length - 2];
      if (pile[0] === "f") {
        const { suit, cards: count } = shown.foundations[Number(pile.slice(1)) - 1];
        if (count > 1) card = RANKS[count - 2] + suit;
      }
      if (!card) return null;
      const element = make("g", { class: "qv-card" }, ...face(card, false));
      element.setAttribute("transform", translate(...g.places[pile]));
      return element;
    }

    function dropLifted() {
      lifted?.down();
    }

    // --------------------------------------------------------------------------------- size

    function fit() {
      const width = container.clientWidth || layout.width;
      if (g && g.narrow === width < NARROW && g.small === width < SMALL) return;
      g = geometry(layout, width);
      drawPlaces();
      if (shown) show(shown, { ...settings, animate: 0 });
    }

    makePiles();
    container.append(svg);
    fit();
    const watcher = new ResizeObserver(fit);
    watcher.observe(container);

    return {
      element: svg,
      show,
      highlight,
      pileAt,
      lift,
      focus,
      destroy() {
        watcher.disconnect();
        listening.abort();
        svg.remove();
      },
    };
  }

  return { create, cardName, cardSign, suitOf, pileName, PILES };
})();
