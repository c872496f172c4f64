"""What each command does. Heavy modules are imported inside: `rewards list` needs no torch."""
