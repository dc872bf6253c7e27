"""The single environment."""

from __future__ import annotations

import copy
import operator
from typing import Any, SupportsIndex

import gymnasium as gym
import numpy as np

from qv_env.cards import NUM_CARDS
from qv_env.compiling import compiled
from qv_env.deals import code_of, deck_of
from qv_env.observation import STOCK_VISIBLE, encode
from qv_env.render.pixels import picture
from qv_env.render.window import Window
from qv_env.rules import (
    LEGAL,
    REFUSALS,
    STATE,
    Game,
    attempt,
    deal_cards,
    determinize,
    foundation_cards,
    legal_actions,
)
from qv_env.suites import Deals, deal_pool
from qv_env.text import board_text
from qv_env.variants import (
    ENV_ID,
    MAX_EPISODE_STEPS,
    METADATA,
    Observation,
    Variant,
    checked_render_mode,
    chosen_deal,
    writable,
)

__all__ = ["ENV_ID", "MAX_EPISODE_STEPS", "QuaranteVoleursEnv"]


@compiled
def _begin(
    states: np.ndarray, deck: np.ndarray, flags: int, row: np.ndarray, mask: np.ndarray
) -> None:
    game = states[0]
    deal_cards(game, deck)
    encode(game, flags, row)
    legal_actions(game, mask)


@compiled
def _advance(
    states: np.ndarray, action: int, flags: int, row: np.ndarray, mask: np.ndarray
) -> tuple[int, int, int, int, int, int]:
    """Take an action.

    Returns:
        The rule that refused it (an index of REFUSALS), points, score, moves, cards on the
        foundations, number of legal actions.
    """
    game = states[0]
    reason, points = attempt(game, action)
    encode(game, flags, row)
    legal = legal_actions(game, mask)
    # int() matters when numba is switched off: users must not get NumPy scalars.
    score, moves = int(game["score"]), int(game["moves"])
    return int(reason), int(points), score, moves, int(foundation_cards(game)), int(legal)


