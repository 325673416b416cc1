"""S3."""

# `ResourceType` says once what the operations of a type do and are given; its name says what it is.
# ruff: noqa: ARG002, D101, D102

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlencode

from botocore.exceptions import ClientError

from rehearsal.provider.aws import from_aws, tag_list, tag_map, to_aws
from rehearsal.provider.errors import ProviderError
from rehearsal.provider.resource import (
    TAGS,
    Property,
    ResourceType,
    kept_in_state,
    same_json,
)
from rehearsal.provider.wire import Properties

NO_SUCH_BUCKET = frozenset({"NoSuchBucket", "404"})
"""``404`` is what a HEAD request gives, whose answer has no body."""


class Bucket(ResourceType):
    name = "aws:s3/bucket:Bucket"
    not_found = NO_SUCH_BUCKET
    inputs: ClassVar = {
        "bucket": Property(required=True, replaces=True),
        "forceDestroy": Property(default=False, update=kept_in_state),
        "tags": TAGS,
    }
    outputs = frozenset({"arn", "bucketDomainName", "bucketRegionalDomainName", "region"})

    def create(self, new: Properties) -> str:
        name: str = new["bucket"]
        s3, region = self.aws.s3, self.aws.region
        if self._exists(name):
            # us-east-1 answers 200 for a bucket that the account has already, which would then have two owners here.
            raise ProviderError(f"BucketAlreadyExists: the bucket {name} exists; delete it or choose another name")
        if region == "us-east-1":
            s3.create_bucket(Bucket=name)
        else:
            where: Any = {"LocationConstraint": region}
            s3.create_bucket(Bucket=name, CreateBucketConfiguration=where)
        return name

    def settle(self, resource_id: str, new: Properties) -> None:
        if new["tags"]:
            self.tag(resource_id, new["tags"])

    def read(self, resource_id: str, known: Properties) -> Properties:
        self.aws.s3.head_bucket(Bucket=resource_id)
        region = self.aws.region
        return {
            "bucket": resource_id,
            "tags": self._tags(resource_id),
            "arn": f"arn:aws:s3:::{resource_id}",
            "bucketDomainName": f"{resource_id}.s3.amazonaws.com",
            "bucketRegionalDomainName": f"{resource_id}.s3.{region}.amazonaws.com",
            "region": region,
        }

    def delete(self, resource_id: str, old: Properties) -> None:
        if old["forceDestroy"]:
            self._empty(resource_id)
        self.aws.s3.delete_bucket(Bucket=resource_id)

    def tag(self, resource_id: str, tags: Mapping[str, str]) -> None:
        self._put_tags(resource_id, self._tags(resource_id) | dict(tags))

    def untag(self, resource_id: str, keys: list[str]) -> None:
        self._put_tags(resource_id, {key: value for key, value in self._tags(resource_id).items() if key not in keys})

    def _exists(self, name: str) -> bool:
        try:
            self.aws.s3.head_bucket(Bucket=name)
        except ClientError as error:
            if error.response["Error"]["Code"] in self.not_found:
                return False
            raise
        return True

    def _tags(self, name: str) -> dict[str, str]:
        try:
            return tag_map(self.aws.s3.get_bucket_tagging(Bucket=name)["TagSet"])
        except ClientError as error:
            if error.response["Error"]["Code"] == "NoSuchTagSet":
                return {}
            raise

    def _put_tags(self, name: str, tags: Mapping[str, str]) -> None:
        # There is no call for one tag.
        if tags:
            self.aws.s3.put_bucket_tagging(Bucket=name, Tagging={"TagSet": tag_list(tags)})
        else:
            self.aws.s3.delete_bucket_tagging(Bucket=name)

    def _empty(self, name: str) -> None:
        for page in self.aws.s3.get_paginator("list_object_versions").paginate(Bucket=name):
            versions: list[Any] = [*page.get("Versions", []), *page.get("DeleteMarkers", [])]
            objects: list[Any] = [{"Key": item["Key"], "VersionId": item["VersionId"]} for item in versions]
            if objects:
                answer = self.aws.s3.delete_objects(Bucket=name, Delete={"Objects": objects, "Quiet": True})
                for error in answer.get("Errors", []):  # this call answers 200 even if it deletes nothing
                    raise ProviderError(f"{error['Code']}: {error['Key']} in {name}: {error['Message']}")


class BucketSetting(ResourceType):
    """A part of a bucket's configuration, which is written and read whole; its id is the bucket's name."""

    def update(self, _id: str, _old: Properties, new: Properties) -> None:
        self.put(new)

    def create(self, new: Properties) -> str:
        self.put(new)
        return str(new["bucket"])

    def put(self, new: Properties) -> None:
        """Write the setting."""
        raise NotImplementedError


