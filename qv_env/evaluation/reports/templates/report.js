/* Shows the report's games. "#game-ROW-COLUMN" in the page's address names the one that is shown.
 *
 * Games are in files beside the page, some rows of the table in each; a file is a script that calls
 * addGames, see page.py.
 */
(() => {
  "use strict";
  const { frame, rows } = JSON.parse(document.getElementById("viewer-parts").textContent);
  const viewer = document.getElementById("viewer");
  const packed = new Map(); // by row, the games of its cells

  globalThis.addGames = (games) => {
    for (const [row, cells] of Object.entries(games)) packed.set(Number(row), cells);
  };

  const load = (file) => new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.addEventListener("load", resolve);
    script.addEventListener("error", reject);
    script.src = file;
    document.head.append(script);
  });

  const unpack = async (text) => {
    const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).text();
  };

  const pageOf = async (row, column) => {
    if (!packed.has(row)) await load(`games/${Math.floor(row / rows)}.js`);
    const [before, cells, after] = await Promise.all([frame[0], packed.get(row), frame[1]].map(unpack));
    return new Blob([before, cells.split("\n")[column], after], { type: "text/html" });
  };

  const show = async () => {
    const name = location.hash;
    const place = /^#game-(\d+)-(\d+)$/.exec(name);
    for (const shown of viewer.querySelectorAll("iframe, p")) shown.remove();
    viewer.hidden = !place || !document.querySelector(`a[href="${name}"]`);
    if (viewer.hidden) return;
    let inner;
    try {
      const page = await pageOf(Number(place[1]), Number(place[2]));
      inner = document.createElement("iframe");
      inner.title = "the game";
      inner.src = URL.createObjectURL(page);
      inner.addEventListener("load", () => { URL.revokeObjectURL(inner.src); inner.focus(); });
    } catch {
      inner = document.createElement("p");
      inner.textContent = "This game cannot be loaded: it is in the folder “games”, which belongs beside this page.";
    }
    if (location.hash === name) viewer.append(inner);
  };

  addEventListener("hashchange", show);
  show();
})();
