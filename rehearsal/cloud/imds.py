"""The instance metadata service, version 2, as an instance sees it at 169.254.169.254.

What it says about an instance is what the EC2 API says about it; who asks is told by the address alone.
Source: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-data-categories.html
"""

from __future__ import annotations

import base64
import json
import secrets
import socket
import threading
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from rehearsal.cloud import ACCOUNT, REGION
from rehearsal.cloud.credentials import Credential
from rehearsal.cloud.errors import STATUS_PHRASES, ApiError
from rehearsal.cloud.iam import UnsupportedPolicyError
from rehearsal.cloud.journal import Journal
from rehearsal.cloud.rules import Ruleset
from rehearsal.cloud.serving import answer
from rehearsal.cloud.world import World

if TYPE_CHECKING:
    from wsgiref.types import StartResponse

# A directory maps names to what is under them: a directory, a file's content, or what makes either when it is
# asked for (credentials are issued to whoever reads them, and to nobody else).
Content = str | bytes
Tree = dict[str, "Node"]
Node = Tree | Content | Callable[[], Tree | Content]

# Hop limit 1: a container behind a bridge is one hop too far.
# https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/configuring-instance-metadata-options.html
HOP_LIMIT = 1
LONGEST_TOKEN_LIFE = 21600
# Observed, not promised, by AWS.
ROLE_SESSION_LIFE = timedelta(hours=6)
# https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instance-metadata-security-credentials.html promises new
# credentials at least five minutes before the old ones end.
ROTATE_BEFORE_END = timedelta(minutes=15)
# Those that cloud-init may ask for, and the newest.
VERSIONS = ("1.0", "2009-04-04", "2016-09-02", "2018-09-24", "2021-03-23", "latest")
_TOKEN_PATH = "/latest/api/token"  # noqa: S105  # where tokens are asked for, not one
_TTL_HEADER = "X-aws-ec2-metadata-token-ttl-seconds"


def limit_hops(listener: socket.socket) -> None:
    """Let packets of the service live for one hop; accepted connections inherit it from the listener."""
    listener.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, HOP_LIMIT)


class MetadataService:
    """A WSGI application for plain HTTP on the link-local address. Safe for threads."""

    def __init__(self, world: World, rules: Ruleset, journal: Journal) -> None:
        self._world = world
        self._journal = journal
        self._rules = rules
        self._lock = threading.Lock()
        self._tokens: dict[str, tuple[str, datetime]] = {}
        self._sessions: dict[tuple[str, str], tuple[Credential, datetime]] = {}

    def __call__(self, environ: dict[str, Any], start: StartResponse) -> Iterable[bytes]:
        """Answer one request of the instance whose address it comes from, as WSGI has it."""
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        with self._world.backends.locked():
            instance = self._world.backends.instance_at(environ["REMOTE_ADDR"])
            if instance is None:
                return _refuse(start, 404, f"no instance has the address {environ['REMOTE_ADDR']}")
            if path == _TOKEN_PATH:
                return self._give_token(environ, start, instance.id)
            if not self._token_holds(environ.get("HTTP_X_AWS_EC2_METADATA_TOKEN"), instance.id):
                return _refuse(start, 401, "")
            if method not in ("GET", "HEAD"):
                return _refuse(start, 405, "")
            try:
                found = self._look_up(instance, path)
            except UnsupportedPolicyError as error:
                return _refuse(start, 501, f"The rehearsal cannot decide: {error}")
        if found is None:
            return _refuse(start, 404, "")
        content = found if isinstance(found, bytes) else found.encode()
        return answer(start, "200 OK", "text/plain", content)

    def _give_token(self, environ: dict[str, Any], start: StartResponse, instance_id: str) -> list[bytes]:
        """Issue a session token to this instance.

        Source: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instance-metadata-v2-how-it-works.html
        """
        if environ["REQUEST_METHOD"] != "PUT":
            return _refuse(start, 405, "")
        if "HTTP_X_FORWARDED_FOR" in environ:
            return _refuse(start, 403, "")
        life = environ.get("HTTP_X_AWS_EC2_METADATA_TOKEN_TTL_SECONDS", "")
        if not life.isascii() or not life.isdigit() or not 1 <= int(life) <= LONGEST_TOKEN_LIFE:
            return _refuse(start, 400, "")
        token = base64.urlsafe_b64encode(secrets.token_bytes(42)).decode()
        ends = datetime.now(UTC) + timedelta(seconds=int(life))
        with self._lock:
            self._tokens[token] = (instance_id, ends)
        self._journal.issued("MetadataToken", token, instance_id, ends)
        return answer(start, "200 OK", "text/plain", token.encode(), [(_TTL_HEADER, life)])

    def _token_holds(self, token: str | None, instance_id: str) -> bool:
        owner, ends = self._tokens.get(token or "", ("", datetime.now(UTC)))
        return owner == instance_id and datetime.now(UTC) < ends

    def _look_up(self, instance: Any, path: str) -> str | bytes | None:
        names = [name for name in path.split("/") if name]
        node: Tree | Content = {version: partial(self._version, instance) for version in VERSIONS}
        for name in names:
            if not isinstance(node, dict) or name not in node:
                return None
            found = node[name]
            node = found() if callable(found) else found
        # The two upper levels are listed without slashes.
        return _listing(node, slashes=len(names) > 1) if isinstance(node, dict) else node

    def _version(self, instance: Any) -> Tree:
        tree: Tree = {"dynamic": _dynamic(instance), "meta-data": self._metadata(instance)}
        if instance.user_data is not None:
            tree["user-data"] = base64.b64decode(str(instance.user_data))
        return tree

    def _metadata(self, instance: Any) -> Tree:
        interface = instance.nics[0]
        tree: Tree = {
            "ami-id": instance.image_id,
            "ami-launch-index": str(instance.ami_launch_index),
            "ami-manifest-path": "(unknown)",
            "hostname": instance.private_dns_name,
            "instance-action": "none",
            "instance-id": instance.id,
            "instance-life-cycle": "on-demand",
            "instance-type": instance.instance_type,
            "local-hostname": instance.private_dns_name,
            "local-ipv4": instance.private_ip,
            "mac": interface.mac_address,
            "network": {"interfaces": {"macs": {nic.mac_address: _interface(nic) for nic in instance.nics.values()}}},
            "placement": {
                "availability-zone": instance.availability_zone,
                "availability-zone-id": interface.subnet.availability_zone_id,
                "region": REGION,
            },
            "profile": "default-hvm",
            "reservation-id": _reservation(self._world, instance),
            "security-groups": "\n".join(group.name for group in instance.security_groups),
            "services": {"domain": "amazonaws.com", "partition": "aws"},
        }
        if instance.public_ip:
            tree["public-hostname"] = instance.public_dns_name
            tree["public-ipv4"] = instance.public_ip
        iam = self._iam(instance)
        if iam:
            tree["iam"] = iam
        return tree

    def _iam(self, instance: Any) -> Tree:
        """What an instance finds of its profile and role: nothing at all without a profile.

        Source: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instance-metadata-security-credentials.html
        """
        wanted = instance.iam_instance_profile
        profile = self._world.backends.instance_profile(wanted["Arn"]) if wanted is not None else None
        if profile is None:
            return {}
        role = next(iter(profile.roles), None)
        information = {
            "Code": "Success",
            "LastUpdated": _time(instance.launch_time),
            "InstanceProfileArn": profile.arn,
            "InstanceProfileId": profile.id,
        }
        return {
            "info": json.dumps(information, indent=2),
            "security-credentials": (
                {role.name: partial(self._credentials, instance.id, role)} if role is not None else {}
            ),
        }

    def _credentials(self, instance_id: str, role: Any) -> str:
        """The same credentials at every call, until they near their end; only new ones are a matter of trust."""
        now = datetime.now(UTC)
        session, issued = self._sessions.get((instance_id, role.id), (None, now))
        if session is None or session.expires is None or session.expires - now < ROTATE_BEFORE_END:
            try:
                self._rules.apply_to_role(self._world, role)
            except ApiError as error:
                refusal = {"Code": error.code, "Message": error.message, "LastUpdated": _time(now)}
                return json.dumps(refusal, indent=2)
            session = self._world.keyring.issue_session(role.arn, role.id, instance_id, ROLE_SESSION_LIFE)
            issued = now
            self._sessions[instance_id, role.id] = (session, issued)
        return json.dumps(
            {
                "Code": "Success",
                "LastUpdated": _time(issued),
                "Type": "AWS-HMAC",
                "AccessKeyId": session.access_key_id,
                "SecretAccessKey": session.secret_access_key,
                "Token": session.token,
                "Expiration": _time(session.expires or now),
            },
            indent=2,
        )


