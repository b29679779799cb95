"""How states look: a colour, a shape and a word, so that none of them is needed alone."""

from markupsafe import Markup

from .words import clean

# Drawn in a box of 16.
_SHAPES = {
    "SCHEDULED": '<circle cx="8" cy="8" r="6"/><path d="M8 4.5V8l2.5 2"/>',
    "BLOCKED": '<rect x="3" y="3" width="10" height="10" rx="1"/><path d="M6 6v4M10 6v4"/>',
    "PENDING": '<circle cx="8" cy="8" r="5.5" stroke-dasharray="3 2.2"/>',
    "RUNNING": '<path class="solid" d="M5 3l8 5-8 5z"/>',
    "RETRYING": '<path d="M12.5 8a4.5 4.5 0 1 1-1.5-3.4M11.5 2v3h-3"/>',
    "SUCCEEDED": '<circle class="solid" cx="8" cy="8" r="6"/>'
    '<path class="cut" d="M5 8.2l2.2 2.2L11 6"/>',
    "FAILED": '<path class="solid" d="M5.3 2h5.4L14 5.3v5.4L10.7 14H5.3L2 10.7V5.3z"/>'
    '<path class="cut" d="M5.8 5.8l4.4 4.4M10.2 5.8l-4.4 4.4"/>',
    "CANCELLED": '<circle cx="8" cy="8" r="6"/><path d="M4 12L12 4"/>',
    "DEAD": '<path class="solid" d="M8 1.5L14.5 8 8 14.5 1.5 8z"/>'
    '<path class="cut" d="M8 5v3.5M8 10.4v.6"/>',
    "DRAINING": '<path d="M3 4h10M5 8h6M7 12h2"/>',
    "LOST": '<path class="solid" d="M8 1.5L15 14H1z"/><path class="cut" d="M8 6v4M8 11.8v.4"/>',
    "PAUSED": '<path d="M5.5 3.5v9M10.5 3.5v9"/>',
    "INVALID": '<path class="solid" d="M8 1.5L15 14H1z"/><path class="cut" d="M8 6v4M8 11.8v.4"/>',
    "ENDED": '<path d="M4 8h8"/>',
    "ACTIVE": '<circle class="solid" cx="8" cy="8" r="4"/>',
}
# Attempts end in words of their own.
_ATTEMPTS = {
    "succeeded": "SUCCEEDED",
    "running": "RUNNING",
    "error": "FAILED",
    "permanent": "FAILED",
    "timeout": "FAILED",
    "lost": "LOST",
    "cancelled": "CANCELLED",
}
_FIRES = {
    "fired": "SUCCEEDED",
    "manual": "SUCCEEDED",
    "queued": "PENDING",
    "replaced": "RETRYING",
    "skipped": "CANCELLED",
    "missed": "LOST",
}
STATES = (
    "SCHEDULED",
    "BLOCKED",
    "PENDING",
    "RUNNING",
    "RETRYING",
    "SUCCEEDED",
    "FAILED",
    "CANCELLED",
    "DEAD",
)


def shape(state: str) -> Markup:
    """Give the shape of a state, for a box of 16."""
    return Markup(_SHAPES.get(state, '<circle cx="8" cy="8" r="3"/>'))


def css(state: str) -> str:
    """Give the class of a state's colour."""
    return f"st-{state.lower()}" if state in _SHAPES else "st-pending"


def badge(state: str) -> Markup:
    """Show a state."""
    return Markup(
        '<span class="badge {}"><svg viewBox="0 0 16 16" aria-hidden="true">{}</svg>{}</span>'
    ).format(css(state), shape(state), clean(state))


def attempt_badge(outcome: str) -> Markup:
    """Show how an attempt ended."""
    return _worded(_ATTEMPTS.get(outcome, "PENDING"), outcome)


def fire_badge(outcome: str) -> Markup:
    """Show what became of a fire."""
    return _worded(_FIRES.get(outcome, "PENDING"), outcome)


def _worded(state: str, word: str) -> Markup:
    return Markup(
        '<span class="badge {}"><svg viewBox="0 0 16 16" aria-hidden="true">{}</svg>{}</span>'
    ).format(css(state), shape(state), clean(word))
