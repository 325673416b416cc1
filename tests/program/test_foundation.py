"""A foundation stack, as the program registers it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pulumi import RunError
from pulumi.output import Unknown

from infra.naming import Names
from infra.reference import FoundationOutputs, output_name
from tests.program.harness import ACCOUNT, Record, run

CONFIG = {"layer": "foundation"}
NAMES = Names("foundation", ACCOUNT, "us-east-1")
POLICIES = ("policy", "assumeRolePolicy")


@pytest.fixture(scope="module")
def up() -> Record:
    return run("foundation", CONFIG)


@pytest.fixture(scope="module")
def preview() -> Record:
    return run("foundation", CONFIG, preview=True)


def test_exactly_these_resources(up: Record) -> None:
    assert sorted((r.type, r.name) for r in up.resources) == [
        ("aws:cloudwatch/logGroup:LogGroup", "builds"),
        ("aws:ec2/internetGateway:InternetGateway", "network"),
        ("aws:ec2/route:Route", "network-internet"),
        ("aws:ec2/routeTable:RouteTable", "network"),
        ("aws:ec2/routeTableAssociation:RouteTableAssociation", "network-us-east-1a"),
        ("aws:ec2/routeTableAssociation:RouteTableAssociation", "network-us-east-1b"),
        ("aws:ec2/subnet:Subnet", "network-us-east-1a"),
        ("aws:ec2/subnet:Subnet", "network-us-east-1b"),
        ("aws:ec2/vpc:Vpc", "network"),
        ("aws:ec2/vpcEndpoint:VpcEndpoint", "network-s3"),
        ("aws:ecr/lifecyclePolicy:LifecyclePolicy", "registry"),
        ("aws:ecr/repository:Repository", "registry"),
        ("aws:iam/instanceProfile:InstanceProfile", "box"),
        ("aws:iam/role:Role", "box"),
        ("aws:iam/role:Role", "cache"),
        ("aws:iam/rolePolicy:RolePolicy", "box"),
        ("aws:iam/rolePolicy:RolePolicy", "cache"),
        ("aws:s3/bucket:Bucket", "cache"),
        ("aws:s3/bucketLifecycleConfiguration:BucketLifecycleConfiguration", "cache"),
        ("aws:s3/bucketOwnershipControls:BucketOwnershipControls", "cache"),
        ("aws:s3/bucketPolicy:BucketPolicy", "cache"),
        ("aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock", "cache"),
        (
            "aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration",
            "cache",
        ),
        ("rocm-build-box:infra:Cache", "cache"),
        ("rocm-build-box:infra:Foundation", "foundation"),
        ("rocm-build-box:infra:Network", "network"),
        ("rocm-build-box:infra:Registry", "registry"),
    ]


def test_bucket_is_private_encrypted_and_protected(up: Record) -> None:
    bucket = up.one("aws:s3/bucket:Bucket")
    assert (bucket.inputs["bucket"], bucket.inputs["forceDestroy"], bucket.protect) == (
        NAMES.bucket,
        False,
        True,
    )
    assert up.one("aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock").inputs == {
        "bucket": "cache-id",
        "blockPublicAcls": True,
        "blockPublicPolicy": True,
        "ignorePublicAcls": True,
        "restrictPublicBuckets": True,
    }
    owner = up.one("aws:s3/bucketOwnershipControls:BucketOwnershipControls").inputs["rule"]
    assert owner == {"objectOwnership": "BucketOwnerEnforced"}
    encryption = up.one("aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration")
    assert encryption.inputs["rules"] == [{"applyServerSideEncryptionByDefault": {"sseAlgorithm": "AES256"}}]


def test_objects_expire_by_folder_and_broken_uploads_are_aborted(up: Record) -> None:
    rules = up.one("aws:s3/bucketLifecycleConfiguration:BucketLifecycleConfiguration").inputs["rules"]
    assert {rule["filter"]["prefix"]: rule.get("expiration") for rule in rules} == {
        "rocm-pytorch/": {"days": 60},
        "contexts/": {"days": 14},
        "builds/": {"days": 180},
        "": None,
    }
    aborting = [rule for rule in rules if "abortIncompleteMultipartUpload" in rule]
    assert [(r["filter"], r["abortIncompleteMultipartUpload"]) for r in aborting] == [
        ({"prefix": ""}, {"daysAfterInitiation": 1})
    ]
    assert {rule["status"] for rule in rules} == {"Enabled"}


def test_repository_is_encrypted_scanned_and_protected(up: Record) -> None:
    repository = up.one("aws:ecr/repository:Repository")
    assert repository.protect
    assert {key: value for key, value in repository.inputs.items() if key != "tags"} == {
        "name": "rocm-build-box/foundation",
        "imageTagMutability": "MUTABLE",
        "imageScanningConfiguration": {"scanOnPush": True},
        "encryptionConfigurations": [{"encryptionType": "AES256"}],
        "forceDelete": False,
    }


def test_everything_is_protected(up: Record) -> None:
    assert [(r.type, r.name) for r in up.resources if not r.protect] == []


def test_unprotected_can_be_destroyed_with_its_content() -> None:
    record = run("foundation", {**CONFIG, "protect": "false"})
    assert not any(r.protect for r in record.resources)
    assert record.one("aws:s3/bucket:Bucket").inputs["forceDestroy"] is True
    assert record.one("aws:ecr/repository:Repository").inputs["forceDelete"] is True


def test_roles(up: Record) -> None:
    roles = {
        role.name: (role.inputs["name"], role.inputs["path"], role.inputs["maxSessionDuration"])
        for role in up.resources
        if role.type == "aws:iam/role:Role"
    }
    assert roles == {
        "box": ("rocm-build-box-foundation-box", "/rocm-build-box/", 3600),
        "cache": ("rocm-build-box-foundation-cache", "/rocm-build-box/", 43200),
    }
    profile = up.one("aws:iam/instanceProfile:InstanceProfile")
    assert (profile.inputs["name"], profile.inputs["path"], profile.inputs["role"]) == (
        "rocm-build-box-foundation-box",
        "/rocm-build-box/",
        "rocm-build-box-foundation-box",
    )
    # The profile is what a box starts with, so by then the role must be able to do something.
    assert "aws:iam/rolePolicy:RolePolicy::box" in profile.dependencies


def test_each_policy_is_the_one_that_was_reviewed(up: Record) -> None:
    documents = _documents(up)
    assert {key: sorted(s["Sid"] for s in doc["Statement"]) for key, doc in documents.items()} == {
        "Role box assumeRolePolicy": ["Ec2StartsTheBox"],
        "Role cache assumeRolePolicy": ["NamedPrincipalsOfThisAccount"],
        "RolePolicy box policy": [
            "AssumeTheCacheRole",
            "FollowTheLog",
            "LogInToTheRegistry",
            "PushAndPullImages",
            "ReadTheBuildContext",
            "WriteStatusAndLog",
        ],
        "RolePolicy cache policy": ["ReadAndWriteTheCache", "TellMissingFromForbidden"],
        "BucketPolicy cache policy": ["RefusePlainHttp"],
    }


def test_principals_of_the_settings_reach_the_trust() -> None:
    arn = f"arn:aws:iam::{ACCOUNT}:role/ci"
    record = run("foundation", {**CONFIG, "cacheRolePrincipals": json.dumps([arn])})
    trust = json.loads(record.one("aws:iam/role:Role", "cache").inputs["assumeRolePolicy"])
    (statement,) = trust["Statement"]
    assert statement["Condition"] == {"ArnEquals": {"aws:PrincipalArn": [NAMES.box_role_arn, arn]}}


def test_a_principal_of_another_account_is_refused() -> None:
    foreign = "arn:aws:iam::999999999999:role/ci"
    with pytest.raises(RunError, match=f"(?s)cacheRolePrincipals.*{foreign}.*{ACCOUNT}"):
        run("foundation", {**CONFIG, "cacheRolePrincipals": json.dumps([foreign])})


def test_network_is_public_in_each_zone_and_reaches_s3_inside_aws(up: Record) -> None:
    subnets = {
        r.inputs["availabilityZone"]: (r.inputs["cidrBlock"], r.inputs["mapPublicIpOnLaunch"])
        for r in up.resources
        if r.type == "aws:ec2/subnet:Subnet"
    }
    assert subnets == {"us-east-1a": ("10.64.0.0/20", True), "us-east-1b": ("10.64.16.0/20", True)}
    endpoint = up.one("aws:ec2/vpcEndpoint:VpcEndpoint").inputs
    assert (endpoint["serviceName"], endpoint["vpcEndpointType"], endpoint["routeTableIds"]) == (
        "com.amazonaws.us-east-1.s3",
        "Gateway",
        ["network-id"],
    )
    assert up.one("aws:ec2/route:Route").inputs == {
        "routeTableId": "network-id",
        "destinationCidrBlock": "0.0.0.0/0",
        "gatewayId": "network-id",
    }


def test_log_group_forgets(up: Record) -> None:
    group = up.one("aws:cloudwatch/logGroup:LogGroup").inputs
    assert (group["name"], group["retentionInDays"]) == ("/rocm-build-box/foundation", 90)


def test_everything_that_can_be_tagged_names_its_stack(up: Record) -> None:
    tagged = [r.inputs["tags"] for r in up.resources if "tags" in r.inputs]
    assert len(tagged) == 12
    assert {(tags["Project"], tags["Stack"]) for tags in tagged} == {("rocm-build-box", "foundation")}


def test_exports(up: Record) -> None:
    assert up.outputs == {
        "accountId": ACCOUNT,
        "region": "us-east-1",
        "bucketName": f"rocm-build-box-foundation-{ACCOUNT}-us-east-1",
        "cachePrefix": "rocm-pytorch",
        "cacheRoleArn": f"arn:aws:iam::{ACCOUNT}:role/rocm-build-box/rocm-build-box-foundation-cache",
        "boxRoleArn": f"arn:aws:iam::{ACCOUNT}:role/rocm-build-box/rocm-build-box-foundation-box",
        "boxInstanceProfile": "rocm-build-box-foundation-box",
        "vpcId": "network-id",
        "s3EndpointId": "network-s3-id",
        "subnetIds": {"us-east-1a": "network-us-east-1a-id", "us-east-1b": "network-us-east-1b-id"},
        "registry": f"{ACCOUNT}.dkr.ecr.us-east-1.amazonaws.com",
        "registryName": "rocm-build-box/foundation",
        "repositoryUrl": f"{ACCOUNT}.dkr.ecr.us-east-1.amazonaws.com/rocm-build-box/foundation",
        "logGroup": "/rocm-build-box/foundation",
        "assumeRoleCommand": (
            f"aws sts assume-role --role-arn arn:aws:iam::{ACCOUNT}:role/rocm-build-box/rocm-build-box-"
            "foundation-cache --role-session-name rocm-build-box-foundation-cache --duration-seconds 43200"
        ),
    }


def test_a_box_finds_every_output_that_it_reads(up: Record) -> None:
    assert {output_name(field) for field in FoundationOutputs.__dataclass_fields__} <= up.outputs.keys()


def test_iam_documents_are_whole_at_preview(preview: Record) -> None:
    unknown = [r for r in preview.resources for value in r.inputs.values() if isinstance(value, Unknown)]
    assert unknown, "a preview in which everything is known proves nothing"
    assert len(_documents(preview)) == 5
    assert _documents(preview) == _documents(run("foundation", CONFIG))


def _documents(record: Record) -> dict[str, Any]:
    """Return each IAM document of `record`; one that holds an unknown is no text, and fails to parse."""
    return {
        f"{r.type.rpartition(':')[2]} {r.name} {key}": json.loads(r.inputs[key])
        for r in record.resources
        for key in POLICIES
        if key in r.inputs and not r.type.startswith("aws:ecr")
    }
