"""What each call does: from a message to the engine, and back to a message."""
