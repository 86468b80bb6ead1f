"""Where a setting's value comes from, and what a configuration that cannot be used says."""

import contextlib
import json
import textwrap
from collections.abc import Mapping
from operator import attrgetter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from memproxy.core.proxykey import hashed
from memproxy.errors import ConfigError
from memproxy.settings import Settings
from memproxy.settings.loading import load_settings
from memproxy.settings.reference import settings_of
from memproxy.wiring.files import check_files


class Files:
    def __init__(self, folder: Path) -> None:
        self.path = folder / "memproxy.yaml"

    def load(self, text: str, environ: Mapping[str, str] | None = None, **overrides: object) -> Settings:
        self.path.write_text(textwrap.dedent(text), encoding="utf-8")
        dotted = {name.replace("__", "."): value for name, value in overrides.items()}
        return load_settings(self.path, environ=environ or {}, overrides=dotted)

    def refused(self, text: str, environ: Mapping[str, str] | None = None, **overrides: object) -> list[str]:
        with pytest.raises(ConfigError) as caught:
            self.load(text, environ, **overrides)
        return caught.value.message.splitlines()[1:]


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def test_no_file_gives_the_defaults() -> None:
    assert load_settings(None, environ={}) == Settings()


@pytest.mark.parametrize("text", ["", "# only a comment\n", "recall:\n", "{}", "---\n"])
def test_an_empty_file_gives_the_defaults(files: Files, text: str) -> None:
    assert files.load(text) == Settings()


def test_the_command_line_wins_over_the_environment_over_the_file_over_the_defaults(files: Files) -> None:
    text = "recall: {limit: 1, max_tokens: 1, deadline_ms: 1}"
    environ = {"MEMPROXY__RECALL__LIMIT": "2", "MEMPROXY__RECALL__MAX_TOKENS": "2"}
    recall = files.load(text, environ, recall__limit=3).recall
    assert (recall.limit, recall.max_tokens, recall.deadline_ms, recall.min_confidence) == (3, 2, 1, 0.3)


def test_a_command_line_option_that_was_not_given_overrides_nothing_and_overrides_may_be_nested(files: Files) -> None:
    assert files.load("server: {port: 1}", server__port=None).server.port == 1
    assert files.load("server: {port: 1}", server={"port": 5}).server.port == 5


def test_what_yaml_refuses_is_told_with_what_to_do(files: Files) -> None:
    for text, remedy in (("server:\n\tport: 1\n", "indent with spaces"), ("upstream: {api_key: ${KEY}}", "in quotes")):
        with pytest.raises(ConfigError, match=remedy):
            files.load(text)


def test_a_section_that_is_none_is_refused_whatever_is_laid_over_it(files: Files) -> None:
    (plain,) = files.refused("server: 3")
    assert files.refused("server: 3", server__port=1) == [plain]
    assert files.refused("server: 3", {"MEMPROXY__SERVER__PORT": "1"}) == [plain]
    assert files.refused("auth: {tenants: x}", {"MEMPROXY__AUTH__TENANTS__ABC": "Team"})


KEY = {"id": "0123456789ab", "hash": hashed("x"), "tenant": "acme"}


@pytest.mark.parametrize(
    ("keys", "path"),
    [
        ([KEY | {"hash": "5e884898da28047151d0e56f8dc62927"}], "auth.keys.0.hash"),
        ([KEY | {"hash": "scrypt$15$8$1$c2FsdHNhbHQ=$aGFzaA=="}], "auth.keys.0.hash"),
        ([KEY | {"id": "mpk_0123456789ab"}], "auth.keys.0.id"),
        ([KEY | {"tenant": " "}], "auth.keys.0.tenant"),
        ([KEY, KEY], "auth.keys.1.id"),
    ],
)
def test_a_key_that_nobody_could_prove_is_refused(files: Files, keys: list[dict[str, str]], path: str) -> None:
    (line,) = files.refused(f"auth: {{mode: keys, keys: {json.dumps(keys)}}}")
    assert line.strip().startswith(f"{path}: ")
    assert "5e8848" not in line
    assert files.load(f"auth: {{mode: keys, keys: {json.dumps([KEY])}}}").auth.keys[0].id == KEY["id"]