BUCKET = Property(required=True, replaces=True)


class BucketPublicAccessBlock(BucketSetting):
    name = "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock"
    not_found = NO_SUCH_BUCKET | {"NoSuchPublicAccessBlockConfiguration"}
    inputs: ClassVar = {
        "bucket": BUCKET,
        "blockPublicAcls": Property(default=False, update=BucketSetting.update),
        "blockPublicPolicy": Property(default=False, update=BucketSetting.update),
        "ignorePublicAcls": Property(default=False, update=BucketSetting.update),
        "restrictPublicBuckets": Property(default=False, update=BucketSetting.update),
    }

    def put(self, new: Properties) -> None:
        block = to_aws({name: value for name, value in new.items() if name != "bucket"})
        self.aws.s3.put_public_access_block(Bucket=new["bucket"], PublicAccessBlockConfiguration=block)

    def read(self, resource_id: str, known: Properties) -> Properties:
        answer = self.aws.s3.get_public_access_block(Bucket=resource_id)["PublicAccessBlockConfiguration"]
        return {"bucket": resource_id, **from_aws(answer)}

    def delete(self, resource_id: str, old: Properties) -> None:
        self.aws.s3.delete_public_access_block(Bucket=resource_id)


class BucketOwnershipControls(BucketSetting):
    name = "aws:s3/bucketOwnershipControls:BucketOwnershipControls"
    not_found = NO_SUCH_BUCKET | {"OwnershipControlsNotFoundError"}
    inputs: ClassVar = {
        "bucket": BUCKET,
        "rule": Property(
            required=True, update=BucketSetting.update, fields={"objectOwnership": Property(required=True)}
        ),
    }

    def put(self, new: Properties) -> None:
        controls: Any = {"Rules": [to_aws(new["rule"])]}
        self.aws.s3.put_bucket_ownership_controls(Bucket=new["bucket"], OwnershipControls=controls)

    def read(self, resource_id: str, known: Properties) -> Properties:
        controls = self.aws.s3.get_bucket_ownership_controls(Bucket=resource_id)["OwnershipControls"]
        return {"bucket": resource_id, "rule": from_aws(controls["Rules"][0])}

    def delete(self, resource_id: str, old: Properties) -> None:
        self.aws.s3.delete_bucket_ownership_controls(Bucket=resource_id)


class BucketServerSideEncryptionConfiguration(BucketSetting):
    name = "aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration"
    not_found = NO_SUCH_BUCKET | {"ServerSideEncryptionConfigurationNotFoundError"}
    inputs: ClassVar = {
        "bucket": BUCKET,
        "rules": Property(
            required=True,
            update=BucketSetting.update,
            fields={
                "applyServerSideEncryptionByDefault": Property(
                    required=True, fields={"sseAlgorithm": Property(required=True)}
                ),
            },
        ),
    }

    def put(self, new: Properties) -> None:
        configuration: Any = {"Rules": to_aws(new["rules"])}
        self.aws.s3.put_bucket_encryption(Bucket=new["bucket"], ServerSideEncryptionConfiguration=configuration)

    def read(self, resource_id: str, known: Properties) -> Properties:
        answer = self.aws.s3.get_bucket_encryption(Bucket=resource_id)["ServerSideEncryptionConfiguration"]
        return {"bucket": resource_id, "rules": from_aws(answer["Rules"])}

    def delete(self, resource_id: str, old: Properties) -> None:
        self.aws.s3.delete_bucket_encryption(Bucket=resource_id)


class BucketPolicy(BucketSetting):
    name = "aws:s3/bucketPolicy:BucketPolicy"
    not_found = NO_SUCH_BUCKET | {"NoSuchBucketPolicy"}
    inputs: ClassVar = {
        "bucket": BUCKET,
        "policy": Property(required=True, same=same_json, update=BucketSetting.update),
    }

    def put(self, new: Properties) -> None:
        self.aws.s3.put_bucket_policy(Bucket=new["bucket"], Policy=new["policy"])

    def read(self, resource_id: str, known: Properties) -> Properties:
        return {"bucket": resource_id, "policy": self.aws.s3.get_bucket_policy(Bucket=resource_id)["Policy"]}

    def delete(self, resource_id: str, old: Properties) -> None:
        self.aws.s3.delete_bucket_policy(Bucket=resource_id)


