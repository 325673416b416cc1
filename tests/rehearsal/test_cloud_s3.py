"""S3 through real HTTPS: who may do what, and the errors by which clients tell why not."""

from __future__ import annotations

import contextlib
import http.client
import json
import secrets
import ssl
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from infra.iam import bucket_policy, render
from infra.naming import Names
from rehearsal.cloud import ACCOUNT, REGION
from rehearsal.cloud.credentials import Credential
from rehearsal.cloud.server import Cloud
from tests.rehearsal.conftest import (
    Network,
    allow,
    assume,
    client,
    coming_from,
    document,
    error_of,
    journal,
    launch,
    make_role,
)

CACHE_ACTIONS = ("s3:GetObject", "s3:PutObject", "s3:ListBucket")


def cache_policy(bucket: str, *, without: str = "") -> str:
    objects = [action for action in CACHE_ACTIONS[:2] if action != without]
    statements = [allow(objects, f"arn:aws:s3:::{bucket}/cache/*")]
    if without != "s3:ListBucket":
        statements.append(allow(["s3:ListBucket"], f"arn:aws:s3:::{bucket}"))
    return document(*statements)


def denied(session: Credential, action: str, resource: str, why: str = "identity-based policy") -> tuple[int, str, str]:
    message = (
        f"User: {session.principal.arn} is not authorized to perform: {action} on resource: "
        f'"{resource}" because no {why} allows the {action} action'
    )
    return 403, "AccessDenied", message


def test_cache_role_may_do_what_sccache_does(cloud: Cloud, bucket: str) -> None:
    s3 = cloud.client("s3", assume(cloud, make_role(cloud, policy=cache_policy(bucket))))
    s3.put_object(Bucket=bucket, Key="cache/a/b", Body=b"object")
    assert s3.get_object(Bucket=bucket, Key="cache/a/b")["Body"].read() == b"object"
    assert s3.head_object(Bucket=bucket, Key="cache/a/b")["ContentLength"] == 6
    listed = s3.list_objects_v2(Bucket=bucket, Prefix="cache/")["Contents"]
    assert [item["Key"] for item in listed] == ["cache/a/b", "cache/known"]
    assert error_of(lambda: s3.get_object(Bucket=bucket, Key="cache/missing"))[:2] == (404, "NoSuchKey")
    assert error_of(lambda: s3.head_object(Bucket=bucket, Key="cache/missing"))[:2] == (404, "404")


def test_cache_role_may_do_nothing_else(cloud: Cloud, bucket: str) -> None:
    session = assume(cloud, make_role(cloud, policy=cache_policy(bucket)))
    s3 = cloud.client("s3", session)
    arn = f"arn:aws:s3:::{bucket}"
    assert error_of(lambda: s3.delete_object(Bucket=bucket, Key="cache/known")) == denied(
        session, "s3:DeleteObject", f"{arn}/cache/known"
    )
    assert error_of(lambda: s3.put_object(Bucket=bucket, Key="elsewhere", Body=b"")) == denied(
        session, "s3:PutObject", f"{arn}/elsewhere"
    )
    assert error_of(lambda: s3.get_object(Bucket=bucket, Key="contexts/x")) == denied(
        session, "s3:GetObject", f"{arn}/contexts/x"
    )
    assert error_of(lambda: s3.list_buckets()) == denied(session, "s3:ListAllMyBuckets", "*")
    assert error_of(lambda: s3.get_bucket_policy(Bucket=bucket)) == denied(session, "s3:GetBucketPolicy", arn)
    assert error_of(lambda: s3.delete_bucket(Bucket=bucket)) == denied(session, "s3:DeleteBucket", arn)
    tagged = error_of(lambda: s3.put_object(Bucket=bucket, Key="cache/t", Body=b"", Tagging="a=b"))
    assert tagged == denied(session, "s3:PutObjectTagging", f"{arn}/cache/t")
    copied = error_of(lambda: s3.copy_object(Bucket=bucket, Key="cache/c", CopySource=f"{bucket}/contexts/x"))
    assert copied == denied(session, "s3:GetObject", f"{arn}/contexts/x")
    # What the rehearsal cannot decide it refuses by name.
    status, code, message = error_of(lambda: s3.get_bucket_cors(Bucket=bucket))
    assert (status, code) == (501, "NotImplemented")
    assert "does not know which IAM action s3 GET needs" in message


