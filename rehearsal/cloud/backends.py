"""moto inside this process: its applications by service, and the parts of its state that the rules look at.

moto answers what a service does; the rules decide whether it may. Everything that knows moto's insides is
here.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rehearsal.cloud import ACCOUNT, REGION
from rehearsal.cloud.errors import ApiError

if TYPE_CHECKING:
    from wsgiref.types import WSGIApplication

SERVICES = frozenset({"ec2", "ecr", "iam", "logs", "s3", "ssm", "sts"})
DEBIAN_IMAGE_PARAMETER = "/aws/service/debian/release/13/latest/amd64"
# The image and the account that Debian publishes from: https://wiki.debian.org/Cloud/AmazonEC2Image/Trixie
DEBIAN_IMAGE_ID = "ami-0deb1a13000000000"
DEBIAN_OWNER = "136693071363"

# Read by moto when it is imported or when a backend is made. Of its 500 images none is used here, and
# cross-origin headers cost time on each of sccache's requests.
_MOTO_SETTINGS = {
    "MOTO_ACCOUNT_ID": ACCOUNT,
    "MOTO_DISABLE_GLOBAL_CORS": "true",
    "MOTO_EC2_LOAD_DEFAULT_AMIS": "false",
}


@dataclass(frozen=True)
class RolePolicies:
    """A role's policies, as JSON.

    Attributes:
        identity: the inline and the attached ones.
        boundary: the permissions boundary.
        trust: who may assume it.
    """

    identity: tuple[str, ...]
    boundary: str | None
    trust: str


class Backends:
    """moto's services, each imported when it is first asked for (EC2 alone takes three seconds).

    moto's state is global in a process, so there can be one cloud at a time; making it anew empties that
    state.
    """

    def __init__(self) -> None:
        os.environ.update(_MOTO_SETTINGS)
        from moto.core.base_backend import BackendDict
        from moto.core.model_instances import reset_model_data

        BackendDict.reset()
        reset_model_data()
        self._applications: dict[str, WSGIApplication] = {}
        self._lock = threading.RLock()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """moto's dictionaries are not made for concurrent changes: one call at a time."""
        with self._lock:
            yield

    def application(self, service: str) -> WSGIApplication:
        """moto's WSGI application of one of `SERVICES`."""
        if service not in self._applications:
            from moto.moto_server.werkzeug_app import create_backend_app

            application: Any = create_backend_app(service)  # type: ignore[arg-type]  # a Literal of all names
            application.debug = False
            _PREPARE.get(service, _nothing)()
            self._applications[service] = application.wsgi_app
        return self._applications[service]

    def role(self, arn: str) -> Any | None:
        """The IAM role with this ARN, or None."""
        return next((role for role in self._iam().get_roles() if role.arn == arn), None)

    def roles(self) -> list[Any]:
        """Every IAM role."""
        return list(self._iam().get_roles())

    def user(self, arn: str) -> Any | None:
        """The IAM user with this ARN, or None."""
        return next((user for user in self._iam().users.values() if user.arn == arn), None)

    def instance_profile(self, wanted: str, *, by: str = "arn") -> Any | None:
        """The instance profile with this ARN, or `by="name"` with this name, or None."""
        return next((profile for profile in self.instance_profiles() if getattr(profile, by) == wanted), None)

    def instance_profiles(self) -> list[Any]:
        """Every instance profile."""
        return list(self._iam().get_instance_profiles())

    def inline_policies(self, role_name: str) -> dict[str, str]:
        """The inline policies of a role by their names; none when there is no such role."""
        return next((role.policies for role in self._iam().get_roles() if role.name == role_name), {})

    def role_policies(self, role: Any) -> RolePolicies:
        """The policies of a role as they are now."""
        attached = (_default_document(policy) for policy in role.managed_policies.values())
        boundary = role.permissions_boundary_arn
        return RolePolicies(
            identity=(*role.policies.values(), *attached),
            boundary=_default_document(self._iam().managed_policies[boundary]) if boundary else None,
            trust=role.assume_role_policy_document,
        )

    def bucket(self, name: str) -> Any | None:
        """The bucket of this name, or None."""
        self.application("s3")
        from moto.s3.models import s3_backends

        return s3_backends[ACCOUNT]["aws"].buckets.get(name)

    def repository(self, name: str) -> Any | None:
        """The ECR repository of this name, or None."""
        return self.ecr().repositories.get(name)

    def ecr(self) -> Any:
        """moto's ECR of the one account and region."""
        self.application("ecr")
        from moto.ecr.models import ecr_backends

        return ecr_backends[ACCOUNT][REGION]

    def ec2(self) -> Any:
        """moto's EC2 of the one account and region."""
        self.application("ec2")
        from moto.ec2.models import ec2_backends

        return ec2_backends[ACCOUNT][REGION]

    def instances(self) -> list[Any]:
        """Every instance, those that are terminated too."""
        reservations = list(self.ec2().reservations.values())
        return [instance for reservation in reservations for instance in reservation.instances]

    def image(self, image_id: str) -> Any | None:
        """The AMI with this id, or None."""
        return self.ec2().amis.get(image_id)

    def zone_of(self, subnet_id: str) -> str | None:
        """The zone of a subnet, or None when there is no such subnet."""
        subnets = (subnet for by_id in self.ec2().subnets.values() for subnet in by_id.values())
        return next((str(subnet.availability_zone) for subnet in subnets if subnet.id == subnet_id), None)

    def zones_with(self, instance_type: str) -> list[str]:
        """The zones that offer an instance type, in order."""
        from moto.ec2.models.instance_types import INSTANCE_TYPE_OFFERINGS

        offers = INSTANCE_TYPE_OFFERINGS["availability-zone"][REGION]
        return sorted(offer["Location"] for offer in offers if offer["InstanceType"] == instance_type)

    def vcpus(self, instance_type: str) -> int:
        """The vCPUs of an instance type.

        Raises:
            ApiError: 501 for a type that moto has no description of: it would fit into every quota.
        """
        from moto.ec2.models.instance_types import INSTANCE_TYPES

        described = INSTANCE_TYPES.get(instance_type)
        if described is None:
            raise ApiError(501, "NotImplemented", f"The rehearsal does not know how many vCPUs {instance_type} has")
        return int(described["VCpuInfo"]["DefaultVCpus"])

    def instance_at(self, address: str) -> Any | None:
        """The instance that has this private address and is not terminated, or None.

        Raises:
            RuntimeError: several have it, so that nobody could say which one asks.
        """
        if "ec2" not in self._applications:
            return None
        found = [
            instance
            for instance in self.instances()
            if instance.state != "terminated" and instance.private_ip == address
        ]
        if len(found) > 1:
            raise RuntimeError(f"{address} is the address of {[instance.id for instance in found]}")
        return found[0] if found else None

    def s3_endpoint(self, instance: Any) -> Any | None:
        """The gateway endpoint through which this instance reaches S3: one in the route table of its subnet,
        or None.

        Source:
        https://docs.aws.amazon.com/vpc/latest/privatelink/gateway-endpoints.html#gateway-endpoint-routing
        """
        tables = [table for table in self.ec2().route_tables.values() if table.vpc_id == instance.vpc_id]
        explicit = [table.id for table in tables if instance.subnet_id in table._associations.values()]
        used = explicit or [table.id for table in tables if table.main_association_id is not None]
        for endpoint in self.ec2().vpc_end_points.values():
            if (
                endpoint.service_name == f"com.amazonaws.{REGION}.s3"
                and endpoint.vpc_endpoint_type == "Gateway"
                and endpoint.state == "available"
                and set(used) & set(endpoint.route_table_ids)
            ):
                return endpoint
        return None

    def _iam(self) -> Any:
        self.application("iam")
        from moto.iam.models import iam_backends

        return iam_backends[ACCOUNT]["aws"]


