"""What VERL_USE_EXTERNAL_MODULES names: importing it registers everything in this process."""

from __future__ import annotations

from botgrpo.trainer.adapters.verl import register

register()
