"""STS: who becomes whom, for how long, and what AWS says to everybody else."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rehearsal.cloud import ACCOUNT
from rehearsal.cloud.credentials import Credential
from rehearsal.cloud.server import Cloud
from tests.rehearsal.conftest import (
    OPERATOR_ARN,
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
CHAINED_TOO_LONG = "The requested DurationSeconds exceeds the 1 hour session limit for roles assumed by role chaining."


def test_caller_identity_of_each_kind(cloud: Cloud) -> None:
    session, second = chain(cloud)
    chained = assume(cloud, second, session, name="i-0123")
    first = (session.principal.role_arn or "").rsplit("/", 1)[1]
    for credential, arn in (
        (cloud.operator, OPERATOR_ARN),
        (session, f"arn:aws:sts::{ACCOUNT}:assumed-role/{first}/first"),
        (chained, f"arn:aws:sts::{ACCOUNT}:assumed-role/{second.rsplit('/', 1)[1]}/i-0123"),
    ):
        said = cloud.client("sts", credential).get_caller_identity()
        assert (said["Arn"], said["Account"], said["UserId"]) == (arn, ACCOUNT, credential.principal.user_id)
    role = cloud.client("iam").get_role(RoleName=second.rsplit("/", 1)[1])["Role"]
    assert chained.principal.user_id == f"{role['RoleId']}:i-0123"


@pytest.mark.parametrize("seconds", [900, HOUR, 12 * HOUR])
def test_a_user_gets_exactly_the_time_it_asks_for(cloud: Cloud, seconds: int) -> None:
    role = make_role(cloud, longest=12 * HOUR)
    before = datetime.now(UTC).replace(microsecond=0)
    answer = cloud.client("sts").assume_role(RoleArn=role, RoleSessionName="ci", DurationSeconds=seconds)
    expires = answer["Credentials"]["Expiration"]
    assert before <= expires - timedelta(seconds=seconds) <= datetime.now(UTC)
    kept = cloud.keyring.find(answer["Credentials"]["AccessKeyId"])
    assert kept is not None
    assert kept.expires == expires


def test_default_duration_is_an_hour(cloud: Cloud) -> None:
    session = assume(cloud, make_role(cloud, longest=12 * HOUR))
    assert session.expires is not None
    assert timedelta(minutes=59) < session.expires - datetime.now(UTC) <= timedelta(hours=1)


@pytest.mark.parametrize("seconds", [900, HOUR])
def test_a_chained_session_of_up_to_an_hour(cloud: Cloud, seconds: int) -> None:
    session, second = chain(cloud)
    chained = assume(cloud, second, session, DurationSeconds=seconds)
    assert chained.expires is not None
    assert timedelta(seconds=seconds - 60) < chained.expires - datetime.now(UTC) <= timedelta(seconds=seconds)


@pytest.mark.parametrize("seconds", [HOUR + 1, 12 * HOUR])
def test_a_chained_session_of_more_than_an_hour_fails(cloud: Cloud, seconds: int) -> None:
    """Plain moto gives it."""
    session, second = chain(cloud)
    refused = error_of(lambda: assume(cloud, second, session, DurationSeconds=seconds))
    assert refused == (400, "ValidationError", CHAINED_TOO_LONG)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"DurationSeconds": HOUR + 1},
            "The requested DurationSeconds exceeds the MaxSessionDuration set for this role.",
        ),
        ({"DurationSeconds": 899}, "Value '899' at 'durationSeconds'"),
        ({"DurationSeconds": 12 * HOUR + 1}, "Value '43201' at 'durationSeconds'"),
        ({"Policy": document(allow(["s3:GetObject"], "arn:aws:s3:::" + "x" * 2000))}, "at 'policy' failed"),
        ({"name": "with space"}, "Value 'with space' at 'roleSessionName'"),
    ],
)
def test_arguments_out_of_range(cloud: Cloud, arguments: dict[str, Any], message: str) -> None:
    """Plain moto takes them all."""
    role = make_role(cloud)
    sts = client(cloud, "sts")
    name = arguments.pop("name", "tester")
    refused = error_of(lambda: sts.assume_role(RoleArn=role, RoleSessionName=name, **arguments))
    assert refused[:2] == (400, "ValidationError")
    assert message in refused[2]


def test_session_policy_must_be_json(cloud: Cloud) -> None:
    role = make_role(cloud)
    assert error_of(lambda: assume(cloud, role, Policy="{"))[:2] == (400, "MalformedPolicyDocument")


def test_trust_with_another_principal_arn(cloud: Cloud) -> None:
    """The path of a role belongs to its ARN, and the session's own ARN is not the principal's."""
    session, second = chain(cloud)
    role = session.principal.role_arn or ""
    name = role.rsplit("/", 1)[1]
    expected = (
        403,
        "AccessDenied",
        f"User: {session.principal.arn} is not authorized to perform: sts:AssumeRole on resource: {second} "
        "because no role trust policy allows the sts:AssumeRole action",
    )
    for wrong in (
        f"arn:aws:iam::{ACCOUNT}:role/{name}",
        f"arn:aws:iam::{ACCOUNT}:role/other/*",
        session.principal.arn,
        OPERATOR_ARN,
    ):
        cloud.client("iam").update_assume_role_policy(
            RoleName=second.rsplit("/", 1)[1], PolicyDocument=trust_account(wrong)
        )
        assert error_of(lambda: assume(cloud, second, session)) == expected
    for right in (role, f"arn:aws:iam::{ACCOUNT}:role/test/*"):
        cloud.client("iam").update_assume_role_policy(
            RoleName=second.rsplit("/", 1)[1], PolicyDocument=trust_account(right)
        )
        assert assume(cloud, second, session).principal.role_arn == second


def test_trust_of_the_account_alone_is_not_enough(cloud: Cloud) -> None:
    """The caller's own policy has to allow it too."""
    session, second = chain(cloud)
    name = (session.principal.role_arn or "").rsplit("/", 1)[1]
    cloud.client("iam").delete_role_policy(RoleName=name, PolicyName="assume")
    assert error_of(lambda: assume(cloud, second, session)) == (
        403,
        "AccessDenied",
        f"User: {session.principal.arn} is not authorized to perform: sts:AssumeRole on resource: {second} "
        "because no identity-based policy allows the sts:AssumeRole action",
    )