@pytest.mark.parametrize("without", CACHE_ACTIONS)
def test_role_less_one_action(cloud: Cloud, bucket: str, without: str) -> None:
    session = assume(cloud, make_role(cloud, policy=cache_policy(bucket, without=without)))
    s3 = cloud.client("s3", session)
    arn = f"arn:aws:s3:::{bucket}"
    calls: dict[str, Callable[[], Any]] = {
        "s3:GetObject": lambda: s3.get_object(Bucket=bucket, Key="cache/known"),
        "s3:PutObject": lambda: s3.put_object(Bucket=bucket, Key="cache/new", Body=b"new"),
        "s3:ListBucket": lambda: s3.list_objects_v2(Bucket=bucket),
    }
    resources = {
        "s3:GetObject": f"{arn}/cache/known",
        "s3:PutObject": f"{arn}/cache/new",
        "s3:ListBucket": arn,
    }
    assert error_of(calls.pop(without)) == denied(session, without, resources[without])
    for call in calls.values():
        assert call()["ResponseMetadata"]["HTTPStatusCode"] == 200


def test_missing_key_without_list_bucket_is_403(cloud: Cloud, bucket: str) -> None:
    session = assume(cloud, make_role(cloud, policy=cache_policy(bucket, without="s3:ListBucket")))
    s3 = cloud.client("s3", session)
    expected = denied(session, "s3:ListBucket", f"arn:aws:s3:::{bucket}")
    assert error_of(lambda: s3.get_object(Bucket=bucket, Key="cache/missing")) == expected
    assert error_of(lambda: s3.head_object(Bucket=bucket, Key="cache/missing"))[:2] == (403, "403")
    assert s3.get_object(Bucket=bucket, Key="cache/known")["Body"].read() == b"known"


def test_attached_policies_count_as_well(cloud: Cloud, bucket: str) -> None:
    role = make_role(cloud)
    session = assume(cloud, role)
    s3 = cloud.client("s3", session)
    assert error_of(lambda: s3.head_object(Bucket=bucket, Key="cache/known"))[0] == 403
    iam = cloud.client("iam")
    policy = iam.create_policy(PolicyName=f"p-{bucket}", PolicyDocument=cache_policy(bucket))["Policy"]["Arn"]
    iam.attach_role_policy(RoleName=role.rsplit("/", 1)[1], PolicyArn=policy)
    assert s3.head_object(Bucket=bucket, Key="cache/known")["ContentLength"] == 5


def test_session_policy_narrows(cloud: Cloud, bucket: str) -> None:
    role = make_role(cloud, policy=cache_policy(bucket))
    narrow = document(allow(["s3:GetObject", "s3:DeleteObject"], f"arn:aws:s3:::{bucket}/cache/known"))
    session = assume(cloud, role, Policy=narrow)
    s3 = cloud.client("s3", session)
    assert s3.get_object(Bucket=bucket, Key="cache/known")["Body"].read() == b"known"
    arn = f"arn:aws:s3:::{bucket}"
    put = error_of(lambda: s3.put_object(Bucket=bucket, Key="cache/known", Body=b""))
    assert put == denied(session, "s3:PutObject", f"{arn}/cache/known", "session policy")
    # The session policy does not widen what the role may do.
    delete = error_of(lambda: s3.delete_object(Bucket=bucket, Key="cache/known"))
    assert delete == denied(session, "s3:DeleteObject", f"{arn}/cache/known")


