"""Entries of mappings, named by environment variables."""

from pathlib import Path

import pytest

from memproxy.errors import ConfigError
from memproxy.settings import Settings, TenantRetention
from memproxy.settings.loading import load_settings

TTL = "MEMPROXY__RETENTION__TENANTS__ACME__TTL_DAYS"


def loaded(tmp_path: Path, text: str, **environ: str) -> Settings:
    path = tmp_path / "config.yaml"
    path.write_text(text, encoding="utf-8")
    return load_settings(path, environ=environ)


@pytest.mark.parametrize(
    ("tenants", "entry"),
    [("{}", "acme"), ("{acme: {max_per_user: 2}}", "acme"), ("{Acme: {ttl_days: 1, max_per_user: 2}}", "Acme")],
)
def test_a_variable_in_capitals_means_the_entry_that_is_there_or_a_lower_case_one(
    tmp_path: Path, tenants: str, entry: str
) -> None:
    settings = loaded(tmp_path, f"retention: {{tenants: {tenants}}}", **{TTL: "30"})
    most = 2 if "max" in tenants else None
    assert settings.retention.tenants == {entry: TenantRetention(ttl_days=30, max_per_user=most)}


def test_a_name_that_is_not_in_capitals_is_taken_as_it_is_written(tmp_path: Path) -> None:
    name = "MEMPROXY__RETENTION__TENANTS__Acme_EU__TTL_DAYS"
    assert set(loaded(tmp_path, "", **{name: "30"}).retention.tenants) == {"Acme_EU"}


def test_entries_come_beside_a_whole_mapping_and_as_a_whole(tmp_path: Path) -> None:
    base = "MEMPROXY__RETENTION__TENANTS"
    given = {base: "{other: {ttl_days: 1}}", f"{base}__ACME": "{ttl_days: 3}", f"{base}__OTHER__MAX_PER_USER": "9"}
    assert loaded(tmp_path, "", **given).retention.tenants == {
        "other": TenantRetention(ttl_days=1, max_per_user=9),
        "acme": TenantRetention(ttl_days=3),
    }
    assert loaded(tmp_path, "", MEMPROXY__AUTH__TENANTS__ABC="Team").auth.tenants == {"abc": "Team"}


@pytest.mark.parametrize(
    ("variable", "value", "told"),
    [
        ("ACME__TTL", "30", "retention.tenants.acme.ttl: there is no such setting; allowed: ttl_days, max_per_user"),
        ("ACME__TTL_DAY", "30", "did you mean retention.tenants.acme.ttl_days?"),
        ("ACME__TTL_DAYS__MORE", "30", "retention.tenants.acme.ttl_days.more: there is no such setting"),
        ("ACME__TTL_DAYS", "-1", "retention.tenants.acme.ttl_days: '-1' cannot be used"),
        ("ACME__TTL_DAYS", "1000000", "retention.tenants.acme.ttl_days: '1000000' cannot be used"),
        ("ACME", "3", "retention.tenants.acme: must be a mapping of its keys"),
        ("__TTL_DAYS", "3", "there is no such setting"),
    ],
)
def test_what_an_entry_has_not_is_told_with_the_variable(tmp_path: Path, variable: str, value: str, told: str) -> None:
    name = f"MEMPROXY__RETENTION__TENANTS__{variable}"
    with pytest.raises(ConfigError) as refused:
        loaded(tmp_path, "", **{name: value})
    assert told in str(refused.value)
    assert f"(from {name})" in str(refused.value)


def test_a_name_that_may_be_one_of_two_entries_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="may be AcMe or acme"):
        loaded(tmp_path, "retention: {tenants: {AcMe: {ttl_days: 1}, acme: {ttl_days: 2}}}", **{TTL: "30"})