def test_trust_over_tls_only(cloud: Cloud, plain_endpoint: str) -> None:
    operator = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"AWS": OPERATOR_ARN}}
    role = make_role(cloud, trust=document({**operator, "Condition": {"Bool": {"aws:SecureTransport": "true"}}}))

    def ask(endpoint: str) -> Any:
        return client(cloud, "sts", endpoint=endpoint).assume_role(RoleArn=role, RoleSessionName="tester")

    assert error_of(lambda: ask(plain_endpoint)) == (
        403,
        "AccessDenied",
        f"User: {OPERATOR_ARN} is not authorized to perform: sts:AssumeRole on resource: {role} "
        "because no role trust policy allows the sts:AssumeRole action",
    )
    assert ask(cloud.endpoint)["Credentials"]


def test_role_that_does_not_exist(cloud: Cloud) -> None:
    role = f"arn:aws:iam::{ACCOUNT}:role/none"
    assert error_of(lambda: assume(cloud, role)) == (
        403,
        "AccessDenied",
        f"User: {OPERATOR_ARN} is not authorized to perform: sts:AssumeRole on resource: {role}",
    )


def test_session_policy_of_the_caller_holds_for_assume_role(cloud: Cloud) -> None:
    session, second = chain(cloud)
    role = session.principal.role_arn or ""
    narrowed = assume(cloud, role, Policy=document(allow(["s3:GetObject"], "*")))
    refused = error_of(lambda: assume(cloud, second, narrowed))
    assert refused[:2] == (403, "AccessDenied")
    assert refused[2].endswith("because no session policy allows the sts:AssumeRole action")


def test_parameter_that_the_rehearsal_does_not_know(cloud: Cloud) -> None:
    role = make_role(cloud)
    refused = error_of(lambda: assume(cloud, role, ExternalId="one"))
    assert refused == (501, "NotImplemented", "The rehearsal does not know AssumeRole with ['ExternalId']")