def test_permissions_boundary_narrows(cloud: Cloud, bucket: str) -> None:
    role = make_role(cloud, policy=cache_policy(bucket))
    session = assume(cloud, role)
    s3 = cloud.client("s3", session)
    arn = f"arn:aws:s3:::{bucket}"
    iam = cloud.client("iam")
    boundary = document(allow(["s3:GetObject", "s3:DeleteObject"], f"{arn}/*"))
    policy = iam.create_policy(PolicyName=f"boundary-{bucket}", PolicyDocument=boundary)["Policy"]["Arn"]
    name = role.rsplit("/", 1)[1]
    iam.put_role_permissions_boundary(RoleName=name, PermissionsBoundary=policy)

    def put() -> Any:
        return s3.put_object(Bucket=bucket, Key="cache/new", Body=b"new")

    refused = denied(session, "s3:PutObject", f"{arn}/cache/new", "permissions boundary")
    assert error_of(put) == refused
    assert s3.get_object(Bucket=bucket, Key="cache/known")["Body"].read() == b"known"
    # The boundary gives nothing that the role's own policy does not.
    delete = error_of(lambda: s3.delete_object(Bucket=bucket, Key="cache/known"))
    assert delete == denied(session, "s3:DeleteObject", f"{arn}/cache/known")
    iam.delete_role_permissions_boundary(RoleName=name)
    assert put()["ResponseMetadata"]["HTTPStatusCode"] == 200


def test_session_of_a_deleted_role_may_do_nothing(cloud: Cloud, bucket: str) -> None:
    role = make_role(cloud, policy=cache_policy(bucket))
    session = assume(cloud, role)
    name = role.rsplit("/", 1)[1]
    iam = cloud.client("iam")
    trust = iam.get_role(RoleName=name)["Role"]["AssumeRolePolicyDocument"]
    iam.delete_role_policy(RoleName=name, PolicyName="inline")
    iam.delete_role(RoleName=name)
    s3 = cloud.client("s3", session)
    assert error_of(lambda: s3.head_object(Bucket=bucket, Key="cache/known"))[0] == 403
    # A new role of the same name is another role.
    iam.create_role(Path="/test/", RoleName=name, AssumeRolePolicyDocument=json.dumps(trust))
    iam.put_role_policy(RoleName=name, PolicyName="inline", PolicyDocument=cache_policy(bucket))
    assert error_of(lambda: s3.head_object(Bucket=bucket, Key="cache/known"))[0] == 403


def test_bucket_policy(cloud: Cloud, bucket: str) -> None:
    """A TLS-only policy lets everybody in over TLS (plain moto denies everything); an explicit deny is one
    for all.
    """
    arn = f"arn:aws:s3:::{bucket}"
    deny = {"Effect": "Deny", "Principal": "*", "Action": "s3:*", "Resource": [arn, f"{arn}/*"]}
    tls_only = {**deny, "Condition": {"Bool": {"aws:SecureTransport": "false"}}}
    operator = cloud.client("s3")
    operator.put_bucket_policy(Bucket=bucket, Policy=document(tls_only))
    session = assume(cloud, make_role(cloud, policy=cache_policy(bucket)))
    s3 = cloud.client("s3", session)
    s3.put_object(Bucket=bucket, Key="cache/tls", Body=b"")
    operator.put_object(Bucket=bucket, Key="cache/tls", Body=b"")
    no_writes = {**deny, "Action": "s3:PutObject", "Resource": f"{arn}/*"}
    operator.put_bucket_policy(Bucket=bucket, Policy=document(tls_only, no_writes))
    message = (
        f'is not authorized to perform: s3:PutObject on resource: "{arn}/cache/tls" '
        "with an explicit deny in a resource-based policy"
    )
    for used, who in ((s3, session.principal.arn), (operator, cloud.operator.principal.arn)):
        refused = error_of(partial(used.put_object, Bucket=bucket, Key="cache/tls", Body=b""))
        assert refused == (403, "AccessDenied", f"User: {who} {message}")
    assert s3.get_object(Bucket=bucket, Key="cache/known")["Body"].read() == b"known"


