"""Pages of results: one list of blocks, written as one HTML file and as Markdown beside pictures.

The HTML file has all in it, styles, pictures and games too, so that it can be sent. It loads
nothing and needs no script but to show games.
"""

from __future__ import annotations

import base64
import gzip
import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TypeAlias

from qv_env.evaluation.reports.tables import markdown_rows, markdown_text
from qv_env.files import write_bytes, write_text
from qv_env.playthroughs.playthrough import Playthrough
from qv_env.playthroughs.viewer import embedded_json, game_data, viewer_page

REPORT_HTML, REPORT_MARKDOWN = "report.html", "report.md"


@dataclass(frozen=True)
class Heading:
    """A heading below the title."""

    text: str


@dataclass(frozen=True)
class Paragraph:
    """A paragraph; ``lead`` sets it off as what the page says above all."""

    text: str
    lead: bool = False


@dataclass(frozen=True)
class Bullets:
    """A list."""

    items: Sequence[str]


@dataclass(frozen=True)
class Table:
    """Rows of texts, the heading first; all columns but the first are set to the right."""

    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Code:
    """Text as it is typed; a page shows it folded under ``summary``, where there is one."""

    text: str
    summary: str = ""


@dataclass(frozen=True)
class Picture:
    """A picture for light pages and one for dark ones.

    ``file`` is its name beside Markdown. Two that are ``narrow`` stand side by side on wide pages.
    """

    file: str
    alt: str
    light: bytes
    dark: bytes
    narrow: bool = False


@dataclass(frozen=True)
class Games:
    """A table, as long as it may be, whose cells may lead to games, which the page then shows.

    Attributes:
        rows: Texts, the heading first.
        games: For cells, by row and column (the heading is row 0), the games that they lead to.
    """

    rows: Sequence[Sequence[str]]
    games: Mapping[tuple[int, int], Playthrough]


Block: TypeAlias = Heading | Paragraph | Bullets | Table | Code | Picture | Games


def write_page(folder: Path, title: str, blocks: Sequence[Block]) -> Path:
    """Write ``report.html``, and ``report.md`` with its pictures, into a folder.

    Args:
        folder: Where to; made where it is missing. Reports that it has are replaced.
        title: The title.
        blocks: What it says, with at most one ``Games``.

    Returns:
        The path of ``report.html``.

    Raises:
        OSError: The folder cannot be written to.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for block in blocks:
        if isinstance(block, Picture):
            write_bytes(folder / block.file, block.light)
    write_text(folder / REPORT_MARKDOWN, markdown_page(title, blocks))
    write_text(folder / REPORT_HTML, html_page(title, blocks))
    return folder / REPORT_HTML


# ------------------------------------------------------------------------------------ Markdown


def markdown_page(title: str, blocks: Sequence[Block]) -> str:
    """Return the page in Markdown; pictures are files beside it, games stay in the HTML page."""
    parts = [f"# {markdown_text(title)}", *(_markdown_block(block) for block in blocks)]
    return "\n\n".join(part.rstrip("\n") for part in parts) + "\n"


def _markdown_block(block: Block) -> str:
    match block:
        case Heading(text):
            return f"## {markdown_text(text)}"
        case Paragraph(text, lead):
            return f"**{markdown_text(text)}**" if lead else markdown_text(text)
        case Bullets(items):
            return "\n".join(f"- {markdown_text(item)}" for item in items)
        case Table(rows):
            return markdown_rows(rows)
        case Games(rows):
            return f"{len(rows) - 1:,} rows are in {REPORT_HTML} only."
        case Code(text):
            longest = max((len(run) for run in re.findall("`+", text)), default=0)
            fence = "`" * max(3, longest + 1)
            return f"{fence}\n{text}\n{fence}"
        case Picture(file, alt):
            return f"![{markdown_text(alt)}]({file})"


# ---------------------------------------------------------------------------------------- HTML

_STYLE = """
:root { color-scheme: light dark; --text: #222; --page: #fff; --box: #f3f4f6; --line: #d4d7dc; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e8e8e8; --page: #1b1d21; --box: #272a30; --line: #4a4d55; }
}
body { margin: 0 auto; padding: 1rem; max-width: 52rem; font: 1rem/1.55 system-ui, sans-serif;
  color: var(--text); background: var(--page); overflow-wrap: break-word; }
h1 { font-size: 1.6rem; line-height: 1.25; } h2 { font-size: 1.2rem; margin-top: 2rem; }
.lead { padding: .8rem 1rem; background: var(--box); border-left: .3rem solid #0072b2; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .9rem; }
th, td { padding: .35rem .6rem; border-bottom: 1px solid var(--line); text-align: right; }
th { vertical-align: bottom; } td { white-space: nowrap; }
th:first-child, td:first-child { text-align: left; white-space: normal; min-width: 6rem; }
pre { padding: .7rem 1rem; background: var(--box); overflow-x: auto; font-size: .85rem; }
img { max-width: 100%; height: auto; } .narrow img { width: 25rem; }
.games { max-height: 36rem; overflow: auto; } .games thead { position: sticky; top: 0;
  background: var(--page); }
a { color: inherit; }
#viewer { position: fixed; inset: 0; display: flex; flex-direction: column;
  background: var(--page); }