class BucketLifecycleConfiguration(BucketSetting):
    name = "aws:s3/bucketLifecycleConfiguration:BucketLifecycleConfiguration"
    not_found = NO_SUCH_BUCKET | {"NoSuchLifecycleConfiguration"}
    inputs: ClassVar = {
        "bucket": BUCKET,
        "rules": Property(
            required=True,
            update=BucketSetting.update,
            fields={
                "id": Property(required=True),
                "status": Property(required=True),
                "filter": Property(required=True, fields={"prefix": Property(required=True)}),
                "expiration": Property(fields={"days": Property(required=True)}),
                "abortIncompleteMultipartUpload": Property(fields={"daysAfterInitiation": Property(required=True)}),
            },
        ),
    }

    def put(self, new: Properties) -> None:
        configuration: Any = {"Rules": to_aws(new["rules"])}
        self.aws.s3.put_bucket_lifecycle_configuration(Bucket=new["bucket"], LifecycleConfiguration=configuration)

    def read(self, resource_id: str, known: Properties) -> Properties:
        return {
            "bucket": resource_id,
            "rules": from_aws(self.aws.s3.get_bucket_lifecycle_configuration(Bucket=resource_id)["Rules"]),
        }

    def delete(self, resource_id: str, old: Properties) -> None:
        self.aws.s3.delete_bucket_lifecycle(Bucket=resource_id)


def same_content(old: Mapping[str, str], new: Mapping[str, str]) -> bool:
    """Compare two assets by the hash of their content, which the engine computes: the path may differ."""
    return old["hash"] == new["hash"]


class BucketObjectv2(ResourceType):
    """An object whose content is a file."""

    def put(self, _id: str, _old: Properties, new: Properties) -> None:
        content = Path(new["source"]["path"]).read_bytes()
        self.aws.s3.put_object(
            Bucket=new["bucket"],
            Key=new["key"],
            Body=content,
            ContentType=new["contentType"],
            # Writing an object again drops its tags.
            Tagging=urlencode(new["tags"]),
        )

    name = "aws:s3/bucketObjectv2:BucketObjectv2"
    not_found = NO_SUCH_BUCKET | {"NoSuchKey"}
    inputs: ClassVar = {
        "bucket": Property(required=True, replaces=True),
        "key": Property(required=True, replaces=True),
        "source": Property(required=True, same=same_content, update=put),
        "contentType": Property(default="application/octet-stream", update=put),
        "tags": TAGS,
    }
    outputs = frozenset({"arn", "etag"})

    def check(self, inputs: Properties) -> Any:
        yield from super().check(inputs)
        source = inputs.get("source")
        if isinstance(source, dict) and "path" not in source:
            yield "source", f"{self.name}: the stand-in implements a pulumi.FileAsset only"

    def create(self, new: Properties) -> str:
        self.put("", {}, new)
        return f"{new['bucket']}/{new['key']}"

    def read(self, resource_id: str, known: Properties) -> Properties:
        bucket, _, key = resource_id.partition("/")
        found = self.aws.s3.head_object(Bucket=bucket, Key=key)
        return {
            "bucket": bucket,
            "key": key,
            "contentType": found["ContentType"],
            "tags": self._tags(bucket, key),
            "arn": f"arn:aws:s3:::{resource_id}",
            "etag": found["ETag"].strip('"'),
        }

    def delete(self, resource_id: str, old: Properties) -> None:
        self.aws.s3.delete_object(Bucket=old["bucket"], Key=old["key"])

    def tag(self, resource_id: str, tags: Mapping[str, str]) -> None:
        bucket, _, key = resource_id.partition("/")
        self._put_tags(bucket, key, self._tags(bucket, key) | dict(tags))

    def untag(self, resource_id: str, keys: list[str]) -> None:
        bucket, _, key = resource_id.partition("/")
        kept = {name: value for name, value in self._tags(bucket, key).items() if name not in keys}
        self._put_tags(bucket, key, kept)

    def _tags(self, bucket: str, key: str) -> dict[str, str]:
        return tag_map(self.aws.s3.get_object_tagging(Bucket=bucket, Key=key)["TagSet"])

    def _put_tags(self, bucket: str, key: str, tags: Mapping[str, str]) -> None:
        self.aws.s3.put_object_tagging(Bucket=bucket, Key=key, Tagging={"TagSet": tag_list(tags)})


RESOURCES: tuple[type[ResourceType], ...] = (
    Bucket,
    BucketPublicAccessBlock,
    BucketOwnershipControls,
    BucketServerSideEncryptionConfiguration,
    BucketPolicy,
    BucketLifecycleConfiguration,
    BucketObjectv2,
)
