"""What EC2 launches."""

from __future__ import annotations

import base64
import re
from functools import cache
from typing import Any

from botocore.loaders import Loader

from rehearsal.cloud.errors import ApiError
from rehearsal.cloud.requests import ApiRequest
from rehearsal.cloud.world import World

LONGEST_USER_DATA = 16384
_IMAGE_ID = re.compile(r"ami-(?:[0-9a-f]{8}|[0-9a-f]{17})")
# https://docs.aws.amazon.com/ec2/latest/instancetypes/ec2-instance-quotas.html: "Standard (A, C, D, H, I, M, R, T, Z)"
_STANDARD = frozenset("acdhimrtz")
_NOT_STANDARD = frozenset({"hpc", "inf", "mac"})


def user_data_fits(_world: World, request: ApiRequest) -> None:
    """User data has at most 16,384 bytes before it is encoded.

    Sources: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/user-data.html; for the answer
    https://github.com/dask/dask-cloudprovider/issues/249
    """
    if _is_launch(request) and len(base64.b64decode(request.parameters.get("UserData", ""))) > LONGEST_USER_DATA:
        raise _invalid(f"User data is limited to {LONGEST_USER_DATA} bytes")


def instance_type_exists(_world: World, request: ApiRequest) -> None:
    """EC2 has the instance type: it is in the list that botocore carries.

    Sources: https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_RunInstances.html; for the answer
    https://github.com/getmoto/moto/issues/1695
    """
    if _is_launch(request) and _type(request) not in instance_types():
        raise _invalid(f"Invalid value '{_type(request)}' for InstanceType.")


def image_exists(world: World, request: ApiRequest) -> None:
    """The AMI exists in the region.

    Sources: https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html; for the answer
    https://github.com/ambrosejcarr/seqc/issues/324
    """
    if not _is_launch(request):
        return
    image = request.parameters.get("ImageId", "")
    if not _IMAGE_ID.fullmatch(image):
        raise ApiError(400, "InvalidAMIID.Malformed", f'Invalid id: "{image}" (expecting "ami-...")')
    if world.backends.image(image) is None:
        raise ApiError(400, "InvalidAMIID.NotFound", f"The image id '[{image}]' does not exist")


def zone_offers_type(world: World, request: ApiRequest) -> None:
    """The instance's zone (its subnet's) offers its type, as DescribeInstanceTypeOfferings says.

    Sources: https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeInstanceTypeOfferings.html; for the
    answer https://github.com/skyplane-project/skyplane/issues/172
    """
    zone = _zone(world, request) if _is_launch(request) else None
    if zone is None:
        return
    instance_type = _type(request)
    zones = world.backends.zones_with(instance_type)
    if not zones:
        message = (
            "The requested configuration is currently not supported. Please check the documentation for supported "
        )
        raise ApiError(400, "Unsupported", f"{message}configurations.")
    if zone not in zones:
        raise ApiError(
            400,
            "Unsupported",
            f"Your requested instance type ({instance_type}) is not supported in your requested Availability Zone "
            f"({zone}). Please retry your request by not specifying an Availability Zone or choosing "
            f"{', '.join(zones)}.",
        )


def instance_profile_is_known(world: World, request: ApiRequest) -> None:
    """EC2 knows the instance profile, which takes a while after it was made, and the profile has a role.

    `Settings.profile_delay` says how long the while is.

    Sources: https://docs.aws.amazon.com/IAM/latest/UserGuide/troubleshoot.html#troubleshoot_general_eventual-consistency;
    for the answers https://github.com/hashicorp/terraform-provider-aws/issues/27516 and
    https://github.com/DanielThomas/ec2gaming/issues/17
    """
    if not _is_launch(request):
        return
    for member in ("Name", "Arn"):
        wanted = request.parameters.get(f"IamInstanceProfile.{member}")
        if wanted is None:
            continue
        profile = world.backends.instance_profile(wanted, by=member.lower())
        roles = world.profile_roles(profile) if profile is not None else None
        if profile is None or roles is None:
            what = "name" if member == "Name" else "ARN"
            parameter = f"iamInstanceProfile.{member.lower()}"
            raise _invalid(
                f"Value ({wanted}) for parameter {parameter} is invalid. Invalid IAM Instance Profile {what}"
            )
        if not roles:
            raise _invalid(f'IAM Instance Profile "{profile.arn}" has no associated IAM Roles')