def test_bucket_that_refuses_plain_http(cloud: Cloud, plain_endpoint: str) -> None:
    """With the policy that the program gives its bucket, neither a role nor the operator gets in without TLS."""
    names = Names(f"stack-{secrets.token_hex(4)}", ACCOUNT, REGION)
    operator = cloud.client("s3")
    operator.create_bucket(Bucket=names.bucket)
    operator.put_object(Bucket=names.bucket, Key="cache/known", Body=b"known")
    session = assume(cloud, make_role(cloud, policy=cache_policy(names.bucket)))

    def read(credential: Credential, endpoint: str) -> Any:
        s3 = client(cloud, "s3", credential, endpoint=endpoint)
        return s3.get_object(Bucket=names.bucket, Key="cache/known")["Body"].read()

    for credential in (session, cloud.operator):
        assert read(credential, plain_endpoint) == b"known"
    operator.put_bucket_policy(Bucket=names.bucket, Policy=render(bucket_policy(names)))
    for credential in (session, cloud.operator):
        message = (
            f"User: {credential.principal.arn} is not authorized to perform: s3:GetObject on resource: "
            f'"{names.bucket_arn}/cache/known" with an explicit deny in a resource-based policy'
        )
        assert error_of(partial(read, credential, plain_endpoint)) == (403, "AccessDenied", message)
        assert read(credential, cloud.endpoint) == b"known"


def test_condition_that_is_not_known_is_said(cloud: Cloud, bucket: str) -> None:
    statement = allow(["s3:GetObject"], f"arn:aws:s3:::{bucket}/*")
    statement["Condition"] = {"IpAddress": {"aws:SourceIp": "10.0.0.0/8"}}
    s3 = cloud.client("s3", assume(cloud, make_role(cloud, policy=document(statement))))
    status, code, message = error_of(lambda: s3.get_object(Bucket=bucket, Key="cache/known"))
    assert (status, code) == (501, "NotImplemented")
    assert "condition operator 'IpAddress' is not known" in message


def test_source_vpce(cloud: Cloud, bucket: str, network: Network) -> None:
    """aws:SourceVpce is there for a box whose subnet's route table has an S3 gateway endpoint, and for nobody
    else.
    """
    ec2 = cloud.client("ec2")
    _, address = launch(cloud, network)
    _, other = launch(cloud, network)
    endpoint = ec2.create_vpc_endpoint(
        VpcId=network.vpc,
        ServiceName="com.amazonaws.us-east-1.s3",
        VpcEndpointType="Gateway",
        RouteTableIds=[network.route_table],
    )["VpcEndpoint"]["VpcEndpointId"]
    statement = allow(["s3:GetObject"], f"arn:aws:s3:::{bucket}/*")
    statement["Condition"] = {"StringEquals": {"aws:SourceVpce": endpoint}}
    session = assume(cloud, make_role(cloud, policy=document(statement)))

    def read(source: str | None) -> Any:
        client = cloud.client("s3", session)
        client = coming_from(client, source) if source else client
        return client.get_object(Bucket=bucket, Key="cache/known")

    assert read(address)["Body"].read() == b"known"
    assert read(other)["Body"].read() == b"known"
    expected = denied(session, "s3:GetObject", f"arn:aws:s3:::{bucket}/cache/known")
    assert error_of(lambda: read(None)) == expected
    ec2.modify_vpc_endpoint(VpcEndpointId=endpoint, RemoveRouteTableIds=[network.route_table])
    assert error_of(lambda: read(address)) == expected
    ec2.modify_vpc_endpoint(VpcEndpointId=endpoint, AddRouteTableIds=[network.route_table])
    assert read(address)["Body"].read() == b"known"
    closed = document({**allow(["s3:PutObject"], "*"), "Principal": "*"})
    ec2.modify_vpc_endpoint(VpcEndpointId=endpoint, PolicyDocument=closed)
    assert error_of(lambda: read(address)) == denied(
        session, "s3:GetObject", f"arn:aws:s3:::{bucket}/cache/known", "VPC endpoint policy"
    )
    ec2.delete_vpc_endpoints(VpcEndpointIds=[endpoint])


def replaced(credential: Credential, **changes: Any) -> Credential:
    return replace(credential, **changes)


def test_credentials_that_are_no_good(cloud: Cloud, bucket: str) -> None:
    session = assume(cloud, make_role(cloud, policy=cache_policy(bucket)))

    def read(credential: Credential) -> tuple[int, str, str]:
        return error_of(lambda: cloud.client("s3", credential).get_object(Bucket=bucket, Key="cache/known"))

    assert read(replaced(session, access_key_id="ASIAUNKNOWNUNKNOWN00")) == (
        403,
        "InvalidAccessKeyId",
        "The AWS Access Key Id you provided does not exist in our records.",
    )
    assert read(replaced(session, token="another")) == (
        400,
        "InvalidToken",
        "The provided token is malformed or otherwise invalid.",
    )
    assert read(replaced(session, token=None))[:2] == (403, "InvalidAccessKeyId")
    assert read(replaced(cloud.operator, token=session.token))[:2] == (400, "InvalidToken")
    cloud.keyring.expire(session.access_key_id)
    assert read(session) == (400, "ExpiredToken", "The provided token has expired.")


