"""Pictures of a game: one layout of the table, its art, the pixels, the window.

=============  ==========================================================================
module         contents
=============  ==========================================================================
``layout``     the positions of everything on the table; pure Python, also as JSON for pages
``art``        shapes of the suits, and colours; pure Python, also as SVG for pages
``pixels``     a game as an RGB array (needs Pillow, the extra ``render``)
``window``     the same picture in a window (needs pygame-ce, the extra ``human``)
=============  ==========================================================================

Importing this package, or ``layout`` and ``art``, needs nothing beyond the game itself; Pillow and
pygame-ce are imported when the first picture is drawn.
"""

from pathlib import Path

# table.css and table.js, with which a page draws the table, and page.css, the style of all pages.
STATIC = Path(__file__).parent / "static"
