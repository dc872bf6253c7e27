"""Pages of results: one list of blocks, written as one HTML file and as Markdown beside pictures.

The HTML file has all in it, styles, pictures and games too, so that it can be sent. It loads
nothing and needs no script but to show games.
"""

from __future__ import annotations

import base64
import gzip
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import jinja2

from qv_env.evaluation.reports.tables import markdown_rows, markdown_text
from qv_env.files import write_bytes, write_text
from qv_env.playthroughs.playthrough import Playthrough
from qv_env.playthroughs.viewer import viewer_data, viewer_frame

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

_TEMPLATES = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=True,  # whatever the files' names end in
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)


def html_page(title: str, blocks: Sequence[Block]) -> str:
    """Return the page as HTML that needs no other file."""
    games = [block for block in blocks if isinstance(block, Games) and block.games]
    return _TEMPLATES.get_template("report.html").render(
        title=title,
        blocks=[_block_data(block) for block in blocks],
        stored=_stored_games(games[0]) if games else None,
    )


def _block_data(block: Block) -> dict[str, Any]:
    """A block as the template wants it: its kind, and texts; cells are texts with links or None."""
    match block:
        case Table(rows):
            return {"kind": "table", "rows": _linked(rows, {})}
        case Games(rows, games):
            links = dict(zip(games, _game_names(games), strict=True))
            return {"kind": "games", "rows": _linked(rows, links)}
        case Picture(_, alt, light, dark, narrow):
            uris = {"light": _data_uri(light), "dark": _data_uri(dark)}
            return {"kind": "picture", "alt": alt, "narrow": narrow, **uris}
        case _:
            return {"kind": type(block).__name__.lower(), **vars(block)}


def _linked(
    rows: Sequence[Sequence[str]], links: Mapping[tuple[int, int], str]
) -> list[list[tuple[str, str | None]]]:
    """Rows with, for each cell, the name of the game that it leads to, or None."""
    return [[(text, links.get((i, k))) for k, text in enumerate(row)] for i, row in enumerate(rows)]


def _stored_games(block: Games) -> dict[str, Any]:
    """What the page's script shows games with.

    The viewer's page is the same for all games but for its data: it is in the report once, and is
    put together with a game's data when that game is asked for. All parts are compressed.
    """
    frame = viewer_frame()
    names = _game_names(block.games)
    return {
        "frame": [_packed(frame.before), _packed(frame.after)],
        "games": {
            name: _packed(viewer_data(game))
            for name, game in zip(names, block.games.values(), strict=True)
        },
    }


def _game_names(games: Collection[object]) -> list[str]:
    """What games are called in addresses within the page, in order."""
    return [f"game-{number}" for number in range(len(games))]


def _packed(text: str) -> str:
    return base64.b64encode(gzip.compress(text.encode("utf-8"), mtime=0)).decode("ascii")


def _data_uri(png: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(png).decode("ascii")
