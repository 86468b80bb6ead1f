"""Changing the master key that wraps the users' data keys, from the command line, with or without a server running."""

from memproxy.errors import ConfigError
from memproxy.settings import Settings
from memproxy.settings.home import home_dir, state_path
from memproxy.wiring.state import sealed_state


async def rewrap(settings: Settings) -> int:
    """Wrap every data key by the first master key; how many were wrapped by another one.

    Raises:
        ConfigError: nothing is encrypted here, or there is no master key.
        StateUnavailable: the state does not answer, or a key is wrapped by a master key that is not here.
    """
    if not settings.privacy.encrypt:
        raise ConfigError("privacy.encrypt is off: there are no data keys to wrap.")
    state = sealed_state(settings, state_path(settings.state, home_dir()))
    await state.open()
    try:
        return await state.rewrap()
    finally:
        await state.close()
