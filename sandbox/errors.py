"""Every error that botgrpo raises on purpose.

    BotgrpoError
    ├── ConfigError (ValueError)            a wrong call, name, file or setting; exit status 2
    ├── RunFailed (RuntimeError)            a run that started and could not go on; exit status 1
    └── SandboxUnavailable (RuntimeError)   we could not judge: no isolation, no node, engine gone

A candidate that fails is never an error: it is a result with a verdict. A message says what was
got, what is allowed and what to do next. The root lives in the lowest layer so that all may use it.
"""


class BotgrpoError(Exception):
    """Root of all errors that botgrpo raises on purpose."""


class ConfigError(BotgrpoError, ValueError):
    """A wrong call, name, file or setting, found before anything heavy starts."""


class RunFailed(BotgrpoError, RuntimeError):
    """A run that started and could not go on; the last good checkpoint is intact."""


class SandboxUnavailable(BotgrpoError, RuntimeError):
    """Nothing could be judged for a reason of ours: the rollouts stay unscored."""