#viewer[hidden] { display: none; } #viewer iframe { flex: 1; border: 0; }
#viewer a { padding: .4rem 1rem; }
"""


_LEAD, _NARROW = ' class="lead"', ' class="narrow"'


def html_page(title: str, blocks: Sequence[Block]) -> str:
    """Return the page as HTML that needs no other file."""
    body = "\n".join(_html_block(block) for block in blocks)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{html.escape(title)}</title>
<style>{_STYLE}</style>
</head>
<body>
<h1>{html.escape(title)}</h1>
{body}
</body>
</html>
"""


def _html_block(block: Block) -> str:
    match block:
        case Heading(text):
            return f"<h2>{html.escape(text)}</h2>"
        case Paragraph(text, lead):
            return f"<p{_LEAD if lead else ''}>{html.escape(text)}</p>"
        case Bullets(items):
            return "<ul>" + "".join(f"<li>{html.escape(item)}</li>" for item in items) + "</ul>"
        case Table(rows):
            return _html_table(rows)
        case Code(text, summary):
            code = f"<pre><code>{html.escape(text)}</code></pre>"
            if not summary:
                return code
            return f"<details><summary>{html.escape(summary)}</summary>{code}</details>"
        case Games(rows, games):
            return _html_games(rows, games)
        case Picture(_, alt, light, dark, narrow):
            return (
                f"<picture{_NARROW if narrow else ''}>"
                f'<source media="(prefers-color-scheme: dark)" srcset="{_data_uri(dark)}">'
                f'<img alt="{html.escape(alt)}" src="{_data_uri(light)}">'
                "</picture>"
            )


def _html_table(
    rows: Sequence[Sequence[str]],
    links: Mapping[tuple[int, int], str] = MappingProxyType({}),
    style: str = "scroll",
) -> str:
    """Rows as a table; cells by row and column may be links to places of the page."""

    def cell(row: int, column: int, text: str) -> str:
        shown, link = html.escape(text), links.get((row, column))
        return shown if link is None else f'<a href="#{link}">{shown}</a>'

    heading, *body = rows
    head = "".join(f'<th scope="col">{html.escape(text)}</th>' for text in heading)
    lines = (
        "<tr>" + "".join(f"<td>{cell(i, k, text)}</td>" for k, text in enumerate(row)) + "</tr>"
        for i, row in enumerate(body, start=1)
    )
    return (
        f'<div class="{style}"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table></div>"
    )


# The viewer's page is the same for all games but for the game: it is in the report once, and is
# put together with a game when that is asked for. Both are compressed.
_GAMES_SCRIPT = """
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
    const [frame, game] = await Promise.all([unpack(stored.frame), unpack(stored.games[name])]);
    if (location.hash.slice(1) !== name) return;
    const inner = document.createElement("iframe");
    inner.title = "the game";
    const [before, after] = frame.split(stored.mark);
    inner.src = URL.createObjectURL(new Blob([before, game, after], { type: "text/html" }));
    inner.addEventListener("load", () => { URL.revokeObjectURL(inner.src); inner.focus(); });
    viewer.append(inner);
  };
  addEventListener("hashchange", show);
  show();
})();
"""
_MARK = "GAME-GOES-HERE"


def _html_games(rows: Sequence[Sequence[str]], games: Mapping[tuple[int, int], Playthrough]) -> str:
    if not games:
        return _html_table(rows, style="scroll games")
    links = {place: f"game-{number}" for number, place in enumerate(games)}
    page = viewer_page(next(iter(games.values())))
    data = embedded_json([game_data(next(iter(games.values())))])
    before, after = page.split(f'"games":{data}')
    stored = {
        "frame": _packed(f'{before}"games":{_MARK}{after}'),
        "mark": _MARK,
        "games": {
            links[place]: _packed(embedded_json([game_data(game)])) for place, game in games.items()
        },
    }
    return (
        f"{_html_table(rows, links, 'scroll games')}\n"
        '<div id="viewer" hidden><a href="#">back to the report</a></div>\n'
        f'<script type="application/json" id="game-data">{embedded_json(stored)}</script>\n'
        f"<script>{_GAMES_SCRIPT}</script>"
    )


def _packed(text: str) -> str:
    return base64.b64encode(gzip.compress(text.encode("utf-8"), mtime=0)).decode("ascii")


def _data_uri(png: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(png).decode("ascii")