def _default_document(policy: Any) -> str:
    return str(next(version.document for version in policy.versions if version.is_default))


def _nothing() -> None:
    pass


def _let_the_front_decide() -> None:
    """moto applies bucket policies by itself, but takes a condition that it cannot check for a match: a
    policy that denies plain HTTP would deny everything. The front has decided before moto is asked.
    """
    from moto.iam.access_control import PermissionResult
    from moto.s3.models import FakeBucket

    def permitted(self: FakeBucket, action: str, resource: str) -> PermissionResult:  # noqa: ARG001  # as moto has it
        return PermissionResult.PERMITTED

    FakeBucket.get_permission = permitted  # type: ignore[method-assign]  # replacing it is the point


def _prepare_ec2() -> None:
    _add_debian_image()
    _delete_interfaces_with_instances()


def _delete_interfaces_with_instances() -> None:
    """The interface that a launch makes goes with the instance unless the launch says otherwise; moto keeps it.

    Source: https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_InstanceNetworkInterfaceSpecification.html
    """
    from moto.ec2.models import ec2_backends

    backend = ec2_backends[ACCOUNT][REGION]
    terminate = backend.terminate_instances

    def terminate_with_interfaces(instance_ids: list[str]) -> Any:
        for instance in backend.get_multi_instances_by_id(instance_ids):
            for interface in instance.nics.values():
                # They are gone with the first termination; moto would look for them at a second one.
                interface.delete_on_termination = instance.state != "terminated"
        return terminate(instance_ids)

    backend.terminate_instances = terminate_with_interfaces  # type: ignore[method-assign]  # replacing it is the point


def _add_debian_image() -> None:
    from moto.ec2.models import ec2_backends
    from moto.ec2.models.amis import Ami

    backend = ec2_backends[ACCOUNT][REGION]
    backend.amis[DEBIAN_IMAGE_ID] = Ami(
        backend,
        DEBIAN_IMAGE_ID,
        name="debian-13-amd64-rehearsal",
        description="Debian 13 (rehearsal)",
        owner_id=DEBIAN_OWNER,
        public=True,
        virtualization_type="hvm",
        hypervisor="xen",
        architecture="x86_64",
        root_device_type="ebs",
        root_device_name="/dev/xvda",
        region_name=f"{REGION}a",
        image_location=f"{DEBIAN_OWNER}/debian-13-amd64-rehearsal",
    )


def _add_debian_parameter() -> None:
    """Put straight into the backend: the API refuses names under /aws to everybody but AWS."""
    from moto.core.utils import utcnow
    from moto.ssm.models import Parameter, ssm_backends

    ssm_backends[ACCOUNT][REGION]._parameters[DEBIAN_IMAGE_PARAMETER].append(
        Parameter(  # type: ignore[abstract]  # moto makes them itself; its CloudFormation methods are unused
            account_id=ACCOUNT,
            name=DEBIAN_IMAGE_PARAMETER,
            value=DEBIAN_IMAGE_ID,
            parameter_type="String",
            description="Debian 13 amd64",
            allowed_pattern=None,
            keyid=None,
            last_modified_date=utcnow(),
            version=1,
            data_type="text",
        )
    )


_PREPARE: dict[str, Callable[[], None]] = {
    "ec2": _prepare_ec2,
    "s3": _let_the_front_decide,
    "ssm": _add_debian_parameter,
}
