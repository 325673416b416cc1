"""A foundation stack: what outlives a build, and every role."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pulumi
import pulumi_aws as aws

from infra import iam
from infra.cache import Cache
from infra.naming import Names, tags
from infra.network import Network
from infra.registry import Registry
from infra.settings import FoundationSettings

# One of the numbers that CloudWatch Logs takes. The log of a build is also kept in the bucket.
LOG_DAYS = 90


class Foundation(pulumi.ComponentResource):
    """Network, bucket, registry, log group and roles of a foundation stack.

    Raises:
        SettingsError: `cacheRolePrincipals` names another account.
    """

    exports: Mapping[str, pulumi.Input[Any]]
    """The stack's outputs, by the names that `infra.reference` reads."""

    def __init__(self, name: str, settings: FoundationSettings, opts: pulumi.ResourceOptions | None = None) -> None:
        # Inherited by everything below. With bucket and registry alone protected, a `destroy` without preview would
        # first remove all the rest, the bucket's policy and public access block with it, and only then be refused.
        protected = pulumi.ResourceOptions.merge(pulumi.ResourceOptions(protect=settings.protect), opts)
        super().__init__("rocm-build-box:infra:Foundation", name, None, protected)
        child = pulumi.ResourceOptions(parent=self)
        names = Names(pulumi.get_stack(), aws.get_caller_identity().account_id, aws.get_region().region)
        settings.check_account(names.account)
        # Without the filter the list has Local Zones too, which have neither the instance types nor the
        # endpoint.
        everyday = aws.GetAvailabilityZonesFilterArgs(name="opt-in-status", values=["opt-in-not-required"])
        zones = aws.get_availability_zones(state="available", filters=[everyday]).names

        network = Network("network", stack=names.stack, region=names.region, zones=zones, opts=child)
        Cache("cache", names=names, prefix=settings.cache_prefix, force_destroy=not settings.protect, opts=child)
        Registry("registry", names=names, force_destroy=not settings.protect, opts=child)
        aws.cloudwatch.LogGroup(
            "builds",
            name=names.log_group,
            retention_in_days=LOG_DAYS,
            tags=tags(names.stack, "builds"),
            opts=child,
        )
        box_role = aws.iam.Role(
            "box",
            name=names.box_role,
            path=names.role_path,
            description="The build machine itself; build steps do not get it",
            assume_role_policy=iam.render(iam.box_role_trust()),
            max_session_duration=iam.BOX_ROLE_SESSION_SECONDS,
            tags=tags(names.stack, "box"),
            opts=child,
        )
        box_policy = aws.iam.RolePolicy(
            "box", name="box", role=box_role.name, policy=iam.render(iam.box_role_policy(names)), opts=child
        )
        profile = aws.iam.InstanceProfile(
            "box",
            name=names.box_role,
            path=names.role_path,
            role=box_role.name,
            tags=tags(names.stack, "box"),
            opts=pulumi.ResourceOptions(parent=self, depends_on=[box_policy]),
        )
        cache_role = aws.iam.Role(
            "cache",
            name=names.cache_role,
            path=names.role_path,
            description="Read and write the compile cache",
            assume_role_policy=iam.render(iam.cache_role_trust(names, settings.cache_role_principals)),
            max_session_duration=iam.CACHE_ROLE_SESSION_SECONDS,
            tags=tags(names.stack, "cache"),
            opts=child,
        )
        aws.iam.RolePolicy(
            "cache",
            name="cache",
            role=cache_role.name,
            policy=iam.render(iam.cache_role_policy(names, settings.cache_prefix)),
            opts=child,
        )
        self.exports = {
            "accountId": names.account,
            "region": names.region,
            "bucketName": names.bucket,
            "cachePrefix": settings.cache_prefix,
            "cacheRoleArn": names.cache_role_arn,
            "boxRoleArn": names.box_role_arn,
            "boxInstanceProfile": profile.name,
            "vpcId": network.vpc_id,
            "s3EndpointId": network.s3_endpoint_id,
            "subnetIds": network.subnet_ids,
            "registry": names.registry,
            "registryName": names.repository,
            "repositoryUrl": names.repository_url,
            "logGroup": names.log_group,
            "assumeRoleCommand": (
                f"aws sts assume-role --role-arn {names.cache_role_arn} --role-session-name {names.cache_role} "
                f"--duration-seconds {iam.CACHE_ROLE_SESSION_SECONDS}"
            ),
        }
        self.register_outputs(dict(self.exports))
