"""What a user's own data say: whether sharing helps, and how many directions there are."""

from cobandits.diagnostics.directions import Spectrum, spectrum
from cobandits.diagnostics.held_out import Sharing, sharing

__all__ = ["Sharing", "Spectrum", "sharing", "spectrum"]