def vcpu_quota_is_kept(world: World, request: ApiRequest) -> None:
    """The vCPUs of the running instances of a class stay within the account's quota, `Settings.vcpu_quota`.

    Sources: https://docs.aws.amazon.com/ec2/latest/instancetypes/ec2-instance-quotas.html; for the answer
    https://github.com/bentoml/bentoctl/issues/202
    """
    quota = world.settings.vcpu_quota
    if quota is None or not _is_launch(request):
        return
    wanted = _bucket(_type(request))
    running = sum(
        world.backends.vcpus(instance.instance_type)
        for instance in world.backends.instances()
        if instance.state in ("pending", "running") and _bucket(instance.instance_type) == wanted
    )
    asked = world.backends.vcpus(_type(request)) * int(request.parameters.get("MinCount", 1))
    if running + asked > quota:
        raise ApiError(
            400,
            "VcpuLimitExceeded",
            f"You have requested more vCPU capacity than your current vCPU limit of {quota} allows for the instance "
            "bucket that the specified instance type belongs to. Please visit "
            "http://aws.amazon.com/contact-us/ec2-request to request an adjustment to this limit.",
        )


def zone_has_capacity(world: World, request: ApiRequest) -> None:
    """The zone has a machine of the type left, unless it is in `Settings.full`.

    Sources: https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html (a server error); for the
    answer https://github.com/commonwarexyz/monorepo/issues/2859, for its status
    https://github.com/nib-health-funds/hammertime/issues/29
    """
    zone = _zone(world, request) if _is_launch(request) else None
    if zone is None or (zone, _type(request)) not in world.settings.full:
        return
    wanted = _type(request)
    others = [other for other in world.backends.zones_with(_type(request)) if other != zone]
    raise ApiError(
        500,
        "InsufficientInstanceCapacity",
        f"We currently do not have sufficient {wanted} capacity in the Availability Zone you requested ({zone}). "
        f"Our system will be working on provisioning additional capacity. You can currently get {wanted} capacity by "
        f"not specifying an Availability Zone in your request or choosing {', '.join(others)}.",
    )


@cache
def instance_types() -> frozenset[str]:
    """Every instance type of EC2's API model."""
    model: Any = Loader().load_service_model("ec2", "service-2")
    return frozenset(model["shapes"]["InstanceType"]["enum"])


def _is_launch(request: ApiRequest) -> bool:
    return (request.service, request.operation) == ("ec2", "RunInstances")


def _type(request: ApiRequest) -> str:
    # https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_RunInstances.html, "Default"
    return str(request.parameters.get("InstanceType", "m1.small"))


def _zone(world: World, request: ApiRequest) -> str | None:
    subnet = request.parameters.get("SubnetId") or request.parameters.get("NetworkInterface.1.SubnetId")
    if subnet is not None:
        return world.backends.zone_of(subnet)
    zone: str | None = request.parameters.get("Placement.AvailabilityZone")
    return zone


def _bucket(instance_type: str) -> str:
    """The class of instance types that share a quota."""
    letters = instance_type[: len(instance_type) - len(instance_type.lstrip("abcdefghijklmnopqrstuvwxyz"))]
    return "standard" if letters[:1] in _STANDARD and letters not in _NOT_STANDARD else letters


def _invalid(message: str) -> ApiError:
    return ApiError(400, "InvalidParameterValue", message)
