"""Pages of results: one list of blocks, written as one HTML file and as Markdown beside pictures.

The HTML file has all in it, styles and pictures too, so that it can be sent; it needs no script.
Games alone are not in it but in a folder beside it, since they may be many: where a table leads to
games, a script loads them when they are opened, also from the disk.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import jinja2

from qv_env.evaluation.reports.tables import markdown_rows, markdown_text
from qv_env.files import write_bytes, write_text
from qv_env.playthroughs.playthrough import Playthrough
from qv_env.playthroughs.viewer import viewer_data, viewer_frame

REPORT_HTML, REPORT_MARKDOWN, GAMES = "report.html", "report.md", "games"

_ROWS_PER_FILE = 20  # rows of a table whose games are in one file
_CALL = "addGames("  # what a file of games begins with


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
    """Write ``report.html`` with its games, and ``report.md`` with its pictures, into a folder.

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
    _write_games(folder / GAMES, [block for block in blocks if isinstance(block, Games)])
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
    """Return the page as HTML that needs no other file but those of its games."""
    with_games = any(isinstance(block, Games) and block.games for block in blocks)
    return _TEMPLATES.get_template("report.html").render(
        title=title,
        blocks=[_block_data(block) for block in blocks],
        viewer=_viewer_parts() if with_games else None,
    )


def _block_data(block: Block) -> dict[str, Any]:
    """A block as the template wants it: its kind, and texts; cells are texts with links or None."""
    match block:
        case Table(rows):
            return {"kind": "table", "rows": _linked(rows, {})}
        case Games(rows, games):
            links = {(row, column): f"game-{row}-{column}" for row, column in games}
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


def _viewer_parts() -> dict[str, Any]:
    """What the page's script shows games in: the viewer's page around its data, compressed."""
    frame = viewer_frame()
    return {"frame": [_packed(frame.before), _packed(frame.after)], "rows": _ROWS_PER_FILE}


# --------------------------------------------------------------------------------------- games


def games_files(block: Games) -> Iterator[tuple[str, str]]:
    """Yield the files of a table's games: names, and contents.

    ``N.js`` has those of the rows from N * ``_ROWS_PER_FILE`` on. It is a script, since a page from
    the disk may load nothing else, and calls ``addGames`` with an object: for each row with games,
    by its number, the viewer's data of each cell on a line of its own (empty where the cell leads
    to no game), compressed.
    """
    rows: dict[int, list[str]] = {}
    for (row, column), game in block.games.items():
        rows.setdefault(row, [""] * len(block.rows[row]))[column] = viewer_data(game)
    files: dict[int, dict[int, str]] = {}
    for row, cells in sorted(rows.items()):
        files.setdefault(row // _ROWS_PER_FILE, {})[row] = _packed("\n".join(cells))
    for number, packed in files.items():
        yield f"{number}.js", f"{_CALL}{json.dumps(packed)});\n"


def _write_games(folder: Path, blocks: Sequence[Games]) -> None:
    """Write the files of the games, and remove those of an earlier report."""
    written = set()
    for block in blocks:
        for name, content in games_files(block):
            folder.mkdir(exist_ok=True)
            write_text(folder / name, content)
            written.add(name)
    for path in folder.glob("*.js"):
        if path.name not in written and path.read_bytes().startswith(_CALL.encode()):
            path.unlink()


def _packed(text: str) -> str:
    return base64.b64encode(gzip.compress(text.encode("utf-8"), mtime=0)).decode("ascii")


def _data_uri(png: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(png).decode("ascii")