def test_unsigned_request_is_refused(cloud: Cloud, bucket: str) -> None:
    context = ssl.create_default_context(cafile=str(cloud.ca_certificate))
    with contextlib.closing(
        http.client.HTTPSConnection(cloud.endpoint.removeprefix("https://"), context=context)
    ) as connection:
        connection.request("GET", f"/{bucket}/cache/known")
        answer = connection.getresponse()
        assert answer.status == 403
        assert b"<Code>AccessDenied</Code>" in answer.read()


def test_virtual_host_path_and_odd_keys(cloud: Cloud, bucket: str) -> None:
    """The same object by both forms of address, as sccache and boto3 send them."""
    key = "cache/ü a+b//c%2F?d"
    cloud.client("s3").put_object(Bucket=bucket, Key=key, Body=b"odd")
    session = assume(cloud, make_role(cloud, policy=cache_policy(bucket)))
    assert cloud.client("s3", session).get_object(Bucket=bucket, Key=key)["Body"].read() == b"odd"
    context = ssl.create_default_context(cafile=str(cloud.ca_certificate))
    connection = http.client.HTTPSConnection(cloud.endpoint.removeprefix("https://"), context=context)
    scope = f"{session.access_key_id}/20260101/us-east-1/s3/aws4_request"
    for host in (f"{bucket}.s3.us-east-1.amazonaws.com", f"{bucket}.s3.amazonaws.com:443"):
        headers = {
            "Host": host,
            "Authorization": f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=0",
            "X-Amz-Security-Token": session.token or "",
        }
        connection.request("GET", "/cache/%C3%BC%20a%2Bb//c%252F%3Fd", headers=headers)
        answer = connection.getresponse()
        assert (answer.status, answer.read()) == (200, b"odd")
    connection.close()
    last = journal(cloud.directory, "requests.jsonl")[-1]
    assert last["path"] == f"/{bucket}/{key}"


def test_multipart_upload(cloud: Cloud, bucket: str) -> None:
    s3 = cloud.client("s3", assume(cloud, make_role(cloud, policy=cache_policy(bucket))))
    upload = s3.create_multipart_upload(Bucket=bucket, Key="cache/big")["UploadId"]
    arguments = {"Bucket": bucket, "Key": "cache/big", "UploadId": upload}
    parts = []
    for number, size in ((1, 5 << 20), (2, 10)):
        tag = s3.upload_part(**arguments, PartNumber=number, Body=bytes(size))["ETag"]
        parts.append({"PartNumber": number, "ETag": tag})
    assert error_of(lambda: s3.abort_multipart_upload(**arguments))[:2] == (403, "AccessDenied")
    s3.complete_multipart_upload(**arguments, MultipartUpload={"Parts": parts})
    assert s3.head_object(Bucket=bucket, Key="cache/big")["ContentLength"] == (5 << 20) + 10


def test_request_log(cloud: Cloud, bucket: str) -> None:
    session = assume(cloud, make_role(cloud, policy=cache_policy(bucket)))
    cloud.client("s3", session).get_object(Bucket=bucket, Key="cache/known")
    entry = journal(cloud.directory, "requests.jsonl")[-1]
    assert entry.pop("time")
    assert entry == {
        "service": "s3",
        "action": "s3:GetObject",
        "principal": session.principal.arn,
        "key": session.access_key_id,
        "source": "127.0.0.1",
        "method": "GET",
        "path": f"/{bucket}/cache/known",
        "status": 200,
    }
    log = (cloud.directory / "requests.jsonl").read_text()
    for secret in journal(cloud.directory, "issued.jsonl"):
        assert secret["kind"] == "AccessKeyId" or secret["value"] not in log
