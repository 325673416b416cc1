"""A box stack: one build machine, and what belongs to it. It makes no role and no policy."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import pulumi
import pulumi_aws as aws

from buildspec import user_data
from buildspec.box import config as box_config
from infra import iam, naming
from infra.context import BuildContext
from infra.errors import RefusedError
from infra.placement import Gpu, check_architecture, check_gpu, choose_zone
from infra.reference import FoundationOutputs, last_instance_id
from infra.settings import BoxSettings
from infra.vcs import Revision

# https://wiki.debian.org/Cloud/AmazonEC2Image: Debian's own account publishes the parameter.
DEBIAN_AMI_PARAMETER = "/aws/service/debian/release/13/latest/amd64"

# gp3 gives 3,000 IOPS and 125 MiB/s unless asked. A build unpacks and commits image layers of tens of GB, at
# 125 MiB/s several minutes each; a compile with all cores opens many small files. Of the type's own EBS
# bandwidth (10 Gbit/s for m7a.8xlarge) this takes under half, and gp3 allows both from 30 GiB on (500 IOPS a
# GiB, 0.25 MiB/s an IOPS).
VOLUME_IOPS = 6_000
VOLUME_MIBPS = 500

# Plain HTTP because apt's mirrors serve it: packages are signed, and apt verifies that. DNS, time and the
# metadata service need no rule, security groups do not filter them:
# https://docs.aws.amazon.com/vpc/latest/userguide/vpc-security-groups.html
EGRESS_PORTS: Mapping[str, int] = {"http": 80, "https": 443}


class RunningBuildError(RefusedError):
    """The `up` would end a build that is running."""


class Box(pulumi.ComponentResource):
    """The instance, its security group and the build context that it fetches.

    The instance is replaced and never changed: whatever it is launched with is in one digest, which triggers
    the replacement. A running instance with another digest is not replaced but reported, so that no build is
    lost to an `up`.

    Raises:
        FoundationError: the foundation is elsewhere.
        PlacementError: the instance type does not fit.
        RunningBuildError: this stack's box is running and was launched with something else, or by an `up` that did
            not come to its end.
    """

    exports: Mapping[str, pulumi.Input[Any]]
    """The stack's outputs."""

    def __init__(
        self,
        name: str,
        settings: BoxSettings,
        *,
        foundation: FoundationOutputs,
        context: BuildContext,
        revision: Revision,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("rocm-build-box:infra:Box", name, None, opts)
        stack = pulumi.get_stack()
        tags = naming.tags(stack, name)
        child = pulumi.ResourceOptions(parent=self)
        foundation.check_deployment(
            aws.get_caller_identity().account_id, aws.get_region().region, settings.foundation_stack
        )
        zone = _zone(settings, foundation)
        context_key = naming.context_key(stack, context.sha256)
        launch: dict[str, Any] = {
            "ami": settings.ami,
            "instance_type": settings.instance_type,
            "profile": foundation.box_instance_profile,
            "subnet": foundation.subnet_ids[zone],
            "volume_gib": settings.volume_gib,
            "user_data": user_data.render(_configuration(stack, settings, foundation, context_key, context, revision)),
        }
        launch_hash = hashlib.sha256(json.dumps(launch, sort_keys=True).encode()).hexdigest()
        _refuse_to_end_a_build(stack, launch_hash)

        archive = aws.s3.BucketObjectv2(
            f"{name}-context",
            bucket=foundation.bucket_name,
            key=context_key,
            source=pulumi.FileAsset(str(context.path)),
            content_type="application/gzip",
            tags=tags,
            opts=child,
        )
        group = aws.ec2.SecurityGroup(
            name,
            name=f"{naming.PROJECT}-{stack}",
            description="Build box: nothing in, web and registry out",
            vpc_id=foundation.vpc_id,
            tags=tags,
            # Its name is fixed, and a VPC takes a name once.
            opts=pulumi.ResourceOptions(parent=self, delete_before_replace=True),
        )
        egress = [
            aws.vpc.SecurityGroupEgressRule(
                f"{name}-{purpose}",
                security_group_id=group.id,
                ip_protocol="tcp",
                from_port=port,
                to_port=port,
                cidr_ipv4="0.0.0.0/0",
                description=purpose,
                tags=tags,
                opts=child,
            )
            for purpose, port in _egress_ports(settings).items()
        ]
        instance = aws.ec2.Instance(
            name,
            ami=settings.ami or aws.ssm.get_parameter(name=DEBIAN_AMI_PARAMETER).value,
            instance_type=settings.instance_type,
            subnet_id=foundation.subnet_ids[zone],
            vpc_security_group_ids=[group.id],
            iam_instance_profile=foundation.box_instance_profile,
            instance_initiated_shutdown_behavior="terminate",
            user_data=launch["user_data"],
            user_data_replace_on_change=True,
            metadata_options=aws.ec2.InstanceMetadataOptionsArgs(
                http_endpoint="enabled",
                http_tokens="required",
                # A container on Docker's bridge is a hop further than the box itself.
                http_put_response_hop_limit=1,
                instance_metadata_tags="disabled",
            ),
            root_block_device=aws.ec2.InstanceRootBlockDeviceArgs(
                volume_type="gp3",
                volume_size=settings.volume_gib,
                iops=VOLUME_IOPS,
                throughput=VOLUME_MIBPS,
                encrypted=True,
                delete_on_termination=True,
            ),
            volume_tags=tags,
            tags={**tags, "LaunchHash": launch_hash},
            opts=pulumi.ResourceOptions(
                parent=self,
                # It fetches the archive as soon as it boots, and without the rules it cannot.
                depends_on=[archive, *egress],
                delete_before_replace=True,
                replacement_trigger=launch_hash,
                # Debian publishes new images all the time; a box is not replaced for that. A new box takes
                # the newest.
                ignore_changes=[] if settings.ami else ["ami"],
            ),
        )
        uri = instance.id.apply(
            lambda instance_id: f"s3://{foundation.bucket_name}/{naming.build_folder(stack, instance_id)}"
        )
        self.exports = {
            "instanceId": instance.id,
            "zone": zone,
            "bucketName": foundation.bucket_name,
            "contextSha256": context.sha256,
            "statusUri": uri.apply(lambda folder: f"{folder}/status.json"),
            "logUri": uri.apply(lambda folder: f"{folder}/build.log"),
            "logTailCommand": instance.id.apply(
                lambda instance_id: (
                    f"aws logs tail {foundation.log_group} --region {foundation.region} "
                    f"--log-stream-name-prefix {instance_id} --follow"
                )
            ),
        }
        self.register_outputs(dict(self.exports))


def _zone(settings: BoxSettings, foundation: FoundationOutputs) -> str:
    """Return the zone for the instance, after the checks of its type that only EC2 can answer."""
    kind = settings.instance_type
    only = aws.ec2.GetInstanceTypeOfferingsFilterArgs(name="instance-type", values=[kind])
    offered = aws.ec2.get_instance_type_offerings(location_type="availability-zone", filters=[only]).locations
    zone = choose_zone(kind, offered, foundation.subnet_ids, foundation.region)
    described = aws.ec2.get_instance_type(instance_type=kind)
    check_architecture(kind, described.supported_architectures)
    if settings.require_gpu:
        gpus = [Gpu(gpu.manufacturer, gpu.name) for gpu in described.gpuses]
        check_gpu(kind, gpus, settings.rocm_architectures)
    return zone


def _egress_ports(settings: BoxSettings) -> dict[str, int]:
    ports = dict(EGRESS_PORTS)
    if settings.registry_port not in ports.values():
        ports["registry"] = settings.registry_port
    return ports


def _configuration(
    stack: str,
    settings: BoxSettings,
    foundation: FoundationOutputs,
    context_key: str,
    context: BuildContext,
    revision: Revision,
) -> box_config.BoxConfig:
    return box_config.BoxConfig(
        stack=stack,
        region=foundation.region,
        bucket=foundation.bucket_name,
        cache_prefix=foundation.cache_prefix,
        context=box_config.BuildContext(key=context_key, sha256=context.sha256),
        cache_role_arn=foundation.cache_role_arn,
        session_policy=iam.session_policy(foundation.bucket_name, foundation.cache_prefix, foundation.s3_endpoint_id),
        log_group=foundation.log_group,
        targets=settings.targets,
        bake_variables={
            "REGISTRY": foundation.registry,
            "REGISTRY_NAME": foundation.registry_name,
            "REGISTRY_INSECURE": "false",
            **settings.bake_variables,
            "SCCACHE_BUCKET": foundation.bucket_name,
            "SCCACHE_REGION": foundation.region,
            "SCCACHE_S3_KEY_PREFIX": foundation.cache_prefix,
            "VCS_REF": revision.ref,
            "BUILD_DATE": revision.date,
        },
        keep_box=settings.keep_box,
        max_lifetime_hours=settings.max_lifetime_hours,
    )


def _refuse_to_end_a_build(stack: str, launch_hash: str) -> None:
    ours = {"Project": naming.PROJECT, "Stack": stack}
    states = ["pending", "running"]
    running = set(aws.ec2.get_instances(instance_tags=ours, instance_state_names=states).ids)
    same = set(
        aws.ec2.get_instances(instance_tags={**ours, "LaunchHash": launch_hash}, instance_state_names=states).ids
    )
    if others := sorted(running - same):
        raise RunningBuildError(
            f"box {', '.join(others)} of stack {stack} is running, and it was launched with other settings or another "
            "working tree. This `up` would end its build and start a new one.\n"
            "  fix: wait until it has powered off (it does so when the build ends), or end it now: `pulumi destroy`, "
            "then `pulumi up`"
        )
    # An `up` that is killed after it has launched an instance, and before it has stored that, leaves one that Pulumi
    # knows nothing of: the next would start a second beside it, and `destroy` would let it run.
    if lost := sorted(same - {last_instance_id()}):
        raise RunningBuildError(
            f"box {', '.join(lost)} of stack {stack} is running, launched by an `up` that was interrupted before it "
            "had stored that. This `up` would start another one beside it.\n"
            "  fix: wait until it has powered off (it does so when the build ends), or end it now: "
            f"`aws ec2 terminate-instances --instance-ids {' '.join(lost)}`; then `pulumi up`"
        )
