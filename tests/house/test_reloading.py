"""What of a changed configuration a running server takes."""

from typing import Any

import pytest

from memproxy.core.proxykey import hashed
from memproxy.errors import ConfigError
from memproxy.serve.supervisor import RELOADED, is_reloaded, reload
from memproxy.settings import Settings
from memproxy.settings.reference import settings_of

KEY = {"id": "0" * 12, "hash": hashed("mpk_key"), "tenant": "acme"}


def read(**sections: Any) -> Settings:
    return Settings.model_validate(sections)


def test_every_name_of_the_list_is_a_setting_or_a_section_of_them() -> None:
    paths = [setting.path for setting in settings_of()]
    for name in RELOADED:
        assert any(f"{path}.".startswith(f"{name}.") for path in paths), name


def test_what_is_stored_recalled_or_called_by_it_waits_for_a_restart() -> None:
    for path in ("store.path", "embedding.model", "recall.limit", "upstream.base_url", "auth.mode", "server.port"):
        assert not is_reloaded(path)


def test_secrets_survive_and_what_waits_is_left_as_it_was() -> None:
    now = read(auth={"mode": "keys"}, upstream={"api_key": "sk-one"}, recall={"limit": 3})
    wanted = read(
        auth={"mode": "keys", "keys": [KEY]}, upstream={"api_key": "sk-two"}, telemetry={"metrics_token": "t"}
    )
    settings, taken, waiting = reload(now, wanted)
    assert (sorted(taken), sorted(waiting)) == (
        ["auth.keys", "telemetry.metrics_token"],
        ["recall.limit", "upstream.api_key"],
    )
    assert settings.auth.keys[0].hash.get_secret_value() == KEY["hash"]
    assert settings.upstream == now.upstream
    assert settings.recall.limit == 3
    assert reload(settings, wanted).applied == []


def test_another_mode_keeps_the_whole_of_auth_for_the_restart() -> None:
    now = read(auth={"mode": "jwt", "jwt": {"algorithms": ["HS256"], "key": "k" * 32}})
    settings, taken, waiting = reload(now, read(auth={"mode": "keys", "keys": [KEY]}, telemetry={"log_level": "debug"}))
    assert settings.auth == now.auth
    assert taken == ["telemetry.log_level"]
    assert {"auth.mode", "auth.keys", "auth.jwt.key"} <= set(waiting)


def test_what_cannot_go_with_what_waits_is_refused_with_the_reason() -> None:
    now = read(server={"host": "0.0.0.0"}, auth={"allow_remote": True})
    with pytest.raises(ConfigError, match=r"server\.host.*server\.host changed, too.*restart"):
        reload(now, read())