def _interface(interface: Any) -> Tree:
    subnet = interface.subnet
    vpc = interface.ec2_backend.get_vpc(subnet.vpc_id)
    tree: Tree = {
        "device-number": str(interface.device_index),
        "interface-id": interface.id,
        "local-hostname": interface.instance.private_dns_name,
        "local-ipv4s": interface.private_ip_address,
        "mac": interface.mac_address,
        "owner-id": ACCOUNT,
        "security-group-ids": "\n".join(group.id for group in interface.group_set),
        "security-groups": "\n".join(group.name for group in interface.group_set),
        "subnet-id": subnet.id,
        "subnet-ipv4-cidr-block": subnet.cidr_block,
        "vpc-id": subnet.vpc_id,
        "vpc-ipv4-cidr-block": vpc.cidr_block,
        "vpc-ipv4-cidr-blocks": vpc.cidr_block,
    }
    if interface.public_ip:
        tree["public-ipv4s"] = interface.public_ip
        tree["ipv4-associations"] = {interface.public_ip: interface.private_ip_address}
    return tree


def _dynamic(instance: Any) -> Tree:
    """The instance identity document, unsigned: nothing here verifies it.

    Source: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/retrieve-iid.html
    """
    document = {
        "accountId": ACCOUNT,
        "architecture": instance.architecture,
        "availabilityZone": instance.availability_zone,
        "billingProducts": None,
        "devpayProductCodes": None,
        "marketplaceProductCodes": None,
        "imageId": instance.image_id,
        "instanceId": instance.id,
        "instanceType": instance.instance_type,
        "kernelId": None,
        "pendingTime": _time(instance.launch_time),
        "privateIp": instance.private_ip,
        "ramdiskId": None,
        "region": REGION,
        "version": "2017-09-30",
    }
    return {"instance-identity": {"document": json.dumps(document, indent=2)}}


def _reservation(world: World, instance: Any) -> str:
    return next((item.id for item in world.backends.ec2().reservations.values() if instance in item.instances), "")


def _listing(tree: Tree, *, slashes: bool) -> str:
    return "\n".join(f"{name}/" if slashes and isinstance(node, dict) else name for name, node in sorted(tree.items()))


def _time(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"


def _refuse(start: StartResponse, status: int, message: str) -> list[bytes]:
    return answer(start, f"{status} {STATUS_PHRASES[status]}", "text/plain", message.encode())
