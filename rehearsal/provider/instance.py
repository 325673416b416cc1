"""EC2 instances."""

# `ResourceType` says once what the operations of a type do and are given; its name says what it is.
# ruff: noqa: ARG002, D102

import base64
from collections.abc import Mapping
from typing import Any, ClassVar

from botocore.exceptions import ClientError

from rehearsal.provider.aws import POLL, from_aws, only, retry, tag_list, tag_map, to_aws
from rehearsal.provider.ec2 import Ec2Type, tag_specifications
from rehearsal.provider.resource import TAGS, Property, ResourceType, kept_in_state, same_set
from rehearsal.provider.wire import Properties


class Instance(Ec2Type):
    """An instance.

    The official provider changes the instance type, and user data without ``userDataReplaceOnChange``, by stopping and
    starting the instance. That ends one whose shutdown behaviour is ``terminate``, so here these changes are errors,
    unless the program asks for a replacement.
    """

    def set_security_groups(self, resource_id: str, _old: Properties, new: Properties) -> None:
        self.aws.ec2.modify_instance_attribute(InstanceId=resource_id, Groups=new["vpcSecurityGroupIds"])

    def set_metadata_options(self, resource_id: str, _old: Properties, new: Properties) -> None:
        self.aws.ec2.modify_instance_metadata_options(
            InstanceId=resource_id, **to_aws(new.get("metadataOptions") or {})
        )

    def set_volume_tags(self, resource_id: str, old: Properties, new: Properties) -> None:
        instance = self.describe(resource_id)
        volumes = [mapping["Ebs"]["VolumeId"] for mapping in instance["BlockDeviceMappings"]]
        before, after = old.get("volumeTags") or {}, new.get("volumeTags") or {}
        if removed := before.keys() - after.keys():
            self.aws.ec2.delete_tags(Resources=volumes, Tags=[{"Key": key} for key in sorted(removed)])
        if after:
            self.aws.ec2.create_tags(Resources=volumes, Tags=tag_list(after))

    name = "aws:ec2/instance:Instance"
    not_found = frozenset({"InvalidInstanceID.NotFound"})
    inputs: ClassVar = {
        "ami": Property(required=True, replaces=True),
        "instanceType": Property(required=True),
        "subnetId": Property(required=True, replaces=True),
        "vpcSecurityGroupIds": Property(default=[], same=same_set, update=set_security_groups),
        "iamInstanceProfile": Property(),
        "instanceInitiatedShutdownBehavior": Property(default="stop"),
        "userData": Property(replaces_if="userDataReplaceOnChange"),
        "userDataReplaceOnChange": Property(default=False, update=kept_in_state),
        "metadataOptions": Property(
            update=set_metadata_options,
            fields={
                "httpEndpoint": Property(),
                "httpTokens": Property(),
                "httpPutResponseHopLimit": Property(),
                "instanceMetadataTags": Property(),
            },
        ),
        "rootBlockDevice": Property(
            fields={
                "volumeType": Property(),
                "volumeSize": Property(),
                "iops": Property(),
                "throughput": Property(),
                "encrypted": Property(),
                "deleteOnTermination": Property(),
            }
        ),
        "volumeTags": Property(update=set_volume_tags),
        "tags": TAGS,
    }
    outputs = frozenset(
        {
            "arn",
            "availabilityZone",
            "instanceState",
            "primaryNetworkInterfaceId",
            "privateDns",
            "privateIp",
            "publicDns",
            "publicIp",
        }
    )

    def create(self, new: Properties) -> str:
        optional: dict[str, Any] = {}
        if "iamInstanceProfile" in new:
            optional["IamInstanceProfile"] = {"Name": new["iamInstanceProfile"]}
        if "userData" in new:
            optional["UserData"] = new["userData"]  # boto3 encodes it
        if "metadataOptions" in new:
            optional["MetadataOptions"] = to_aws(new["metadataOptions"])
        if "rootBlockDevice" in new:
            image = only(self.aws.ec2.describe_images(ImageIds=[new["ami"]])["Images"])
            ebs = to_aws(new["rootBlockDevice"])
            optional["BlockDeviceMappings"] = [{"DeviceName": image["RootDeviceName"], "Ebs": ebs}]
        answer = retry(
            lambda: self.aws.ec2.run_instances(
                MinCount=1,
                MaxCount=1,
                ImageId=new["ami"],
                InstanceType=new["instanceType"],
                SubnetId=new["subnetId"],
                SecurityGroupIds=new["vpcSecurityGroupIds"],
                InstanceInitiatedShutdownBehavior=new["instanceInitiatedShutdownBehavior"],
                TagSpecifications=[
                    *tag_specifications("instance", new["tags"]),
                    *tag_specifications("volume", new.get("volumeTags")),
                ],
                **optional,
            ),
            profile_not_known_yet,
        )
        return only(answer["Instances"])["InstanceId"]

    def settle(self, resource_id: str, new: Properties) -> None:
        self.aws.ec2.get_waiter("instance_running").wait(InstanceIds=[resource_id], WaiterConfig=POLL)

    def describe(self, resource_id: str) -> Any:
        """Give what EC2 says about the instance."""
        return only(only(self.aws.ec2.describe_instances(InstanceIds=[resource_id])["Reservations"])["Instances"])

    def read(self, resource_id: str, known: Properties) -> Properties | None:
        ec2 = self.aws.ec2
        instance = self.describe(resource_id)
        if instance["State"]["Name"] == "terminated":
            return None
        user_data = ec2.describe_instance_attribute(InstanceId=resource_id, Attribute="userData")["UserData"]
        behavior = ec2.describe_instance_attribute(
            InstanceId=resource_id, Attribute="instanceInitiatedShutdownBehavior"
        )["InstanceInitiatedShutdownBehavior"]
        profile = instance.get("IamInstanceProfile")
        interfaces = instance["NetworkInterfaces"]
        root, volume_tags = self._root_volume(instance)
        return {
            "ami": instance["ImageId"],
            "instanceType": instance["InstanceType"],
            "subnetId": instance["SubnetId"],
            "vpcSecurityGroupIds": [group["GroupId"] for group in instance["SecurityGroups"]],
            "iamInstanceProfile": profile["Arn"].rpartition("/")[2] if profile else None,
            "instanceInitiatedShutdownBehavior": behavior["Value"],
            "userData": base64.b64decode(user_data.get("Value", "")).decode() or None,
            "metadataOptions": from_aws(instance["MetadataOptions"]),
            "rootBlockDevice": root,
            "volumeTags": volume_tags,
            "tags": tag_map(instance.get("Tags", [])),
            "arn": self.aws.arn("ec2", f"instance/{resource_id}"),
            "availabilityZone": instance["Placement"]["AvailabilityZone"],
            "instanceState": instance["State"]["Name"],
            "primaryNetworkInterfaceId": interfaces[0]["NetworkInterfaceId"] if interfaces else None,
            "privateDns": instance.get("PrivateDnsName"),
            "privateIp": instance.get("PrivateIpAddress"),
            "publicDns": instance.get("PublicDnsName"),
            "publicIp": instance.get("PublicIpAddress"),
        }

    def delete(self, resource_id: str, old: Properties) -> None:
        self.aws.ec2.terminate_instances(InstanceIds=[resource_id])
        self.aws.ec2.get_waiter("instance_terminated").wait(InstanceIds=[resource_id], WaiterConfig=POLL)

    def _root_volume(self, instance: Mapping[str, Any]) -> tuple[Properties | None, dict[str, str] | None]:
        for mapping in instance["BlockDeviceMappings"]:
            if mapping["DeviceName"] == instance["RootDeviceName"]:
                volume = only(self.aws.ec2.describe_volumes(VolumeIds=[mapping["Ebs"]["VolumeId"]])["Volumes"])
                # IOPS and throughput stay as written: moto does not keep those of a launch.
                root = {
                    "volumeType": volume["VolumeType"],
                    "volumeSize": volume["Size"],
                    "encrypted": volume["Encrypted"],
                    "deleteOnTermination": mapping["Ebs"]["DeleteOnTermination"],
                }
                return root, tag_map(volume.get("Tags", []))
        return None, None


def profile_not_known_yet(error: ClientError) -> bool:
    """Tell whether EC2 refused a new instance profile, which it knows only some seconds after IAM made it."""
    details = error.response["Error"]
    return details["Code"] == "InvalidParameterValue" and "Invalid IAM Instance Profile" in details["Message"]


RESOURCES: tuple[type[ResourceType], ...] = (Instance,)
