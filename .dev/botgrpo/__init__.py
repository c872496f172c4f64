"""Development shim: lets `import botgrpo.rewards` find the top-level folder `rewards/`, and so on.

Not part of the wheel, where the four folders live under `botgrpo/` for real.
"""

from pathlib import Path

__path__ = [str(Path(__file__).parents[2])]