@pytest.mark.parametrize(
    ("service", "call", "unknown", "expired"),
    [
        ("sts", "get_caller_identity", (403, "InvalidClientTokenId"), (403, "ExpiredToken")),
        ("iam", "list_roles", (403, "InvalidClientTokenId"), (403, "ExpiredToken")),
        ("ec2", "describe_instances", (401, "AuthFailure"), (400, "RequestExpired")),
        (
            "ecr",
            "get_authorization_token",
            (400, "UnrecognizedClientException"),
            (400, "ExpiredTokenException"),
        ),
        ("logs", "describe_log_groups", (400, "UnrecognizedClientException"), (400, "ExpiredTokenException")),
        ("ssm", "describe_parameters", (400, "UnrecognizedClientException"), (400, "ExpiredTokenException")),
    ],
)
def test_bad_credentials_in_each_service_s_words(
    cloud: Cloud, service: str, call: str, unknown: tuple[int, str], expired: tuple[int, str]
) -> None:
    session = assume(cloud, make_role(cloud, policy=document(allow(["*"], "*"))))

    def ask(credential: Credential) -> tuple[int, str]:
        return error_of(getattr(cloud.client(service, credential), call))[:2]

    assert ask(replace(session, access_key_id="ASIAUNKNOWNUNKNOWN00")) == unknown
    assert ask(replace(session, token="another")) == unknown
    cloud.keyring.expire(session.access_key_id)
    assert ask(session) == expired


def test_other_calls_of_a_role_are_decided_too(cloud: Cloud) -> None:
    """Logs, ECR and EC2: allowed by the very resource, refused in AWS's words, unknown ones said."""
    operator = cloud.client("logs")
    operator.create_log_group(logGroupName="/box/dev")
    arn = f"arn:aws:logs:us-east-1:{ACCOUNT}:log-group:/box/dev"
    role = make_role(cloud)
    name = role.rsplit("/", 1)[1]
    session = assume(cloud, role)
    logs = cloud.client("logs", session)

    def create() -> Any:
        return logs.create_log_stream(logGroupName="/box/dev", logStreamName="one")

    expected = (
        400,
        "AccessDeniedException",
        f"User: {session.principal.arn} is not authorized to perform: logs:CreateLogStream on resource: "
        f"{arn}:log-stream: because no identity-based policy allows the logs:CreateLogStream action",
    )
    assert error_of(create) == expected
    put = cloud.client("iam").put_role_policy
    # Without the ":*" the ARN does not cover what is in the group: a trap of AWS's.
    for resource, wrong in ((arn, True), (f"{arn}-other:*", True), (f"{arn}:*", False)):
        statement = allow(["logs:CreateLogStream", "logs:PutLogEvents"], resource)
        put(RoleName=name, PolicyName="logs", PolicyDocument=document(statement))
        if wrong:
            assert error_of(create) == expected
        else:
            create()
    event = {"timestamp": int(datetime.now(UTC).timestamp() * 1000), "message": "hello"}
    logs.put_log_events(logGroupName="/box/dev", logStreamName="one", logEvents=[event])
    found = operator.get_log_events(logGroupName="/box/dev", logStreamName="one")["events"]
    assert [item["message"] for item in found] == ["hello"]
    refused = error_of(cloud.client("ec2", session).describe_instances)
    assert refused[:2] == (403, "UnauthorizedOperation")
    assert "is not authorized to perform: ec2:DescribeInstances on resource: *" in refused[2]
    refused = error_of(cloud.client("ecr", session).get_authorization_token)
    assert refused[:2] == (400, "AccessDeniedException")
    refused = error_of(lambda: cloud.client("iam", session).list_roles())
    assert refused[:2] == (501, "NotImplemented")


def test_a_service_that_is_not_there(cloud: Cloud) -> None:
    refused = error_of(cloud.client("sqs").list_queues)
    assert refused[0] == 501
    assert "not sqs" in refused[2]