class QuaranteVoleursEnv(gym.Env[Observation, np.int64]):
    """Quarante Voleurs, a two-pack solitaire of the Forty Thieves family, with a hidden stock.

    ## Description
    Two packs of 52 cards are shuffled together. Forty cards are dealt face up to ten columns of
    four; the other 64 lie face down in the stock. Eight empty foundations have fixed suits, left
    to right spades, hearts, diamonds, clubs, spades, hearts, diamonds, clubs. The aim is to build
    every foundation from ace to king. One card moves at a time:

    - the stock's top card to the waste, face up (a draw; the stock is dealt only once);
    - the top card of the waste or of a column to a foundation of its suit whose next rank it is
      (to the left one, if two foundations accept it);
    - the top card of the waste, of another column or of a foundation to a column that is empty,
      or whose top card is of the same suit and exactly one rank higher (so nothing goes on an
      ace).

    ## Action Space
    `Discrete(192)`, or `Discrete(112)` with `take_back=False`:

    | ids | move | name |
    |---|---|---|
    | 0 | draw | `draw` |
    | 1 + c | waste to column c (0..9) | `w>c3` |
    | 11 | waste to foundation | `w>f` |
    | 12 + c | column c to foundation | `c3>f` |
    | 22 + 9 s + (d if d < s else d - 1) | column s to column d | `c3>c7` |
    | 112 + 10 f + d | foundation f (0..7) back to column d | `f2>c5` |

    Columns and foundations are numbered from 1 in names (`qv_env.action_name`,
    `qv_env.parse_action`). `info["action_mask"]` and `action_masks()` tell which actions are
    legal. An illegal action changes nothing, has reward 0.0 and counts as a step;
    `info["refusal"]` then names the rule that it breaks. An action outside the space raises a
    ValueError.

    ## Observation Space
    With `observation="cards"`, a `Dict` of uint8 `Box` spaces. A card id is suit * 13 + rank + 1
    (suits spades, hearts, diamonds, clubs; ranks ace to king); 0 means "no card":

    | key | shape | range | content |
    |---|---|---|---|
    | `columns` | (10, 16) | 0..52 | card ids, bottom card first |
    | `foundations` | (8,) | 0..13 | number of cards on each |
    | `waste_top` | (1,) | 0..52 | card id |
    | `waste_size` | (1,) | 0..64 | number of cards |
    | `stock_size` | (1,) | 0..64 | number of cards |
    | `waste` (`memory=True`) | (64,) | 0..52 | card ids, bottom card first |
    | `unseen` (`memory=True`) | (52,) | 0..2 | copies of each card still in the stock |
    | `stock` (`stock_visible=True`) | (64,) | 0..52 | card ids, next card first |

    With `observation="onehot"`, one binary uint8 vector with the same information, for plain
    MLPs; `qv_env.observation` lists its sections.

    ## Starting State
    A deal drawn from the pool `deals` with the environment's random generator: the deal at index
    `raw * size >> 64` of the pool, where `raw` is the generator's next 64 bits. `reset(seed=s)`
    gives the same deal on every machine. `reset(options={"deal": code_or_number})` starts exactly
    that deal, and `reset(options={"deck": cards})` exactly that deck of 104 cards (0..51, each
    twice, in the order in which they are dealt).

    ## Rewards
    The change of the score, a float: +10 for a card to a foundation, +5 for a card from the waste
    to a column, -15 for a card taken back from a foundation (less where the score would fall
    below 0), 0 otherwise. An episode's rewards sum to its final score, at most 1360.

    ## Episode End
    Terminated when the game is won (all 104 cards on the foundations) or no action is legal.
    Truncated after 500 steps (`max_episode_steps`). Reset the environment after the end of an
    episode: the result of a further step is undefined.

    ## Information
    The same keys at reset and at every step:

    | key | type | content |
    |---|---|---|
    | `action_mask` | int8 array (192,) or (112,) | 1 for each legal action |
    | `deal` | str | the deal's code, `""` for an explicit deck |
    | `score` | int | 0..1360 |
    | `moves` | int | moves made; refused actions do not count |
    | `foundation_cards` | int | 0..104 |
    | `won` | bool | |
    | `refusal` | str | the rule that refused the action, `""` when none did |

    `deal` determines the whole deck, including the hidden stock: do not give it to an agent.

    ## Arguments
    ```python
    gym.make("qv_env:QuaranteVoleurs-v0", observation="cards", memory=False, stock_visible=False,
             take_back=True, deals=None, render_mode=None)
    ```

    - `observation`: `"cards"` or `"onehot"`.
    - `memory`: adds what an attentive player remembers, the whole waste and the unseen cards.
    - `stock_visible`: adds the stock's order, the known-stock ("thoughtful") variant.
    - `take_back`: `False` makes every foundation-to-column move illegal and drops those actions.
    - `deals`: the pool of deals: `None` for the training half (numbers below 2^34), the name of a
      suite (`dev-200`, `test-1000`, `test-10000`), `"lo:hi"` for the numbers lo to hi - 1, or a
      list of codes or numbers.
    - `render_mode`: `None`; `"ansi"`, the board as text; `"rgb_array"`, a picture of the table as
      uint8 (640, 960, 3) (needs Pillow, the extra `render`); or `"human"`, the same picture in a
      window, updated by `reset` and `step` at `metadata["render_fps"]` steps per second (needs
      pygame-ce, the extra `human`). Pictures mark the card that the last step moved, or name the
      rule that refused the action. Closing the window does not end the episode: the game continues
      at full speed without being shown, until `close()`.

    An invalid value of a keyword or option raises a ValueError that names it.

    ## References
    The rules follow the Quarante Voleurs app's rules pages. The mapping from deal codes to decks
    is this project's own, since the app's shuffle is not published; see `qv_env.deals`.

    ## Version History
    - v0: initial version
    """

    metadata = dict(METADATA)  # noqa: RUF012  (Gymnasium's)

    def __init__(
        self,
        render_mode: str | None = None,
        observation: str = "cards",
        memory: bool = False,
        stock_visible: bool = False,
        take_back: bool = True,
        deals: Deals = None,
    ) -> None:
        self.metadata = dict(self.metadata)  # older SyncVectorEnvs write to it
        self.render_mode = checked_render_mode(render_mode)
        variant = Variant(observation, memory, stock_visible, take_back, deals)
        self._encoding = variant.encoding
        self._pool = variant.pool
        self.observation_space = variant.encoding.space
        self.action_space = variant.action_space
        self._num_actions = variant.num_actions
        self._deal: str | None = None  # until the first reset
        self._states = np.zeros(1, dtype=STATE)
        self._mask = np.zeros(variant.num_actions, dtype=np.int8)
        # For pictures: the position before the last step, and which rule refused it.
        self._before: np.ndarray | None = None
        self._reason = LEGAL
        self._window: Window | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start a new game.

        Args:
            seed: Seeds the random generator that draws deals; None continues with the present one.
            options: ``{"deal": code_or_number}`` or ``{"deck": [104 cards]}`` starts exactly that
                deal or deck; then nothing is drawn from the generator.

        Returns:
            Observation and info, as the class describes them.

        Raises:
            ValueError: A deal, deck or option is invalid; the running episode is unchanged.
        """
        chosen = chosen_deal(options)
        super().reset(seed=seed)
        if chosen is None:
            number = self._pool.draw(self.np_random.bit_generator)
            chosen = number, deck_of(number)
        number, deck = chosen
        self._deal = code_of(number)
        row = np.empty(self._encoding.size, dtype=np.uint8)
        _begin(self._states, deck, self._encoding.flags, row, self._mask)
        if self.render_mode is not None:
            self._watch(None, LEGAL)
        return self._encoding.views(row), self._info(0, 0, 0, False, "")

    def step(self, action: SupportsIndex) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Take one action.

        Args:
            action: An action id.

        Returns:
            Observation, reward, terminated, truncated (always False: a wrapper applies the step
            limit) and info, as the class describes them.

        Raises:
            ValueError: The action is outside the action space; the game is unchanged.
            gymnasium.error.ResetNeeded: The environment was never reset.
        """
        if self._deal is None:
            raise gym.error.ResetNeeded("reset the environment before the first step")
        try:
            index = operator.index(action)
        except TypeError:
            index = -1
        if not 0 <= index < self._num_actions:
            raise ValueError(f"action {action!r} is not an integer in 0..{self._num_actions - 1}")
        before = None if self.render_mode is None else self._states.copy()
        row = np.empty(self._encoding.size, dtype=np.uint8)
        reason, points, score, moves, cards, legal = _advance(
            self._states, index, self._encoding.flags, row, self._mask
        )
        if before is not None:
            self._watch(before, reason)
        won = cards == NUM_CARDS
        info = self._info(score, moves, cards, won, REFUSALS[reason])
        return self._encoding.view(row), float(points), won or legal == 0, False, info

    def _info(self, score: int, moves: int, cards: int, won: bool, refusal: str) -> dict[str, Any]:
        return {
            "action_mask": self._mask.copy(),
            "deal": self._deal,
            "score": score,
            "moves": moves,
            "foundation_cards": cards,
            "won": won,
            "refusal": refusal,
        }

    def action_masks(self) -> np.ndarray:
        """Return which actions are legal now: bool (192,), or (112,) without take-backs."""
        return self._mask.astype(np.bool_)

    @property
    def state(self) -> Game:
        """The game itself: one live record of ``qv_env.rules.STATE``, read-only.

        For wrappers and tools such as recorders. It is not for agents, since it holds the order of
        the hidden stock; agents that plan ahead use :meth:`determinize`.
        """
        states = self._states.view()
        states.flags.writeable = False
        return states[0]

    def determinize(self, rng: np.random.Generator) -> QuaranteVoleursEnv:
        """Return a copy of the environment with the unseen cards in a new random order.

        For planners. The copy holds neither the hidden order nor the deal, and neither the pool
        nor the generator of this environment's deals: when it is reset, it draws from the training
        half. It opens no window: its ``render_mode`` is None if this environment's is ``"human"``.

        Args:
            rng: The generator that shuffles the unseen cards and seeds the copy's own generator.
        """
        if self._deal is None:
            raise gym.error.ResetNeeded("reset the environment before it is determinized")
        if not isinstance(rng, np.random.Generator):
            raise TypeError(f"rng is a numpy.random.Generator, not {rng!r}")
        twin = copy.copy(self)
        seen = self._encoding.flags & STOCK_VISIBLE  # nonzero: nothing is hidden
        twin._states = self._states.copy() if seen else determinize(self._states, rng)
        twin._mask = self._mask.copy()
        twin._deal = ""
        # A pool of one deal, or a small one, would reveal which deal this is.
        twin._pool = deal_pool(None)
        twin.spec = copy.deepcopy(self.spec)
        if twin.spec is not None:
            twin.spec.kwargs.pop("deals", None)
        twin._before, twin._reason, twin._window = None, LEGAL, None
        if self.render_mode == "human":
            twin.render_mode = None
        twin.action_space = copy.deepcopy(self.action_space)
        twin.observation_space = copy.deepcopy(self.observation_space)
        twin._np_random = np.random.Generator(np.random.PCG64(int(rng.integers(1 << 63))))
        twin._np_random_seed = -1  # Gymnasium's value for a generator without a known seed
        return twin

    def render(self) -> str | np.ndarray | None:
        """Render the position in the environment's render mode.

        Returns:
            ``"ansi"``: the board as text. ``"rgb_array"``: a picture, uint8 (640, 960, 3).
            ``"human"``: None; the window is redrawn without a pause.

        Raises:
            gymnasium.error.DependencyNotInstalled: Pillow or pygame-ce is missing.
        """
        if self.render_mode == "ansi":
            return board_text(self._states[0], self._deal or "")
        if self.render_mode == "rgb_array":
            return self._picture()
        if self.render_mode == "human":
            self._show(None)
            return None
        gym.logger.warn("render() was called, but no render_mode was given to the environment.")
        return None

    def _watch(self, before: np.ndarray | None, reason: int) -> None:
        """Store what pictures mark (the last step), and update the window in ``"human"`` mode."""
        self._before, self._reason = before, reason
        if self.render_mode == "human":
            self._show(self.metadata["render_fps"])

    def _picture(self) -> np.ndarray:
        before = None if self._before is None else self._before[0]
        return picture(self._states[0], self._deal or "", before, self._reason, self._mask)

    def _show(self, fps: float | None) -> None:
        if self._window is None:
            self._window = Window()
        if not self._window.dismissed:
            self._window.show([self._picture()], fps)

    def close(self) -> None:
        """Close the window, if there is one."""
        if self._window is not None:
            self._window.close()

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(writable(state))