def test_a_secret_that_is_shorter_than_its_hash_is_refused_wherever_it_is(files: Files, tmp_path: Path) -> None:
    (line,) = files.refused("auth: {mode: jwt, jwt: {algorithms: [HS256], key: short-secret}}")
    assert "auth.jwt.key: " in line
    assert "at least 32 bytes" in line
    assert "short-secret" not in line
    (tmp_path / "secret").write_text("x" * 32 + "\n")
    for algorithm, length in (("HS256", 0), ("HS512", 64)):
        jwt = f"{{algorithms: [{algorithm}], key_file: {tmp_path / 'secret'}}}"
        settings = files.load(f"auth: {{mode: jwt, jwt: {jwt}}}")
        with pytest.raises(ConfigError, match=f"at least {length}") if length else contextlib.nullcontext():
            check_files(settings)


def test_environment_values_are_read_as_the_setting_needs() -> None:
    environ = {
        "MEMPROXY__GATE__SKIP": '["greeting"]',
        "MEMPROXY__AUTH__TENANTS": "{abc: team}",
        "MEMPROXY__SERVER__PORT": "9000",
        "MEMPROXY__UPSTREAM__API_KEY": "12345",
        "MEMPROXY__LEARN__ENABLED": "false",
        "memproxy__telemetry__log_format": "json",
        "MEMPROXY__MODELS__EXTRACT__MODEL": "small",
        "MEMPROXY_HOME": "elsewhere",
        "MEMPROXY_SECRET": "x",
    }
    settings = load_settings(None, environ=environ)
    assert settings.gate.skip == ["greeting"]
    assert settings.auth.tenants == {"abc": "team"}
    assert settings.server.port == 9000
    assert settings.upstream.api_key is not None
    assert settings.upstream.api_key.get_secret_value() == "12345"
    assert settings.learn.enabled is False
    assert settings.telemetry.log_format == "json"
    assert settings.models.extract.model == "small"


@pytest.mark.parametrize("text", ["", "null"])
def test_an_empty_environment_value_unsets_an_optional_setting(files: Files, text: str) -> None:
    environ = {"MEMPROXY__UPSTREAM__API_KEY": text}
    assert files.load("upstream: {api_key: secret}", environ).upstream.api_key is None


def test_a_key_from_a_file_loses_its_end_of_line_and_one_that_no_header_holds_is_refused(files: Files) -> None:
    key = files.load('upstream: {api_key: "${KEY}"}', {"KEY": "sk-1\n"}).upstream.api_key
    assert key is not None
    assert key.get_secret_value() == "sk-1"
    for wrong in ("sk-1\nsk-2", "sk-ä", " "):
        (line,) = files.refused('models: {judge: {api_key: "${KEY}"}}', {"KEY": wrong})
        assert "models.judge.api_key: the value (not shown) cannot be used; must be ASCII" in line


def test_variables_are_filled_into_texts(files: Files) -> None:
    text = """
        upstream: {base_url: "http://${HOST}:${PORT:-80}/v1", api_key: "${KEY:-}"}
        server: {port: "${PORT:-8000}", allowed_hosts: ["${HOST}", "a$$b", "$HOME"]}
    """
    settings = files.load(text, {"HOST": "example.test", "PORT": ""})
    assert settings.upstream.base_url == "http://example.test:80/v1"
    assert settings.upstream.api_key is None
    assert settings.server.port == 8000
    assert settings.server.allowed_hosts == ["example.test", "a$b", "$HOME"]


