import base64
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memproxy.core.redact import KINDS, redact

SECRETS = frozenset({"secrets"})
LETTERS = "aB3dE5gH7jK9mN1pQ2sT4vW6yZ8xC0bF"


def filler(length: int, alphabet: str = LETTERS) -> str:
    """A made-up token body; tests hold no literal that a secret scanner could take for real."""
    return (alphabet * (length // len(alphabet) + 1))[:length]


HEX = "0a1b2c3d4e5f6789"
BASE32 = "A2B3C4D5E6F7GHIJ"
AWS_ID = "AK" + "IA" + BASE32
AWS_SECRET = "wJalr/" + filler(34)

TOKENS = [
    ("aws-key", AWS_ID),
    ("aws-key", "AS" + "IA" + BASE32),
    ("github-token", "gh" + "p_" + filler(36)),
    ("github-token", "gh" + "o_" + filler(36)),
    ("github-token", "gh" + "s_" + filler(40)),
    ("github-token", "github" + "_pat_" + filler(22) + "_" + filler(59)),
    ("gitlab-token", "gl" + "pat-" + filler(20)),
    ("gitlab-token", "gl" + "pat-" + filler(26) + ".01.0w1x2y3z4"),
    ("openai-key", "s" + "k-" + filler(20) + "T3BlbkFJ" + filler(20)),
    ("openai-key", "s" + "k-proj-" + filler(64) + "_" + filler(64) + "-" + filler(20)),
    ("openai-key", "s" + "k-svcacct-" + filler(80)),
    ("openai-key", "s" + "k-" + filler(32, HEX)),
    ("anthropic-key", "s" + "k-ant-api03-" + filler(80) + "-AA"),
    ("openrouter-key", "s" + "k-or-v1-" + filler(64, HEX)),
    ("groq-key", "gs" + "k_" + filler(52)),
    ("slack-token", "xo" + "xb-123456789012-1234567890123-" + filler(24)),
    ("slack-token", "xo" + "xp-123456789012-123456789012-" + filler(32, HEX)),
    ("slack-token", "xa" + "pp-1-A012BCDEFGH-1234567890123-" + filler(64, HEX)),
    ("google-key", "AI" + "za" + filler(33) + "-_"),
    ("stripe-key", "s" + "k_live_" + filler(24)),
    ("stripe-key", "r" + "k_live_" + filler(99)),
    ("npm-token", "np" + "m_" + filler(36)),
    ("pypi-token", "py" + "pi-AgEIcHlwaS5vcmc" + filler(120)),
    ("huggingface-token", "h" + "f_" + filler(34)),
    ("sendgrid-key", "S" + "G." + filler(22) + "." + filler(43)),
    ("twilio-key", "S" + "K" + filler(32, HEX)),
    ("jwt", "ey" + "JhbGciOiJIUzI1NiJ9" + ".ey" + "JzdWIiOiIxMjM0NTY3ODkwIn0" + "." + filler(43)),
    ("jwt", "ey" + "JhbGciOiJub25lIn0" + ".ey" + "JzdWIiOiIxMjM0NTY3ODkwIn0" + "."),
    ("telegram-token", "123456789" + ":AA" + filler(33)),
]

PLACES = [
    "{}",
    "My key is {}, please keep it.",
    'export TOKEN="{}"',
    "TOKEN={}\n",
    '{{"token":"{}"}}',
    "Authorization: Bearer {}",
    "(`{}`)",
    "https://example.com/?key={}&x=1",
    "Das ist mein Schlüssel：{}。",
]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(("name", "token"), TOKENS)
def test_a_recognised_token_is_replaced_by_its_name_and_nothing_else_is(name: str, token: str, place: str) -> None:
    assert redact(place.format(token), SECRETS) == place.format(f"[redacted:{name}]")


@pytest.mark.parametrize(("name", "token"), TOKENS)
def test_a_token_is_not_kept_when_it_stands_beside_another(name: str, token: str) -> None:
    assert redact(f"{token} {token}\n{token}", SECRETS) == f"[redacted:{name}] [redacted:{name}]\n[redacted:{name}]"


@pytest.mark.parametrize(
    "template",
    [
        "AWS_SECRET_ACCESS_KEY={}",
        'aws_secret_access_key = "{}"',
        "secretAccessKey: '{}'",
        "The secret access key is {}",
        '"SecretAccessKey": "{}"',
    ],
)
def test_an_aws_secret_is_known_by_the_name_before_it(template: str) -> None:
    assert redact(template.format(AWS_SECRET), SECRETS) == template.format("[redacted:aws-secret]")


def test_an_aws_secret_is_known_by_the_key_id_before_it() -> None:
    assert redact(f"{AWS_ID} / {AWS_SECRET}", SECRETS) == "[redacted:aws-key] / [redacted:aws-secret]"


@pytest.mark.parametrize("line_break", ["\n", "\r\n", "\\n"])
@pytest.mark.parametrize("kind", ["", "RSA ", "EC ", "OPENSSH ", "ENCRYPTED "])
def test_a_private_key_is_taken_out_whole(kind: str, line_break: str) -> None:
    lines = [filler(64), filler(64), "aB3="]
    key = line_break.join([f"-----BEGIN {kind}PRIVATE KEY-----", *lines, f"-----END {kind}PRIVATE KEY-----"])
    assert redact(f"Here: {key} Thanks!", SECRETS) == "Here: [redacted:private-key] Thanks!"


def test_a_private_key_that_was_cut_is_taken_out_as_far_as_it_goes() -> None:
    key = "-----BEGIN PRIVATE KEY-----\n" + filler(64) + "\n" + filler(50)
    assert redact(f"{key}\nand so on", SECRETS) == "[redacted:private-key]\nand so on"


def test_an_encrypted_private_key_with_headers_is_taken_out_whole() -> None:
    key = (
        "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0A1B\n\n"
        f"{filler(64)}\n-----END RSA PRIVATE KEY-----"
    )
    assert redact(key, SECRETS) == "[redacted:private-key]"


ORDINARY = [
    "What's my budget for the Hawaii trip?",
    "The task-manager, disk-usage and risk-assessment-2024 pages are done.",
    "Use sk-learn, or sk-image; my sk-8 notes are in desk-drawer.",
    "The key prefix is sk-ant- and the old one was sk-proj-.",
    "ghp_ is GitHub's prefix, glpat- is GitLab's, xoxb- is Slack's.",
    "npm_config_registry and npm_lifecycle_event are environment variables.",
    "hf_hub_download(repo_id='x') and hf_transfer are from Hugging Face.",
    "pypi-server and pypi-mirror are packages.",
    "A PEM file starts with -----BEGIN PRIVATE KEY----- and ends with -----END PRIVATE KEY-----, right?",
    "-----BEGIN CERTIFICATE-----\n" + filler(64) + "\n-----END CERTIFICATE-----",
    "commit 3b18e512dba79e4c8300dd08aeb37f8e728b8dad fixes it",
    "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "id 550e8400-e29b-41d4-a716-446655440000, order 4111-2222",
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5=",
    "call_abc123def456ghi789jkl0mn, chatcmpl-" + filler(29) + ", run_" + filler(24),
    "pk_live_ is the publishable key's prefix; sk_live_ the secret one's.",
    "The secret access key is in the vault.",
    "My secret is that I like 3/4 time.",
    "SKU SK1234, SKABCDEF, ASIA and AKIA, AIza and eyJ are only prefixes.",
    "The meeting is 10:30, ratio 1234567:AA, port 8080:AAA.",
    "https://github.com/vllm-project/vllm/pull/12345?utm_source=abc#issuecomment-1234567890",
    "Lopado­temacho­selacho­galeo­kranio­leipsano­drim­hypo­trimmato",
    "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft",
    "私の予算は10,000ドルです。秘密鍵とは何ですか？",
    "def task_sk(self): return self.sk_test + other.sk_live",
]


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert redact(text, SECRETS) is text


@given(st.text())
def test_random_text_is_left_alone(text: str) -> None:
    assert redact(text, SECRETS) == text


@given(st.uuids())
def test_uuids_are_left_alone_by_every_kind(identifier: uuid.UUID) -> None:
    assert redact(f"id {identifier}.", KINDS) == f"id {identifier}."
    assert redact(f"id {identifier.hex}", KINDS) == f"id {identifier.hex}"


@given(st.binary(min_size=16, max_size=400))
def test_hashes_and_base64_are_left_alone(data: bytes) -> None:
    for text in (data.hex(), base64.b64encode(data).decode()):
        assert redact(f"see {text} there", SECRETS) == f"see {text} there"


@given(st.lists(st.sampled_from([token for _, token in TOKENS] + ORDINARY)), st.sampled_from([" ", "\n", ", "]))
def test_redacting_twice_changes_nothing_more(parts: list[str], separator: str) -> None:
    once = redact(separator.join(parts), KINDS)
    assert redact(once, KINDS) == once


PERSONAL = {
    "card": [
        "4111 1111 1111 1111",
        "4111-1111-1111-1111",
        "4111111111111111",
        "5555555555554444",
        "378282246310005",
        "3782 822463 10005",
        "6011111111111117",
        "2223003122003222",
        "3530111333300000",
        "30569309025904",
    ],
    "email": ["a@b.co", "jane.doe+news@mail.example.org", "x_1%y@sub-domain.example.museum"],
    "phone": [
        "+1 415 555 2671",
        "+14155552671",
        "+49 30 123456",
        "+44 (0)20 7946 0958",
        "(415) 555-2671",
        "415-555-2671",
        "1-415-555-2671",
    ],
}


@pytest.mark.parametrize(("kind", "value"), [(kind, value) for kind, values in PERSONAL.items() for value in values])
def test_cards_addresses_and_phone_numbers_are_recognised_where_that_is_asked_for(kind: str, value: str) -> None:
    for place in ("Pay with {}.", "Call {}!", *(("<{}>: hello", "mailto:{}") if kind == "email" else ())):
        assert redact(place.format(value), frozenset({f"{kind}s"})) == place.format(f"[redacted:{kind}]")
        assert redact(place.format(value), SECRETS) == place.format(value)


LOOKS_SO = {
    "cards": [
        "4111 1111 1111 1112",
        "1700000000000",
        "9999999999999995",
        "tracking 4111111111111111000000",
        "2024-01-15 10:30:00",
        "3.141592653589793238",
        "id-4111111111111111",
        "room 4111, floor 1111, door 1111, key 1111",
    ],
    "emails": [
        "icon@2x.png",
        "@jane said hi",
        "react@18.2.0",
        "git@github.com:org/repo.git",
        "a @ b.com",
        "x@localhost",
        "@@",
    ],
    "phones": [
        "2024-01-15",
        "192.168.100.200",
        "v1.2.3-415",
        "budget is $10,000 for 2025",
        "+15% growth",
        "between 1990-2020",
        "isbn 978-3-16-148410-0",
        "1234567890",
        "order 415-555-26710",
    ],
}


@pytest.mark.parametrize(("kind", "text"), [(kind, text) for kind, texts in LOOKS_SO.items() for text in texts])
def test_what_only_looks_like_a_personal_number_or_address_stays(kind: str, text: str) -> None:
    assert redact(text, frozenset({kind})) == text


def test_nothing_is_redacted_without_kinds() -> None:
    text = f"{AWS_ID} a@b.co 4111111111111111 +14155552671"
    assert redact(text, frozenset()) is text


@pytest.mark.parametrize(
    "text",
    [
        "-----BEGIN PRIVATE KEY-----" * 3000,
        "-----BEGIN PRIVATE KEY-----" + "A" * 100_000,
        "eyJ" * 50_000 + ".eyJ",
        "sk-" * 50_000,
        "a" * 200_000 + "@",
        "a." * 100_000 + "@" + "b." * 100_000,
        "1 " * 100_000,
        "+1" + "(1) " * 50_000,
        "secret access key " * 10_000,
    ],
)
def test_hostile_text_takes_no_long_time(text: str) -> None:
    redact(text, KINDS)
