/* Shows the report's games: the part of the address after "#" names the one that is shown. */
(() => {
  "use strict";
  const stored = JSON.parse(document.getElementById("game-data").textContent);
  const viewer = document.getElementById("viewer");
  const unpack = async (text) => {
    const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).text();
  };
  const show = async () => {
    const name = location.hash.slice(1);
    viewer.querySelector("iframe")?.remove();
    viewer.hidden = !Object.hasOwn(stored.games, name);
    if (viewer.hidden) return;
    const [before, after] = stored.frame;
    const page = await Promise.all([before, stored.games[name], after].map(unpack));
    if (location.hash.slice(1) !== name) return;
    const inner = document.createElement("iframe");
    inner.title = "the game";
    inner.src = URL.createObjectURL(new Blob(page, { type: "text/html" }));
    inner.addEventListener("load", () => { URL.revokeObjectURL(inner.src); inner.focus(); });
    viewer.append(inner);
  };
  addEventListener("hashchange", show);
  show();
})();
