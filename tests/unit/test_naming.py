"""Names fit the limits of what they name, and two stacks never share one."""

from __future__ import annotations

import pytest

from infra.naming import Names, build_folder, context_key, shortened, subnet_cidr, tags

ACCOUNT = "123456789012"


def names(stack: str) -> Names:
    return Names(stack, ACCOUNT, "us-east-1")


def test_names_of_a_plain_stack() -> None:
    found = names("foundation")
    assert (found.bucket, found.box_role, found.cache_role, found.repository, found.log_group) == (
        "rocm-build-box-foundation-123456789012-us-east-1",
        "rocm-build-box-foundation-box",
        "rocm-build-box-foundation-cache",
        "rocm-build-box/foundation",
        "/rocm-build-box/foundation",
    )
    assert (found.bucket_arn, found.box_role_arn, found.cache_role_arn) == (
        "arn:aws:s3:::rocm-build-box-foundation-123456789012-us-east-1",
        "arn:aws:iam::123456789012:role/rocm-build-box/rocm-build-box-foundation-box",
        "arn:aws:iam::123456789012:role/rocm-build-box/rocm-build-box-foundation-cache",
    )
    assert (found.repository_arn, found.log_group_arn) == (
        "arn:aws:ecr:us-east-1:123456789012:repository/rocm-build-box/foundation",
        "arn:aws:logs:us-east-1:123456789012:log-group:/rocm-build-box/foundation",
    )
    assert found.repository_url == ("123456789012.dkr.ecr.us-east-1.amazonaws.com/rocm-build-box/foundation")


@pytest.mark.parametrize("stack", ["f" * 100, "Team.Build_1", "ap-southeast-2" * 5])
def test_names_of_any_stack_are_allowed(stack: str) -> None:
    found = Names(stack, ACCOUNT, "ap-southeast-2")
    assert len(found.bucket) <= 63
    assert set(found.bucket) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
    assert found.bucket[0].isalnum()
    assert found.bucket[-1].isalnum()
    assert max(len(found.box_role), len(found.cache_role)) <= 64
    assert set(found.repository) <= set("abcdefghijklmnopqrstuvwxyz0123456789-/")


@pytest.mark.parametrize("other", ["Dev", "d.ev", "d-ev", "de_v"])
def test_stacks_that_look_alike_share_no_bucket_and_no_repository(other: str) -> None:
    assert names(other).bucket != names("dev").bucket
    assert names(other).repository != names("dev").repository


def test_long_names_that_begin_alike_stay_apart() -> None:
    long = "x" * 90
    assert names(f"{long}1").bucket != names(f"{long}2").bucket
    assert names(long).box_role != names(long).cache_role


def test_shortened_keeps_what_fits() -> None:
    assert shortened("a" * 63, 63) == "a" * 63
    assert len(shortened("a" * 64, 63)) == 63


def test_subnets_are_apart_and_keep_their_zone() -> None:
    cidrs = [subnet_cidr(f"us-east-1{letter}") for letter in "abcdefghijklmnop"]
    assert (cidrs[0], cidrs[15]) == ("10.64.0.0/20", "10.64.240.0/20")
    assert len(set(cidrs)) == 16


@pytest.mark.parametrize("zone", ["", "us-east-1", "us-east-1q", "us-east-1A"])
def test_a_zone_without_a_place_in_the_network_is_refused(zone: str) -> None:
    with pytest.raises(ValueError, match="letter from a to p"):
        subnet_cidr(zone)


def test_keys_name_their_stack() -> None:
    assert context_key("dev", "abc") == "contexts/dev/abc.tar.gz"
    assert build_folder("dev", "i-1") == "builds/dev/i-1"
    assert tags("dev", "box") == {
        "Project": "rocm-build-box",
        "Stack": "dev",
        "Name": "rocm-build-box-dev-box",
    }
