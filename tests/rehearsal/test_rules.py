"""Each rule of the cloud: a request that breaks it gets AWS's answer, and with the rule switched off it passes."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from rehearsal.cloud import ACCOUNT, consistency
from rehearsal.cloud.backends import DEBIAN_IMAGE_ID
from rehearsal.cloud.credentials import Credential
from rehearsal.cloud.rules import EVERY_RULE, RULES
from rehearsal.cloud.rules.ec2 import instance_types
from rehearsal.cloud.server import Cloud
from rehearsal.cloud.settings import Settings
from tests.rehearsal.conftest import (
    Network,
    allow,
    assume,
    chain,
    client,
    document,
    error_of,
    make_role,
    trust_account,
)

HOUR = 3600
MALFORMED = "The XML you provided was not well-formed or did not validate against our published schema"
EC2_TRUST = document({"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"Service": "ec2.amazonaws.com"}})
Broken = tuple[Callable[[], Any], tuple[int, str, str]]
"""A request that breaks one rule, and AWS's answer: status, code and text."""


def new_name(prefix: str) -> str:
    return f"{prefix}-{secrets.token_hex(4)}"


def reader(cloud: Cloud, bucket: str, *actions: str) -> Credential:
    """A session of a role that may do this with a bucket."""
    statement = allow(list(actions), f"arn:aws:s3:::{bucket}", f"arn:aws:s3:::{bucket}/*")
    return assume(cloud, make_role(cloud, policy=document(statement)))


def make_profile(cloud: Cloud, *, role: bool = True) -> str:
    """A new instance profile; its name."""
    iam = cloud.client("iam")
    name = new_name("profile")
    iam.create_instance_profile(InstanceProfileName=name)
    if role:
        made = make_role(cloud, trust=EC2_TRUST).rsplit("/", 1)[1]
        iam.add_role_to_instance_profile(InstanceProfileName=name, RoleName=made)
    return name