@pytest.mark.parametrize(
    ("text", "environ", "expected"),
    [
        ("", {}, "https://api.openai.com/v1"),
        ("", {"OPENAI_BASE_URL": "http://local/v1/"}, "http://local/v1"),
        ("", {"OPENAI_BASE_URL": ""}, "https://api.openai.com/v1"),
        ("upstream: {base_url: 'http://file/v1'}", {"OPENAI_BASE_URL": "http://local/v1"}, "http://file/v1"),
        ("", {"MEMPROXY__UPSTREAM__BASE_URL": "http://e/v1", "OPENAI_BASE_URL": "http://local/v1"}, "http://e/v1"),
    ],
)
def test_the_upstream_without_one_in_the_file(files: Files, text: str, environ: dict[str, str], expected: str) -> None:
    assert files.load(text, environ).upstream.base_url == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("auth: {tenants: {abc: ' acme'}}", "auth.tenants.abc: ' acme' cannot be used; must be a name of 1 to 256"),
        ("auth: {unnamed_user: ..}", "auth.unnamed_user: '..' cannot be used; must be a name"),
        ("recall: {deadline_ms: 0}", "recall.deadline_ms: 0 cannot be used; allowed: whole number, at least 1"),
        ("recall: {deadline_ms: soon}", "recall.deadline_ms: 'soon' cannot be used; allowed: whole number"),
        ("recall: {limit: yes}", "recall.limit: true cannot be used; must be a number, not true or false"),
        ("recall: {limit: }", "recall.limit: an empty value cannot be used"),
        ("recall: {similarity_threshold: .nan}", "recall.similarity_threshold: nan cannot be used"),
        ("learn: {idle_s: .inf}", "learn.idle_s: inf cannot be used"),
        ("conversation: {silence_s: 1000000000000}", "conversation.silence_s: 1000000000000 cannot"),
        ("learn: {max_attempts: 9223372036854775808}", "learn.max_attempts: 9223372036854775808 cannot"),
        ("recall: {kinds: [semantic, fact]}", "recall.kinds.1: 'fact' cannot be used; allowed: list of `semantic`"),
        ("gate: {skip: greeting}", "gate.skip: 'greeting' cannot be used; allowed: list of"),
        ("gate: on", "gate: is a section, with keys and values below it; here it is true or false"),
        ("server: {host: 8}", "server.host: 8 cannot be used; allowed: text"),
        ("recal: {}", "recal: there is no such setting; did you mean recall?"),
        ("recall: {dead_line: 1}", "recall.dead_line: there is no such setting; did you mean recall.deadline_ms?"),
        ("base_url: x", "base_url: there is no such setting; did you mean upstream.base_url"),
        ("gate: {zzz: 1}", "gate.zzz: there is no such setting; allowed: enabled, skip"),
        ("upstream: {base_url: 'ftp://x'}", "upstream.base_url: 'ftp://x' cannot be used; must be an address"),
        ("upstream: {base_url: 'http://x/v1?a=b'}", "upstream.base_url: 'http://x/v1?a=b' cannot be used; must be an"),
        ("upstream: {base_url: 'http://x:99999/'}", "upstream.base_url: 'http://x:99999/' cannot be used"),
        ("store: {backend: qdrant}", "store.url: must be the address of the Qdrant server"),
        ("store: {url: 'http://x'}", "store.url: is for a server; set store.backend: qdrant"),
        ("store: {backend: qdrant, url: x}", "store.url: must be the address of the Qdrant server"),
        ("store: {backend: postgres, url: 'http://x'}", "store.url: must be postgresql://user:password@host/database"),
        (
            f"store: {{backend: postgres, url: 'postgresql://x', collection: {'c' * 51}}}",
            "store.collection: is longer than 50 characters",
        ),
        ("state: {backend: postgres}", "state.url: must be postgresql://user:password@host/database"),
        ("engine: {workers: 2}", "engine.workers: 2 engines need store.backend: qdrant or postgres"),
        (
            "engine: {workers: 2}\nstore: {backend: postgres, url: 'postgresql://x/y'}",
            "engine.workers: 2 engines need state.backend: postgres (sqlite is embedded); or set it to 1",
        ),
        ("cache: {backend: redis}", "cache.url: must be redis://:password@host:6379/0"),
        ("cache: {backend: redis, url: 'http://x'}", "cache.url: must be redis://:password@host:6379/0"),
        ("cache: {backend: redis, url: 'redis://x:port'}", "cache.url: must be redis://:password@host:6379/0"),
        ("cache: {url: 'redis://x'}", "cache.url: is for a server; set cache.backend: redis"),
        ("cache: {per_agent: 0}", "cache.per_agent: "),
        ("state: {url: 'postgresql://x/y'}", "state.url: is for a server; set state.backend: postgres"),
        ("store: {backend: postgres, url: 'postgresql://x/y', api_key: z}", "store.api_key: is for a Qdrant server"),
        ("store: {quantization: int8}", "store.quantization: is for a Qdrant server; set store.backend: qdrant"),
        ("store: {index: ivfflat}", "store.index: is for PostgreSQL; set store.backend: postgres"),
        (
            "store: {backend: postgres, url: 'postgresql://x/y', index: ivfflat, probes: 200}",
            "store.probes: 200 is above store.lists (100)",
        ),
        ("store: {grpc_port: 6334}", "store.grpc_port: is for a Qdrant server; set store.backend: qdrant"),
        ("store: {grpc_port: 65536}", "store.grpc_port: 65536 cannot be used"),
        ("learn: {prompts_dir: /no/such}", "learn.prompts_dir: '/no/such' cannot be used; must be a folder"),
        ("store: {collection: 'a/b'}", "store.collection: 'a/b' cannot be used"),
        ("embedding: {provider: openai}", "embedding.model: must name a model"),
        ("dedup: {related_above: 0.95}", "dedup.related_above: 0.95 is above dedup.update_above (0.9)"),
        ("server: {host: 0.0.0.0}", "server.host: '0.0.0.0' is reachable from other machines"),
        (
            "server: {cors_origins: ['*']}",
            "server.cors_origins.0: '*' cannot be used; must be an origin such as https://",
        ),
        ("server: {cors_origins: [a.example]}", "server.cors_origins.0: 'a.example' cannot be used; must be an origin"),
        ("server: {cors_origins: ['https://a.b/c']}", "server.cors_origins.0: 'https://a.b/c' cannot be used; must be"),
        ("server: {host: ''}", "server.host: '' is reachable from other machines"),
        ("upstream: {api_key: '${KEY}'}", "upstream.api_key: the environment variable KEY is not set"),
        ("upstream: {api_key: '${a b}'}", "upstream.api_key: `${` must be followed by a name"),
        ("auth: {tenants: {12: a}}", "auth.tenants: a key is a number; put it in quotes"),
        ("_env_file: x", "_env_file: there is no such setting"),
    ],
)
def test_a_mistake_is_told_with_path_value_and_what_is_allowed(files: Files, text: str, expected: str) -> None:
    (line,) = files.refused(text)
    assert line.strip().startswith(expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: [", "line 1, column 5: cannot be read as YAML"),
        ("server:\n\tport: 1", "line 2, column 1: cannot be read as YAML"),
        ("server: {}\nserver: {}", "line 2, column 1: cannot be read as YAML: the key `server` a second time"),
        ("server:\n  port: 1\n  port: 1", "line 3, column 3: cannot be read as YAML: the key `port` a second time"),
        ("a: !!int x", "line 1, column 4: cannot be read as YAML"),
        ("a: !!python/object:os.system x", "line 1, column 4: cannot be read as YAML"),
        ("a: &a [*a]", "line 1, column 4: cannot be read as YAML: a value that contains itself"),
        ("a: \x07", "cannot be read as YAML: it holds characters"),
        ("- a", "must hold sections such as"),
        ("word", "must hold sections such as"),
        ("a: " + "[" * 5000, "cannot be read as YAML"),
    ],
)
def test_a_file_that_is_no_configuration_is_told_with_its_place(files: Files, text: str, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        files.load(text)
    assert str(files.path) in caught.value.message
    assert expected in caught.value.message


def test_aliases_that_grow_without_end_are_refused(files: Files) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    with pytest.raises(ConfigError, match="more than 20000 values"):
        files.load("\n".join(lines))


@pytest.mark.parametrize("kind", ["missing", "folder", "binary", "long"])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "memproxy.yaml"
    if kind == "folder":
        path.mkdir()
    if kind == "binary":
        path.write_bytes(b"\xff\xfe\x00")
    if kind == "long":
        path.write_text("# " + "x" * 2_000_000)
    with pytest.raises(ConfigError) as caught:
        load_settings(path, environ={})
    assert str(path) in caught.value.message


def test_all_mistakes_are_told_at_once(files: Files) -> None:
    text = """
        server: {prot: 1, host: 0.0.0.0}
        recall: {limit: 0, rerank: perhaps}
        store: {backend: qdrant}
        upstream: {api_key: "${NOT_SET}"}
    """
    lines = files.refused(text, {"MEMPROXY__GATE__ENABLED": "perhaps", "MEMPROXY__NO__SUCH": "1"}, server__port=-1)
    paths = {line.strip().partition(":")[0] for line in lines}
    assert paths == {
        "server.prot", "server.host", "recall.limit", "recall.rerank", "store.url",
        "upstream.api_key", "gate.enabled", "no.such", "server.port",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"MEMPROXY__RECALL__LIMITS": "1"}, "recall.limits: there is no such setting; did you mean recall.limit?"),
        ({"MEMPROXY__RECAL": "1"}, "recal: there is no such setting; did you mean recall?"),
        ({"MEMPROXY__RECALL__LIMIT__MORE": "1"}, "recall.limit.more: there is no such setting"),
        ({"MEMPROXY__": "1"}, ": there is no such setting"),
        ({"MEMPROXY__GATE__SKIP": "["}, "gate.skip: line 1"),
        ({"MEMPROXY__GATE__SKIP": "greeting"}, "gate.skip: must be a list of `greeting`, `smalltalk`, `tool`, `fact`"),
        ({"MEMPROXY__GATE": "3"}, "gate: must be a mapping of its keys, written as YAML or JSON such as"),
        ({"MEMPROXY__RECALL__LIMIT": "null"}, "recall.limit: an empty value cannot be used"),
        ({"OPENAI_BASE_URL": "nonsense"}, "upstream.base_url: 'nonsense' cannot be used"),
    ],
)
def test_a_mistake_in_the_environment_names_the_variable(environ: dict[str, str], expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_settings(None, environ=environ)
    (line,) = caught.value.message.splitlines()[1:]
    assert line.strip().startswith(expected)
    assert f"(from {next(iter(environ))})" in line


SECRET = "sk-do-not-print-me"


@pytest.mark.parametrize(
    "text",
    [
        f"upstream: {{api_key: [{SECRET}]}}",
        f"upstream: {{apikey: {SECRET}}}",
        f"upstream: {SECRET}",
        f"api_key: {SECRET}",
        f"auth: {{mode: jwt, jwt: {{key: {SECRET}}}}}",
        f"auth: {{keys: [{SECRET}]}}",
        f"auth: {{keys: {SECRET}}}",
        f"upstream: {{base_url: 'ftp://user:{SECRET}@host'}}",
        f"state: {{backend: postgres, url: 'mysql://user:{SECRET}@host'}}",
        f"upstream:\n  api_key: {SECRET}\n  api_key: {SECRET}",
        f"upstream: {{api_key: '{SECRET}",
        f"store: {{api_key: {SECRET}}}",
        f"models: {{judge: {{api_key: [{SECRET}]}}}}",
    ],
)
def test_a_secret_is_never_shown(files: Files, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        files.load(text)
    assert SECRET not in caught.value.message


def test_what_is_not_built_yet_is_refused_and_not_ignored() -> None:
    path = "telemetry.log_content"
    with pytest.raises(ConfigError, match="not built yet; for now") as caught:
        load_settings(None, environ={}, overrides={path: True})
    assert f"  {path}: " in caught.value.message


@pytest.mark.parametrize("upstream", ["{api_key: sk-operator}", "{base_url: 'http://ann:secret@a/v1'}"])
def test_a_key_that_whoever_reaches_the_address_would_use_is_refused_unless_that_is_meant(
    files: Files, upstream: str
) -> None:
    remote = f"server: {{host: 0.0.0.0}}\nupstream: {upstream}\nauth: "
    with pytest.raises(ConfigError, match=r"auth\.open_relay: .*auth\.mode: keys"):
        files.load(remote + "{allow_remote: true}")
    assert files.load(remote + "{allow_remote: true, open_relay: true}").auth.open_relay
    assert files.load(remote + "{mode: keys}").auth.mode == "keys"
    assert files.load(f"upstream: {upstream}").auth.mode == "passthrough"


@pytest.mark.parametrize("call", ["/v1/rerank", "POST rerank", "POST /v1/", "post /v1/rerank", "GET /v1/*/content"])
def test_a_shared_call_is_a_method_and_a_path(files: Files, call: str) -> None:
    with pytest.raises(ConfigError, match=r"upstream\.shared_calls"):
        files.load(f"upstream: {{shared_calls: ['{call}']}}")
    assert files.load("upstream: {shared_calls: ['GET /v1/files/*']}").upstream.shared_calls == ["GET /v1/files/*"]


ORIGINS = ["https://App.Example:8443/", "null", "chrome-extension://abc"]


@pytest.mark.parametrize(
    ("text", "path", "value"),
    [
        *(
            (f"server: {{host: '{host}'}}", "server.host", host)
            for host in ("127.0.0.1", "localhost", "::1", "127.1.2.3")
        ),
        ("server: {host: 0.0.0.0}\nauth: {allow_remote: true}", "server.host", "0.0.0.0"),
        (f"server: {{cors_origins: {ORIGINS}}}", "server.cors_origins", ORIGINS),
        ("store: {path: ~/memories}", "store.path", Path("~/memories").expanduser()),
        (
            "embedding: {base_url: &url 'http://a/v1'}\nmodels: {extract: {base_url: *url}}",
            "models.extract.base_url",
            "http://a/v1",
        ),
    ],
)
def test_loopback_addresses_allowed_ones_origins_homes_and_aliases_are_taken(
    files: Files, text: str, path: str, value: object
) -> None:
    assert attrgetter(path)(files.load(text)) == value


def test_every_setting_has_words() -> None:
    for setting in settings_of():
        assert setting.description.endswith((".", ")")), setting.path
        assert setting.allowed, setting.path


YAML_TEXT = st.one_of(
    st.text(max_size=60),
    st.text(alphabet="{}[]:,-&*!|>'\"%@`#?~<= \n\tabc019.$_\\", max_size=60),
    st.sampled_from(["auth", "recall", "gate", "store", "models", "upstream"]).flatmap(
        lambda name: st.text(alphabet="{}[]:,-&*!'\"~ \nadeklmoprsy019.$", max_size=40).map(f"{name}: ".__add__)
    ),
)


@given(YAML_TEXT)
@hypothesis_settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_whatever_the_file_holds_gives_settings_or_one_clear_error(files: Files, text: str) -> None:
    files.path.write_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        assert isinstance(load_settings(files.path, environ={}), Settings)
    except ConfigError as error:
        assert str(files.path) in error.message  # noqa: PT017 - either outcome is right


PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["${A}", "http://x"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@given(st.sampled_from([setting.path for setting in settings_of()]), PLAIN)
@hypothesis_settings(deadline=None)
def test_whatever_a_setting_is_given_is_used_or_refused_with_its_path(path: str, value: object) -> None:
    try:
        assert isinstance(load_settings(None, environ={}, overrides={path: value}), Settings)
    except ConfigError as error:
        assert path in error.message  # noqa: PT017 - either outcome is right


@given(st.sampled_from([setting.path for setting in settings_of()]), st.text(max_size=12))
@hypothesis_settings(deadline=None)
def test_whatever_a_variable_holds_is_used_or_refused_with_its_name(path: str, text: str) -> None:
    name = f"MEMPROXY__{path.replace('.', '__').upper()}"
    try:
        assert isinstance(load_settings(None, environ={name: text}), Settings)
    except ConfigError as error:
        assert path in error.message  # noqa: PT017 - either outcome is right
