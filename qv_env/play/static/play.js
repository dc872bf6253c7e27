/* The play page. It shows the table that the server has and sends gestures; qv_env/play/server.py
 * describes both. Rules, scores and what accepts a card are Python's: nothing here decides about
 * them. All texts are set as text.
 */
"use strict";

(() => {
  const { cardName, pileName } = globalThis.QVTable;
  const GLIDE = 180; // milliseconds a card takes
  const DOUBLE = 350; // milliseconds between the two clicks of a double click, at most ...
  const HASTY = 250; // ... and where the first has moved a card, and the second is to do nothing
  const SLIP = { mouse: 5, pen: 8, touch: 12 }; // pixels that a click may slip without dragging
  const SHUDDER = 700; // milliseconds that a refused pile is marked
  const ON_THE_WAY = 40; // pixels over which a card that is held by keyboard shows the pile below

  const SWITCHES = { "double-clicks": "double_clicks", "automatic-placing": "automatic_placing" };

  const byId = (id) => document.getElementById(id);
  const signed = (points) => (points > 0 ? `+${points}` : `−${-points}`);
  const plural = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;
  const upper = (text) => text.replace(/^./, (letter) => letter.toUpperCase());

  let table = null; // the drawing
  let view = null; // what the server last said about the game
  let folder = ""; // where games are kept

  // -------------------------------------------------------------------------------- what is said

  let turn = 0; // counts gestures, so that a late answer does not talk over a newer one

  /* Show a text below the table; the region is live, so that it is read out as well. */
  function message(text, kind = "notice") {
    const region = byId("message");
    region.className = `message ${kind}`;
    region.replaceChildren();
    // Emptied first and filled a moment later, the same text is read out again.
    const now = (turn += 1);
    setTimeout(() => {
      if (now === turn) region.replaceChildren(text);
    });
  }

  /* Tell a screen reader what everybody else sees. */
  function tell(text) {
    const line = document.createElement("p");
    line.textContent = text;
    byId("said").append(line);
    while (byId("said").children.length > 5) byId("said").firstChild.remove();
  }

  function refuse(text, pile) {
    message(`${upper(text)}.`, "refusal");
    const element = pile && table.element.querySelector(`[data-pile="${pile}"]`);
    if (!element) return;
    element.classList.remove("qv-refused");
    element.getBoundingClientRect(); // lets the animation start anew
    element.classList.add("qv-refused");
    setTimeout(() => element.classList.remove("qv-refused"), SHUDDER);
  }

  const clear = () => message("", "idle");

  function topCard(pile) {
    if (pile === "stock") return null;
    if (pile === "w") return view.waste[view.waste.length - 1] ?? null;
    const index = Number(pile.slice(1)) - 1;
    if (pile[0] === "f") return view.foundations[index].top || null;
    const column = view.columns[index];
    return column[column.length - 1] ?? null;
  }

  const listed = (piles) => piles.map(pileName).join(", ");

  // ---------------------------------------------------------------------------------- the server

  // The address has what lets this page in; it stays there, for reloads.
  const token = new URLSearchParams(location.search).get("token");
  const headers = { Authorization: `Bearer ${token}` };

  const LOST = "The server does not answer. Start it again (python -m qv_env play), then go on here.";

  let tail = Promise.resolve();
  let epoch = 0; // rises where gestures that wait are not to be made any more

  /* One request at a time, in the order of the gestures. */
  function enqueue(job) {
    const born = epoch;
    const run = async () => {
      if (born === epoch) await job();
    };
    tail = tail.then(run, run);
    return tail;
  }

  /* Gestures that wait are not made any more. */
  function forget() {
    epoch += 1;
    for (const id of Object.keys(SWITCHES)) byId(id).removeAttribute("aria-busy");
  }

  /* Returns the answer, or {error} where there is none. */
  async function get(name) {
    try {
      const response = await fetch(`/api/${name}`, { cache: "no-store", headers });
      const content = await response.json();
      return response.ok ? content : { error: `${upper(content.error)}.` };
    } catch {
      return { error: LOST };
    }
  }

  /* Send a gesture. Returns the answer, {error} where the server cannot do it, or null where that
   * has been told already and the table stands as the server has it. */
  async function send(name, body = {}) {
    let response;
    let content;
    try {
      response = await fetch(`/api/${name}`, {
        method: "POST",
        headers: { ...headers, "Content-Type": "application/json" },
        body: JSON.stringify({ version: view.version, ...body }),
      });
      content = await response.json();
    } catch {
      forget();
      receive(view); // what was dropped meanwhile goes home
      message(LOST, "refusal");
      return null;
    }
    if (response.status === 409) {
      forget();
      receive(content.table);
      message("The game has been played on in another window. This is how it stands: look again.");
      return null;
    }
    return response.ok ? content : { error: content.error };
  }

  async function refresh() {
    const fresh = await get("table");
    if (fresh.error) message(fresh.error, "refusal");
    else if (fresh.version !== view.version) {
      receive(fresh);
      message("The game has been played on in another window. This is how it stands.");
    }
  }

  /* Show what the server says. */
  function receive(fresh) {
    const before = view;
    view = fresh;
    letGo();
    const animate = before && before.deal === fresh.deal ? GLIDE : 0;
    table.show(view, { animate, lastMove: view.last_move });
    for (const pile of globalThis.QVTable.PILES) {
      const element = table.element.querySelector(`[data-pile="${pile}"]`);
      element.classList.toggle("qv-movable", pile === "stock" ? view.stock > 0 : Boolean(topCard(pile)));
    }
    byId("deal").textContent = view.deal || "a deck without a code";
    byId("copy").hidden = !view.deal;
    byId("score").textContent = view.score;
    byId("moves").textContent = view.moves;
    byId("cards").textContent = view.foundation_cards;
    byId("undo").setAttribute("aria-disabled", String(!view.can_undo));
    for (const [id, name] of Object.entries(SWITCHES)) {
      const box = byId(id); // one that was switched meanwhile stays so until the server has answered
      if (!box.hasAttribute("aria-busy")) box.checked = view[name];
    }
    document.title = view.deal ? `${view.deal} · Quarante Voleurs` : "Quarante Voleurs";
    if (drag?.going) takeUp(); // the card in hand stays in hand
  }

  // ------------------------------------------------------------------------------------ gestures

  /* Make a gesture; returns its answer where it led to one. A refusal is told at once, or, where
   * `later` is given, by calling that. */
  async function gesture(name, body, later = null) {
    const reply = await send(name, body);
    if (!reply) return null;
    if (reply.error) {
      message(upper(reply.error), "refusal");
      return null;
    }
    if (reply.moved) {
      receive(reply.table);
      report(name, reply);
    } else if (reply.refusal) {
      const told = () => refuse(reply.refusal, body?.pile ?? body?.target ?? body?.source);
      if (later) later(told);
      else told();
    }
    return reply;
  }

  function report(name, { points, notice }) {
    clear();
    const move = view.last_move;
    const score = points ? `, ${signed(points)} points` : "";
    if (name === "undo") tell(`Undone. The score is ${view.score}`);
    else if (move) tell(`${cardName(topCard(move.target))} to ${pileName(move.target)}${score}`);
    if (notice) message(notice, "refusal");
    else if (view.won && name !== "undo") {
      const kept = view.kept ? ` It is saved as ${folder}/${view.kept}.` : "";
      message(`Won: ${view.score} points in ${plural(view.moves, "move")}.${kept}`);
    }
  }

  let lastClick = null; // {pile, time, moved, followed}

  /* A click is a tap at once. A second one soon after a refused tap is a double click; after a tap
   * that moved a card it is nothing. */
  function clicked(pile, time) {
    const doubles = view.double_clicks && pile !== "stock";
    const first = lastClick;
    const soon = first?.moved ? HASTY : DOUBLE;
    if (doubles && first?.pile === pile && time - first.time < soon) {
      lastClick = null;
      first.followed = true;
      enqueue(async () => {
        if (!first.moved) await gesture("double-click", { pile });
      });
      return;
    }
    const click = { pile, time, moved: false, followed: false };
    lastClick = doubles ? click : null;
    enqueue(async () => {
      const reply = await gesture("tap", { pile }, (told) => {
        if (!doubles) return told();
        const now = turn;
        const rest = Math.max(0, DOUBLE - (performance.now() - time));
        setTimeout(() => {
          if (!click.followed && now === turn) told();
        }, rest);
      });
      click.moved = Boolean(reply?.moved);
    });
  }

  const undo = () => enqueue(() => gesture("undo"));

  // ------------------------------------------------------------------------------- drag and drop

  let drag = null; // {pile, id, type, start, at, going, hand, card}

  function takeUp() {
    if (topCard(drag.pile) !== drag.card) {
      endDrag();
      return;
    }
    drag.hand = table.lift(drag.pile, ...drag.start);
    drag.hand?.move(...drag.at);
    table.highlight(view.accepting[drag.pile] ?? []);
  }

  function endDrag() {
    drag = null;
    byId("table").classList.remove("dragging");
    table.highlight([]);
  }

  function onDown(event) {
    if (drag || event.button !== 0 || !event.isPrimary) return;
    const at = [event.clientX, event.clientY];
    const pile = table.pileAt(...at);
    letGo();
    if (!pile) return;
    drag = {
      pile, id: event.pointerId, type: event.pointerType, start: at, at,
      going: false, hand: null, card: topCard(pile),
    };
  }

  function onMove(event) {
    if (!drag || event.pointerId !== drag.id) return;
    drag.at = [event.clientX, event.clientY];
    if (!drag.going) {
      const far = Math.hypot(drag.at[0] - drag.start[0], drag.at[1] - drag.start[1]);
      if (far <= (SLIP[drag.type] ?? SLIP.touch)) return;
      drag.going = true;
      table.element.setPointerCapture(drag.id);
      byId("table").classList.add("dragging");
      takeUp();
      return;
    }
    drag.hand?.move(...drag.at);
  }

  function onUp(event) {
    if (!drag || event.pointerId !== drag.id) return;
    const { pile, going, hand } = drag;
    const target = table.pileAt(event.clientX, event.clientY);
    endDrag();
    if (!going) clicked(pile, event.timeStamp);
    else if (target === pile) hand?.putBack(GLIDE);
    else drop(pile, target, hand);
  }

  function onCancel(event) {
    if (!drag || event.pointerId !== drag.id) return;
    const { hand } = drag;
    endDrag();
    hand?.putBack(GLIDE);
  }

  function drop(source, target, hand) {
    lastClick = null;
    enqueue(async () => {
      const reply = await gesture("drop", { source, target });
      if (!reply?.moved) hand?.putBack(GLIDE);
    });
  }

  // ------------------------------------------------------------------------------- the keyboard

  let held = null; // {pile, hand, start}: the card that was picked up by Space

  const pileElement = (pile) => table.element.querySelector(`[data-pile="${pile}"]`);

  function anchor(pile) {
    const { left, width, bottom } = pileElement(pile).querySelector(".qv-hit").getBoundingClientRect();
    return [left + width / 2, bottom];
  }

  function pickUp(pile) {
    const card = topCard(pile);
    if (!card) {
      message(`There is no card to pick up: ${pileName(pile)} is empty.`, "refusal");
      return;
    }
    const start = anchor(pile);
    held = { pile, hand: table.lift(pile, ...start) };
    held.hand?.move(start[0] + 5, start[1] - 9);
    pileElement(pile).classList.add("qv-held");
    const places = view.accepting[pile] ?? [];
    table.highlight(places);
    const where = places.length ? `It can go to ${listed(places)}` : "No pile accepts it";
    message(`${upper(cardName(card))} picked up. ${where}. Space drops it, Esc puts it back.`);
  }

  function carryTo(pile) {
    if (!held?.hand) return;
    const [x, y] = anchor(pile);
    const home = pile === held.pile;
    held.hand.move(x + 5, y + (home ? -9 : ON_THE_WAY / 2));
  }

  function letGo(time = 0) {
    if (!held) return;
    const { pile, hand } = held;
    held = null;
    hand?.putBack(time);
    pileElement(pile).classList.remove("qv-held");
    table.highlight([]);
  }

  function dropHeld(target) {
    const { pile, hand } = held;
    if (target === pile) {
      letGo(GLIDE);
      clear();
      return;
    }
    held = null;
    pileElement(pile).classList.remove("qv-held");
    table.highlight([]);
    drop(pile, target, hand);
  }

  function onPress(pile, event) {
    if (event.repeat) return;
    lastClick = null;
    if (held) dropHeld(pile);
    else if (event.key === " " && pile !== "stock") pickUp(pile);
    else {
      const name = event.shiftKey && event.key === "Enter" ? "double-click" : "tap";
      enqueue(() => gesture(name, { pile }));
    }
  }

  const KEYS = {
    u: undo,
    d: () => enqueue(() => gesture("tap", { pile: "stock" })),
    n: () => newGame(),
    c: () => copyCode(),
    "?": () => byId("help").showModal(),
  };

  function onKey(event) {
    if (document.querySelector("dialog[open]") || event.target.matches("input[type=text]")) return;
    const key = event.key.toLowerCase();
    if ((event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey && key === "z") {
      event.preventDefault();
      undo();
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (key === "escape") {
      if (held) {
        letGo(GLIDE);
        message("Put back.");
      } else if (drag) {
        const { hand } = drag;
        endDrag();
        hand?.putBack(GLIDE);
      }
    } else if (KEYS[key] && !event.repeat) {
      event.preventDefault();
      KEYS[key]();
    }
  }

  // ------------------------------------------------------------------------------ deals and codes

  async function copyCode() {
    if (!view.deal) return;
    try {
      await navigator.clipboard.writeText(view.deal);
      message(`${view.deal} is copied.`);
    } catch {
      getSelection().selectAllChildren(byId("deal"));
      message("The browser does not let this page copy: the code is selected, copy it by hand.");
    }
  }

  let wanted = null; // the next game, while the dialog asks whether this one is to go

  /* Put another game on the table; ask first where one in progress would leave it. */
  async function newGame(body = {}) {
    byId("code-error").replaceChildren();
    wanted = body;
    await tail; // what is in progress is known when the last gesture is answered
    const asking = byId("abandon");
    if (wanted !== body || asking.open) return;
    if (view.last_move !== null && !view.won) asking.showModal();
    else deal();
  }

  function deal() {
    const body = wanted;
    enqueue(async () => {
      const saved = view.last_move !== null;
      const reply = await send("new", body);
      if (!reply) return;
      if (reply.error) {
        if ("deal" in body) byId("code-error").textContent = upper(reply.error);
        else message(upper(reply.error), "refusal");
        return;
      }
      receive(reply.table);
      byId("code").value = "";
      message(saved ? `A new deal. The game before is saved in ${folder}.` : "A new deal.");
    });
  }

  function onCode(event) {
    event.preventDefault();
    const text = byId("code").value.trim();
    // A deal's number is as good as its code.
    newGame({ deal: /^[0-9]{1,15}$/.test(text) ? Number(text) : text });
  }

  function setting(box, name) {
    const on = box.checked;
    box.setAttribute("aria-busy", "true");
    enqueue(async () => {
      const reply = await send("settings", { [name]: on });
      box.removeAttribute("aria-busy");
      if (reply?.table) receive(reply.table);
      else {
        box.checked = view[name];
        if (reply?.error) message(upper(reply.error), "refusal");
      }
    });
  }

  // --------------------------------------------------------------------------------------- start

  async function start() {
    const [look, fresh] = await Promise.all([get("page"), get("table")]);
    if (look.error || fresh.error) {
      message(look.error || fresh.error, "refusal");
      return;
    }
    folder = look.folder;
    byId("folder").textContent = folder;
    table = globalThis.QVTable.create(byId("table"), look.layout, look.art, {
      label: "Table",
      interactive: true,
      onPress,
    });
    receive(fresh);
    message("Tap a card, double-click it, or drag it.", "idle");

    const svg = table.element;
    svg.addEventListener("pointerdown", onDown);
    svg.addEventListener("contextmenu", (event) => {
      if (drag) event.preventDefault(); // a long press is a slow drag
    });
    svg.addEventListener("click", (event) => {
      // Assistive technology clicks without a pointer.
      const pile = event.target.closest("[data-pile]")?.dataset.pile;
      if (pile && event.detail === 0) enqueue(() => gesture("tap", { pile }));
    });
    svg.addEventListener("focusin", (event) => carryTo(event.target.closest("[data-pile]")?.dataset.pile));
    svg.addEventListener("focusout", (event) => {
      if (!svg.contains(event.relatedTarget)) letGo(GLIDE);
    });
    addEventListener("pointermove", onMove);
    addEventListener("pointerup", onUp);
    addEventListener("pointercancel", onCancel);
    addEventListener("keydown", onKey);
    addEventListener("resize", () => letGo());
    document.addEventListener("visibilitychange", () => {
      if (document.visibilityState === "visible") enqueue(refresh);
    });
    addEventListener("pageshow", (event) => {
      if (event.persisted) enqueue(refresh);
    });

    byId("undo").addEventListener("click", undo);
    byId("new").addEventListener("click", () => newGame());
    byId("copy").addEventListener("click", copyCode);
    byId("enter").addEventListener("submit", onCode);
    for (const [id, name] of Object.entries(SWITCHES)) {
      byId(id).addEventListener("change", (event) => setting(event.target, name));
    }
    byId("help-open").addEventListener("click", () => byId("help").showModal());
    byId("help-close").addEventListener("click", () => byId("help").close());
    byId("abandon-no").addEventListener("click", () => byId("abandon").close());
    byId("abandon-yes").addEventListener("click", () => {
      byId("abandon").close();
      deal();
    });
  }

  start();
})();