class Case:
    """The requests that break the rules, by the rules' names. Each is made anew, so that it can be sent twice."""

    def __init__(self, cloud: Cloud, network: Network, bucket: str) -> None:
        self.cloud = cloud
        self.network = network
        self.bucket = bucket

    def get(self, credential: Credential, key: str = "cache/known") -> Callable[[], Any]:
        return lambda: client(self.cloud, "s3", credential).get_object(Bucket=self.bucket, Key=key)

    def launch(self, **changes: Any) -> Callable[[], Any]:
        wanted = {
            "ImageId": DEBIAN_IMAGE_ID,
            "InstanceType": "m7a.large",
            "MinCount": 1,
            "MaxCount": 1,
            "SubnetId": self.network.subnet,
            **changes,
        }
        wanted = {name: value for name, value in wanted.items() if value is not None}
        return lambda: client(self.cloud, "ec2").run_instances(**wanted)

    def assume(self, role: str, credential: Credential | None = None, **more: Any) -> Callable[[], Any]:
        wanted = {"RoleArn": role, "RoleSessionName": "tester", **more}
        return lambda: client(self.cloud, "sts", credential).assume_role(**wanted)

    def create_role(self, **changes: Any) -> Callable[[], Any]:
        wanted = {"RoleName": new_name("role"), "AssumeRolePolicyDocument": EC2_TRUST, **changes}
        return lambda: client(self.cloud, "iam").create_role(**wanted)

    def zone(self) -> str:
        subnets = self.cloud.client("ec2").describe_subnets(SubnetIds=[self.network.subnet])["Subnets"]
        return str(subnets[0]["AvailabilityZone"])

    def key_is_known(self) -> Broken:
        answer = (403, "InvalidAccessKeyId", "The AWS Access Key Id you provided does not exist in our records.")
        return self.get(replace(self.cloud.operator, access_key_id="AKIAUNKNOWNUNKNOWN00")), answer

    def clock_is_right(self) -> Broken:
        s3 = client(self.cloud, "s3")

        def an_hour_ago(request: Any, **_: Any) -> None:
            request.headers["X-Amz-Date"] = f"{datetime.now(UTC) - timedelta(hours=1):%Y%m%dT%H%M%SZ}"

        s3.meta.events.register("before-send.s3.GetObject", an_hour_ago)
        message = "The difference between the request time and the current time is too large."
        answer = (403, "RequestTimeTooSkewed", message)
        return lambda: s3.get_object(Bucket=self.bucket, Key="cache/known"), answer

    def session_is_alive(self) -> Broken:
        session = reader(self.cloud, self.bucket, "s3:GetObject")
        self.cloud.keyring.expire(session.access_key_id)
        return self.get(session), (400, "ExpiredToken", "The provided token has expired.")

    def action_is_allowed(self) -> Broken:
        session = reader(self.cloud, self.bucket, "s3:ListBucket")
        message = (
            f"User: {session.principal.arn} is not authorized to perform: s3:GetObject on resource: "
            f'"arn:aws:s3:::{self.bucket}/cache/known" because no identity-based policy allows the s3:GetObject action'
        )
        return self.get(session), (403, "AccessDenied", message)

    def missing_key_is_hidden(self) -> Broken:
        session = reader(self.cloud, self.bucket, "s3:GetObject")
        message = (
            f"User: {session.principal.arn} is not authorized to perform: s3:ListBucket on resource: "
            f'"arn:aws:s3:::{self.bucket}" because no identity-based policy allows the s3:ListBucket action'
        )
        return self.get(session, "cache/missing"), (403, "AccessDenied", message)

    def session_request_is_valid(self) -> Broken:
        message = (
            "1 validation error detected: Value '899' at 'durationSeconds' failed to satisfy constraint: "
            "Member must have value greater than or equal to 900"
        )
        return self.assume(make_role(self.cloud), DurationSeconds=899), (400, "ValidationError", message)

    def role_is_trusted(self) -> Broken:
        session, role = chain(self.cloud)
        self.cloud.client("iam").update_assume_role_policy(
            RoleName=role.rsplit("/", 1)[1], PolicyDocument=trust_account(f"arn:aws:iam::{ACCOUNT}:role/other")
        )
        message = (
            f"User: {session.principal.arn} is not authorized to perform: sts:AssumeRole on resource: {role} "
            "because no role trust policy allows the sts:AssumeRole action"
        )
        return self.assume(role, session), (403, "AccessDenied", message)

    def chained_session_is_short(self) -> Broken:
        session, role = chain(self.cloud)
        message = "The requested DurationSeconds exceeds the 1 hour session limit for roles assumed by role chaining."
        return self.assume(role, session, DurationSeconds=HOUR + 1), (400, "ValidationError", message)

    def session_fits_role(self) -> Broken:
        message = "The requested DurationSeconds exceeds the MaxSessionDuration set for this role."
        return self.assume(make_role(self.cloud), DurationSeconds=2 * HOUR), (400, "ValidationError", message)

    def role_name_fits(self) -> Broken:
        name = f"{new_name('role')}-{'x' * 51}"
        assert len(name) == 65
        message = (
            f"1 validation error detected: Value '{name}' at 'roleName' failed to satisfy constraint: "
            "Member must have length less than or equal to 64"
        )
        return self.create_role(RoleName=name), (400, "ValidationError", message)

    def longest_session_is_in_range(self) -> Broken:
        message = (
            "1 validation error detected: Value '43201' at 'maxSessionDuration' failed to satisfy constraint: "
            "Member must have value less than or equal to 43200"
        )
        return self.create_role(MaxSessionDuration=43201), (400, "ValidationError", message)

    def trust_policy_fits(self) -> Broken:
        statement = {**json.loads(EC2_TRUST)["Statement"][0], "Sid": "x" * 2048}
        message = "Cannot exceed quota for ACLSizePerRole: 2048"
        return self.create_role(AssumeRolePolicyDocument=document(statement)), (409, "LimitExceeded", message)

    def trusted_principals_exist(self) -> Broken:
        nobody = f"arn:aws:iam::{ACCOUNT}:role/nobody"
        trust = document({"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"AWS": [nobody]}})
        message = f'Invalid principal in policy: "AWS":"{nobody}"'
        return self.create_role(AssumeRolePolicyDocument=trust), (400, "MalformedPolicyDocument", message)

    def inline_policies_fit(self) -> Broken:
        name = make_role(self.cloud, policy=document(allow(["s3:GetObject"], f"arn:aws:s3:::a/{'x' * 5000}")))
        name = name.rsplit("/", 1)[1]
        second = document(allow(["s3:GetObject"], f"arn:aws:s3:::b/{'x' * 5100}"))
        message = f"Maximum policy size of 10240 bytes exceeded for role {name}"
        return (
            lambda: client(self.cloud, "iam").put_role_policy(
                RoleName=name, PolicyName="second", PolicyDocument=second
            ),
            (409, "LimitExceeded", message),
        )

    def user_data_fits(self) -> Broken:
        message = "User data is limited to 16384 bytes"
        return self.launch(UserData="x" * 16385), (400, "InvalidParameterValue", message)

    def instance_type_exists(self) -> Broken:
        # zone_offers_type would refuse it as well, so it is launched in no zone; and it counts towards no quota that
        # another test looks at.
        message = "Invalid value 'x9z.large' for InstanceType."
        return self.launch(InstanceType="x9z.large", SubnetId=None), (400, "InvalidParameterValue", message)

    def image_exists(self) -> Broken:
        image = "ami-00000000000000000"
        return self.launch(ImageId=image), (400, "InvalidAMIID.NotFound", f"The image id '[{image}]' does not exist")

    def zone_offers_type(self) -> Broken:
        message = (
            "Your requested instance type (m7a.large) is not supported in your requested Availability Zone "
            "(us-east-1e). Please retry your request by not specifying an Availability Zone or choosing "
            "us-east-1a, us-east-1b, us-east-1c, us-east-1d, us-east-1f."
        )
        subnet = self.cloud.client("ec2").create_subnet(
            VpcId=self.network.vpc,
            CidrBlock=f"127.64.{16 * secrets.choice(range(1, 16))}.0/20",
            AvailabilityZone="us-east-1e",
        )["Subnet"]["SubnetId"]
        return self.launch(SubnetId=subnet), (400, "Unsupported", message)

    def instance_profile_is_known(self) -> Broken:
        name = make_profile(self.cloud)
        self.cloud.settings.profile_delay = 600
        message = f"Value ({name}) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name"
        return self.launch(IamInstanceProfile={"Name": name}), (400, "InvalidParameterValue", message)

    def vcpu_quota_is_kept(self) -> Broken:
        self.cloud.settings.vcpu_quota = 1
        message = (
            "You have requested more vCPU capacity than your current vCPU limit of 1 allows for the instance bucket "
            "that the specified instance type belongs to. Please visit http://aws.amazon.com/contact-us/ec2-request "
            "to request an adjustment to this limit."
        )
        return self.launch(), (400, "VcpuLimitExceeded", message)

    def zone_has_capacity(self) -> Broken:
        zone = self.zone()
        self.cloud.settings.full.add((zone, "m7a.large"))
        others = [f"us-east-1{letter}" for letter in "abcdf" if f"us-east-1{letter}" != zone]
        message = (
            f"We currently do not have sufficient m7a.large capacity in the Availability Zone you requested ({zone}). "
            "Our system will be working on provisioning additional capacity. You can currently get m7a.large "
            "capacity by not specifying an Availability Zone in your request or choosing "
            f"{', '.join(others)}."
        )
        return self.launch(), (500, "InsufficientInstanceCapacity", message)

    def bucket_name_is_valid(self) -> Broken:
        name = f"{self.bucket}.Upper"
        answer = (400, "InvalidBucketName", "The specified bucket is not valid.")
        return lambda: client(self.cloud, "s3").create_bucket(Bucket=name), answer

    def lifecycle_is_valid(self) -> Broken:
        rule = {"ID": "one", "Status": "Enabled", "Filter": {"Prefix": ""}, "Expiration": {"Days": 1}}
        message = "Rule ID must be unique. Found same ID for more than one rule"
        return (
            lambda: client(self.cloud, "s3").put_bucket_lifecycle_configuration(
                Bucket=self.bucket, LifecycleConfiguration={"Rules": [rule, rule]}
            ),
            (400, "InvalidArgument", message),
        )

    def bucket_policy_fits(self) -> Broken:
        statement = {**allow(["s3:GetObject"], f"arn:aws:s3:::{self.bucket}/{'x' * 20480}"), "Principal": "*"}
        message = "Policy exceeds the maximum allowed document size."
        return self._put_policy(statement), (400, "PolicyTooLarge", message)

    def bucket_policy_is_valid(self) -> Broken:
        statement = {**allow(["s3:GetObject"], "arn:aws:s3:::another/*"), "Principal": "*"}
        return self._put_policy(statement), (400, "MalformedPolicy", "Policy has invalid resource")

    def _put_policy(self, statement: dict[str, Any]) -> Callable[[], Any]:
        policy = document(statement)
        return lambda: client(self.cloud, "s3").put_bucket_policy(Bucket=self.bucket, Policy=policy)


@pytest.fixture(autouse=True)
def settings(cloud: Cloud) -> Iterator[None]:
    """Settings of a test end with it."""
    yield
    vars(cloud.settings).update(vars(Settings()))


@pytest.mark.parametrize("name", [rule.name for rule in RULES])
def test_rule(cloud: Cloud, network: Network, bucket: str, name: str) -> None:
    call, answer = getattr(Case(cloud, network, bucket), name)()
    assert error_of(call) == answer
    with cloud.without(name):
        if name == "missing_key_is_hidden":
            assert error_of(call)[:2] == (404, "NoSuchKey")
        else:
            assert call()["ResponseMetadata"]["HTTPStatusCode"] in (200, 204)


@pytest.mark.parametrize("seconds", [HOUR - 1, 12 * HOUR + 1])
def test_longest_session_of_an_update_is_in_range_too(cloud: Cloud, seconds: int) -> None:
    name = make_role(cloud).rsplit("/", 1)[1]
    iam = client(cloud, "iam")
    refused = error_of(lambda: iam.update_role(RoleName=name, MaxSessionDuration=seconds))
    assert refused[:2] == (400, "ValidationError")
    for allowed in (HOUR, 12 * HOUR):
        iam.update_role(RoleName=name, MaxSessionDuration=allowed)


@pytest.mark.parametrize(
    ("principal", "exists"),
    [
        ("*", True),
        (ACCOUNT, True),
        (f"arn:aws:iam::{ACCOUNT}:root", True),
        (f"arn:aws:iam::{ACCOUNT}:user/operator", True),
        (f"arn:aws:iam::{ACCOUNT}:user/nobody", False),
        (f"arn:aws:iam::{ACCOUNT}:role/*", False),
        ("arn:aws:iam::999999999999:role/unknown", True),
        ("arn:aws:iam::999999999999:role/*", False),
        ("operator", False),
    ],
)
def test_principals(cloud: Cloud, bucket: str, principal: str, exists: bool) -> None:
    """The same in the trust policy of a role that is there already, and in a bucket policy."""
    name = make_role(cloud).rsplit("/", 1)[1]
    trust = document({"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"AWS": principal}})
    statement = {**allow(["s3:GetObject"], f"arn:aws:s3:::{bucket}/*"), "Principal": {"AWS": principal}}
    iam, s3 = client(cloud, "iam"), client(cloud, "s3")

    def set_trust() -> Any:
        return iam.update_assume_role_policy(RoleName=name, PolicyDocument=trust)

    def set_policy() -> Any:
        return s3.put_bucket_policy(Bucket=bucket, Policy=document(statement))

    if exists:
        set_trust()
        set_policy()
    else:
        message = f'Invalid principal in policy: "AWS":"{principal}"'
        assert error_of(set_trust) == (400, "MalformedPolicyDocument", message)
        assert error_of(set_policy) == (400, "MalformedPolicy", "Invalid principal in policy")


def test_white_space_of_a_policy_does_not_count(cloud: Cloud) -> None:
    statement = json.loads(EC2_TRUST)["Statement"][0]
    longest = document({**statement, "Sid": "x" * (2048 - len("".join(document({**statement, "Sid": ""}).split())))})
    spaced = json.dumps(json.loads(longest), indent=8)
    assert len(spaced) > 2048
    iam = client(cloud, "iam")
    iam.create_role(RoleName=new_name("role"), AssumeRolePolicyDocument=spaced)


def test_replacing_a_policy_frees_its_place(cloud: Cloud) -> None:
    long = document(allow(["s3:GetObject"], f"arn:aws:s3:::a/{'x' * 9000}"))
    name = make_role(cloud, policy=long).rsplit("/", 1)[1]
    cloud.client("iam").put_role_policy(RoleName=name, PolicyName="inline", PolicyDocument=long)


def test_user_data_of_the_longest_size(cloud: Cloud, network: Network, bucket: str) -> None:
    Case(cloud, network, bucket).launch(UserData="x" * 16384)()


def test_image_id_of_another_form(cloud: Cloud, network: Network, bucket: str) -> None:
    refused = error_of(Case(cloud, network, bucket).launch(ImageId="debian"))
    assert refused == (400, "InvalidAMIID.Malformed", 'Invalid id: "debian" (expecting "ami-...")')


def test_type_that_no_zone_offers(cloud: Cloud, network: Network, bucket: str) -> None:
    """It is in EC2's model, and DescribeInstanceTypeOfferings has it in no zone."""
    assert "g4ad.xlarge" in instance_types()
    refused = error_of(Case(cloud, network, bucket).launch(InstanceType="g4ad.xlarge"))
    message = "The requested configuration is currently not supported. Please check the documentation for supported "
    assert refused == (400, "Unsupported", f"{message}configurations.")


def test_instance_profile_that_is_not_there(cloud: Cloud, network: Network, bucket: str) -> None:
    launch = Case(cloud, network, bucket).launch
    arn = f"arn:aws:iam::{ACCOUNT}:instance-profile/none"
    words = "is invalid. Invalid IAM Instance Profile"
    for member, value, what in (("Name", "none", "name"), ("Arn", arn, "ARN")):
        message = f"Value ({value}) for parameter iamInstanceProfile.{member.lower()} {words} {what}"
        assert error_of(launch(IamInstanceProfile={member: value})) == (400, "InvalidParameterValue", message)


def test_instance_profile_without_a_role(cloud: Cloud, network: Network, bucket: str) -> None:
    name = make_profile(cloud, role=False)
    message = f'IAM Instance Profile "arn:aws:iam::{ACCOUNT}:instance-profile/{name}" has no associated IAM Roles'
    refused = error_of(Case(cloud, network, bucket).launch(IamInstanceProfile={"Name": name}))
    assert refused == (400, "InvalidParameterValue", message)


@pytest.fixture
def wait(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Let so many seconds pass for what is consistent only after a while."""
    passed = [0.0]
    began = time.monotonic()
    monkeypatch.setattr(consistency, "time", SimpleNamespace(monotonic=lambda: began + passed[0]))

    def wait(seconds: float) -> None:
        passed[0] += seconds

    return wait


def test_instance_profile_takes_effect_after_a_while(
    cloud: Cloud, network: Network, bucket: str, wait: Callable[[float], None]
) -> None:
    launch = Case(cloud, network, bucket).launch(IamInstanceProfile={"Name": make_profile(cloud)})
    cloud.settings.profile_delay = 10
    wait(9)
    assert error_of(launch)[1] == "InvalidParameterValue"
    wait(2)
    launch()


def test_role_and_its_policies_take_effect_after_a_while(
    cloud: Cloud, bucket: str, wait: Callable[[float], None]
) -> None:
    cloud.settings.policy_delay = 9
    read = allow(["s3:GetObject"], f"arn:aws:s3:::{bucket}/*")
    role = make_role(cloud, policy=document(read))
    call = Case(cloud, Network("", "", ""), bucket)
    assert error_of(call.assume(role))[:2] == (403, "AccessDenied")
    wait(10)
    session = assume(cloud, role)
    call.get(session)()
    iam = cloud.client("iam")
    iam.delete_role_policy(RoleName=role.rsplit("/", 1)[1], PolicyName="inline")
    call.get(session)()
    wait(10)
    assert error_of(call.get(session))[:2] == (403, "AccessDenied")
    iam.put_role_policy(RoleName=role.rsplit("/", 1)[1], PolicyName="inline", PolicyDocument=document(read))
    assert error_of(call.get(session))[:2] == (403, "AccessDenied")
    wait(10)
    call.get(session)()


def test_vcpu_quota_counts_what_runs_in_the_same_class(cloud: Cloud, network: Network, bucket: str) -> None:
    case = Case(cloud, network, bucket)
    ec2 = cloud.client("ec2")
    running = [
        instance["InstanceId"]
        for page in ec2.get_paginator("describe_instances").paginate()
        for reservation in page["Reservations"]
        for instance in reservation["Instances"]
    ]
    ec2.terminate_instances(InstanceIds=running)
    cloud.settings.vcpu_quota = 4
    first = case.launch()()["Instances"][0]["InstanceId"]
    case.launch(InstanceType="c7a.large")()
    # Another class has a quota of its own.
    case.launch(InstanceType="g5.xlarge")()
    assert error_of(case.launch())[1] == "VcpuLimitExceeded"
    ec2.terminate_instances(InstanceIds=[first])
    case.launch()()


def test_vcpus_that_are_not_known_are_said(cloud: Cloud, network: Network, bucket: str) -> None:
    cloud.settings.vcpu_quota = 1
    # In no zone, where `zone_offers_type` would refuse it.
    refused = error_of(Case(cloud, network, bucket).launch(InstanceType="f1.2xlarge", SubnetId=None))
    assert refused == (501, "NotImplemented", "The rehearsal does not know how many vCPUs f1.2xlarge has")


@pytest.mark.parametrize(
    ("name", "valid"),
    [
        ("a" * 63, True),
        ("a" * 64, False),
        ("ab", False),
        ("a.b-1", True),
        ("a_b", False),
        ("Ab-c", False),
        ("-abc", False),
        ("abc-", False),
        ("a..b", False),
        ("192.168.5.4", False),
        ("xn--abc", False),
        ("amzn-s3-demo-abc", False),
        ("abc-s3alias", False),
    ],
)
def test_bucket_names(cloud: Cloud, name: str, valid: bool) -> None:
    s3 = client(cloud, "s3")
    if valid:
        s3.create_bucket(Bucket=name)
    else:
        assert error_of(lambda: s3.create_bucket(Bucket=name))[:2] == (400, "InvalidBucketName")


@pytest.mark.parametrize(
    ("rules", "code", "message"),
    [
        ([{"ID": "x" * 256}], "InvalidArgument", "ID length should not exceed allowed limit of 255"),
        ([{"Expiration": {"Days": 0}}], "InvalidArgument", "'Days' for Expiration action must be a positive integer"),
        (
            [{"AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 0}}],
            "InvalidArgument",
            "'DaysAfterInitiation' for AbortIncompleteMultipartUpload action must be a positive integer",
        ),
        ([{"Expiration": {"Days": "1.5"}}], "MalformedXML", MALFORMED),
        ([{"ID": str(number)} for number in range(1001)], "MalformedXML", MALFORMED),
    ],
)
def test_lifecycles(cloud: Cloud, bucket: str, rules: list[dict[str, Any]], code: str, message: str) -> None:
    rule = {"ID": "one", "Status": "Enabled", "Filter": {"Prefix": ""}, "Expiration": {"Days": 1}}
    s3 = client(cloud, "s3")

    def put(changes: list[dict[str, Any]]) -> Any:
        configuration = {"Rules": [{**rule, **change} for change in changes]}
        return s3.put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration=configuration)

    assert error_of(lambda: put(rules)) == (400, code, message)
    put([{"ID": "x" * 255}, {"ID": "two", "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 1}}])


@pytest.mark.parametrize(
    ("service", "call", "status", "code", "text"),
    [
        ("ec2", "describe_instances", 400, "RequestExpired", "Request has expired."),
        ("sts", "get_caller_identity", 403, "SignatureDoesNotMatch", "Signature expired: "),
        ("logs", "describe_log_groups", 400, "InvalidSignatureException", "Signature expired: "),
    ],
)
def test_wrong_clock_in_each_service_s_words(
    cloud: Cloud, service: str, call: str, status: int, code: str, text: str
) -> None:
    used = client(cloud, service)

    def late(request: Any, **_: Any) -> None:
        request.headers["X-Amz-Date"] = f"{datetime.now(UTC) - minutes:%Y%m%dT%H%M%SZ}"

    used.meta.events.register("before-send", late)
    minutes = timedelta(minutes=4)
    getattr(used, call)()
    minutes = timedelta(minutes=16)
    refused = error_of(getattr(used, call))
    assert refused[:2] == (status, code)
    assert refused[2].startswith(text)
    if service == "sts":
        minutes = timedelta(minutes=-16)
        assert error_of(getattr(used, call))[2].startswith("Signature not yet current: ")


def test_every_rule_says_what_it_holds_to_and_who_says_so() -> None:
    for rule in EVERY_RULE:
        assert rule.title.endswith("."), rule.name
        assert rule.sources, rule.name
        assert rule.moto, rule.name


def test_a_rule_that_is_not_there(cloud: Cloud) -> None:
    with (
        pytest.raises(ValueError, match="rule 'none': not known; known are \\['key_is_known', "),
        cloud.without("none"),
    ):
        pass
