"""Pages of blocks: what each block becomes, and that texts stay texts wherever they stand."""

from __future__ import annotations

import base64
import gzip
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from qv_env.evaluation.reports import page as module
from qv_env.evaluation.reports.page import (
    Bullets,
    Code,
    GameTable,
    Heading,
    Paragraph,
    Picture,
    Table,
    html_page,
    markdown_page,
    write_page,
)
from qv_env.playthroughs.playthrough import Playthrough, read_playthrough
from qv_env.playthroughs.viewer import viewer_data, viewer_frame
from tests.browser import wait_until

WON = read_playthrough(Path(__file__).parents[1] / "data" / "won.json")
HOSTILE = "</script><img src=x onerror=alert(1)><!--<script>{{ title }}{% raw %}{#'\"&amp; `"
PNG = b"\x89PNG\r\n"


def unpacked(text: str) -> str:
    return gzip.decompress(base64.b64decode(text)).decode()


class Elements(HTMLParser):
    """A page's elements in order: tag, attributes, and the text directly inside."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None], list[str]]] = []
        self.open: list[int] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs), []))
        if tag not in ("meta", "img", "source"):
            self.open.append(len(self.elements) - 1)

    def handle_endtag(self, tag):
        assert self.elements[self.open.pop()][0] == tag

    def handle_data(self, data):
        if self.open:
            self.elements[self.open[-1]][2].append(data)

    def all(self, tag: str) -> list[tuple[dict[str, str | None], str]]:
        return [(attrs, "".join(text)) for name, attrs, text in self.elements if name == tag]


def blocks_of(text: str) -> list[module.Block]:
    """A block of every kind and form, each with the text wherever it has one."""
    game = Playthrough.from_actions(WON.actions[:5], deal=WON.deal, player=text, extra={text: text})
    rows = [["", text], [text, text], [text, ""]]
    return [
        Heading(text),
        Paragraph(text),
        Paragraph(text, lead=True),
        Bullets([text, text]),
        Table(rows),
        Code(text),
        Code(text, summary=text),
        Picture("a.png", text, PNG, PNG + b"dark"),
        Picture("b.png", text, PNG, PNG, narrow=True),
        GameTable(rows, {(1, 1): game, (2, 0): WON}),
    ]


def test_blocks_become_elements():
    page = Elements(html_page("title", blocks_of("text")))
    assert page.all("title") == page.all("h1") == [({}, "title")]
    assert page.all("h2") == [({}, "text")]
    assert page.all("p") == [({}, "text"), ({"class": "lead"}, "text")]
    assert page.all("li") == [({}, "text")] * 2
    assert page.all("code") == [({}, "text")] * 2
    assert page.all("summary") == [({}, "text")]
    assert page.all("th") == [({"scope": "col"}, ""), ({"scope": "col"}, "text")] * 2
    assert [text for _, text in page.all("td")] == ["text", "text", "text", "", "text", "", "", ""]
    links = [("#game-1-1", "text"), ("#game-2-0", "text"), ("#", "back to the report")]
    assert [(attrs["href"], text) for attrs, text in page.all("a")] == links
    assert [attrs for attrs, _ in page.all("picture")] == [{}, {"class": "narrow"}]
    light, dark = (
        f"data:image/png;base64,{base64.b64encode(png).decode()}" for png in (PNG, PNG + b"dark")
    )
    assert page.all("img") == [({"alt": "text", "src": light}, "")] * 2
    sources = [attrs["srcset"] for attrs, _ in page.all("source")]
    assert sources == [dark, light]
    parts = next(text for attrs, text in page.all("script") if "id" in attrs)
    frame = viewer_frame()
    assert list(map(unpacked, json.loads(parts)["frame"])) == [frame.before, frame.after]


def test_texts_stay_texts_in_every_block():
    plain = Elements(html_page("title", blocks_of("text")))
    hostile = Elements(html_page(HOSTILE, blocks_of(HOSTILE)))
    assert len(plain.elements) == len(hostile.elements)
    named = {"text": HOSTILE, "title": HOSTILE}
    for one, other in zip(plain.elements, hostile.elements, strict=True):
        assert one[0] == other[0]
        assert {key: named.get(value, value) for key, value in one[1].items()} == other[1]
        if one[0] != "script":
            text = "".join(one[2])
            assert "".join(other[2]) == named.get(text, text)


def test_a_page_without_games_has_no_script(tmp_path):
    blocks = [Heading("a"), GameTable([["deal"], ["1"]], {})]
    page = Elements(html_page("title", blocks))
    assert page.all("script") == []
    assert page.all("td") == [({}, "1")]
    write_page(tmp_path, "title", blocks)
    assert {path.name for path in tmp_path.iterdir()} == {"report.html", "report.md"}


def game_of(steps: int, player: str = "x") -> Playthrough:
    return Playthrough.from_actions(WON.actions[:steps], deal=WON.deal, player=player)


def many_games() -> GameTable:
    """A table of 45 rows; games in rows 1, 3, 19, 20 and 45, of row 3 in two cells."""
    cells = ((1, 1), (3, 2), (3, 0), (19, 1), (20, 1), (45, 2))
    rows = [["a", "b", "c"], *([f"{row}", f"b{row}", f"c{row}"] for row in range(1, 46))]
    return GameTable(rows, {cell: game_of(sum(cell)) for cell in cells})


def test_games_are_in_files_beside_the_page(tmp_path):
    block = many_games()
    write_page(tmp_path, "title", [block])
    found = {}
    for path in (tmp_path / "games").iterdir():
        call = re.fullmatch(r"addGames\((.*)\);\n", path.read_text())
        for row, text in json.loads(call[1]).items():
            for column, data in enumerate(unpacked(text).split("\n")):
                if data:
                    found[int(row), column] = (path.name, data)
    assert {cell: data for cell, (_, data) in found.items()} == {
        cell: viewer_data(game) for cell, game in block.games.items()
    }
    names = {1: "0.js", 3: "0.js", 19: "0.js", 20: "1.js", 45: "2.js"}
    assert {row: name for (row, _), (name, _) in found.items()} == names


def test_games_of_an_earlier_report_go(tmp_path):
    write_page(tmp_path, "title", [many_games()])
    ours = {path.name for path in (tmp_path / "games").iterdir()}
    assert ours == {"0.js", "1.js", "2.js"}
    for name in ("7.js", "notes.txt"):
        (tmp_path / "games" / name).write_text("// somebody else's\n")
    write_page(tmp_path, "title", [GameTable([["a"], ["1"]], {(1, 0): game_of(3)})])
    assert {path.name for path in (tmp_path / "games").iterdir()} == {"0.js", "7.js", "notes.txt"}


def test_a_reader_goes_from_game_to_game(tmp_path, open_page):
    write_page(tmp_path, "title", [many_games()])
    page = open_page(tmp_path / "report.html", allowed=("file:", "data:", "blob:"))
    for row, column in ((3, 2), (45, 2), (3, 0)):
        page.locator(f"a[href='#game-{row}-{column}']").click()
        shown = f"{row + column} move"
        page.frame_locator("#viewer iframe").locator(".list h3").filter(has_text=shown).wait_for()
        assert page.locator("#viewer iframe").count() == 1
        page.get_by_text("back to the report").click()
        wait_until(page, "document.getElementById('viewer').hidden")
    # Addresses that no cell has lead nowhere.
    for name in ("game-2-1", "game-99-1", "game-1-1-1", "viewer"):
        page.evaluate("name => { location.hash = name; }", name)
        assert page.locator("#viewer").is_hidden()


def test_a_page_without_its_games_says_so(tmp_path, open_page):
    write_page(tmp_path, "title", [many_games()])
    (tmp_path / "games" / "1.js").unlink()
    allowed = ("file:", "data:", "blob:")
    page = open_page(tmp_path / "report.html", allowed=allowed, expected="ERR_FILE_NOT_FOUND")
    page.locator("a[href='#game-20-1']").click()
    page.locator("#viewer p").filter(has_text="belongs beside this page").wait_for()
    page.get_by_text("back to the report").click()
    page.locator("a[href='#game-19-1']").click()
    page.frame_locator("#viewer iframe").locator("#deal").wait_for()
    assert page.locator("#viewer p").count() == 0


def test_styles_and_script_are_in_the_page_as_they_are():
    page = html_page("title", blocks_of("text"))
    for path in (Path(module.__file__).parent / "templates").iterdir():
        text = path.read_text(encoding="utf-8")
        if path.suffix != ".html":
            assert text in page
            assert not re.search("</|<!--", text)
        for call in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
            assert call not in text, path.name
        # What is not escaped would have to be ours, and nothing is.
        assert not re.search(r"\|\s*safe|autoescape", text), path.name


def test_preformatted_text_is_kept():
    text = "\n  a\n\n\tb  \n"
    page = Elements(html_page("title", [Code(text)]))
    assert page.all("code") == [({}, text)]


def test_markdown_says_the_same(tmp_path):
    blocks = blocks_of("text")
    assert write_page(tmp_path / "a" / "b", "title", blocks) == tmp_path / "a" / "b" / "report.html"
    written = {p.name: p.read_bytes() for p in (tmp_path / "a" / "b").iterdir() if p.is_file()}
    assert written == {
        "report.html": html_page("title", blocks).encode(),
        "report.md": markdown_page("title", blocks).encode(),
        "a.png": PNG,
        "b.png": PNG,
    }
    markdown = written["report.md"].decode()
    for part in ("# title\n", "## text\n", "**text**\n", "- text\n", "![text](a.png)\n"):
        assert part in markdown
    assert "2 rows are in report.html only." in markdown


@pytest.mark.parametrize("kind", ["light", "dark"])
def test_hostile_texts_in_a_browser(tmp_path, open_page, kind):
    write_page(tmp_path, HOSTILE, blocks_of(HOSTILE))
    page = open_page(tmp_path / "report.html", scheme=kind, allowed=("file:", "data:", "blob:"))
    assert page.title() == " ".join(HOSTILE.split())
    assert page.locator("img").count() == 2
    page.locator("a[href='#game-1-1']").click()
    frame = page.frame_locator("#viewer iframe")
    frame.locator("#deal").filter(has_text=WON.deal).wait_for()
    assert frame.locator(".player").text_content() == HOSTILE
    assert frame.locator("img").count() == 0
