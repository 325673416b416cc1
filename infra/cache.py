"""The bucket: compile cache, build contexts, and what builds leave behind."""

from __future__ import annotations

import pulumi
import pulumi_aws as aws

from infra import iam
from infra.naming import BUILDS, CONTEXTS, Names, tags

# Days after which S3 removes an object, counted from when it was written. sccache never deletes and a hit
# does not renew an object, so for the cache this is the one bound on its size, and the longest that a result
# can be used: an unchanged source file is compiled again once in this time.
CACHE_DAYS = 60
# A box fetches its context in its first minute.
CONTEXT_DAYS = 14
BUILD_DAYS = 180
# An upload that broke off is charged for, and no listing shows it.
BROKEN_UPLOAD_DAYS = 1


class Cache(pulumi.ComponentResource):
    """A private, encrypted bucket that answers over TLS only and forgets old objects.

    Args:
        prefix: folder of the compile cache.
        force_destroy: let `pulumi destroy` remove the bucket with all it holds; otherwise it has to be empty.
    """

    def __init__(
        self,
        name: str,
        *,
        names: Names,
        prefix: str,
        force_destroy: bool,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("rocm-build-box:infra:Cache", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        bucket = aws.s3.Bucket(
            name,
            bucket=names.bucket,
            force_destroy=force_destroy,
            tags=tags(names.stack, name),
            opts=child,
        )
        block = aws.s3.BucketPublicAccessBlock(
            name,
            bucket=bucket.id,
            block_public_acls=True,
            block_public_policy=True,
            ignore_public_acls=True,
            restrict_public_buckets=True,
            opts=child,
        )
        aws.s3.BucketOwnershipControls(
            name,
            bucket=bucket.id,
            rule=aws.s3.BucketOwnershipControlsRuleArgs(object_ownership="BucketOwnerEnforced"),
            opts=child,
        )
        default = aws.s3.BucketServerSideEncryptionConfigurationRuleApplyServerSideEncryptionByDefaultArgs(
            sse_algorithm="AES256"
        )
        aws.s3.BucketServerSideEncryptionConfiguration(
            name,
            bucket=bucket.id,
            rules=[
                aws.s3.BucketServerSideEncryptionConfigurationRuleArgs(apply_server_side_encryption_by_default=default)
            ],
            opts=child,
        )
        aws.s3.BucketPolicy(
            name,
            bucket=bucket.id,
            policy=iam.render(iam.bucket_policy(names)),
            # S3 answers a policy that is put while the public access block is being put with 409
            # OperationAborted.
            opts=pulumi.ResourceOptions(parent=self, depends_on=[block]),
        )
        aws.s3.BucketLifecycleConfiguration(
            name,
            bucket=bucket.id,
            rules=[
                _expire("cache", f"{prefix}/", CACHE_DAYS),
                _expire("contexts", f"{CONTEXTS}/", CONTEXT_DAYS),
                _expire("builds", f"{BUILDS}/", BUILD_DAYS),
                aws.s3.BucketLifecycleConfigurationRuleArgs(
                    id="broken-uploads",
                    status="Enabled",
                    filter=aws.s3.BucketLifecycleConfigurationRuleFilterArgs(prefix=""),
                    abort_incomplete_multipart_upload=aws.s3.BucketLifecycleConfigurationRuleAbortIncompleteMultipartUploadArgs(
                        days_after_initiation=BROKEN_UPLOAD_DAYS
                    ),
                ),
            ],
            opts=child,
        )
        self.register_outputs({})


def _expire(rule: str, prefix: str, days: int) -> aws.s3.BucketLifecycleConfigurationRuleArgs:
    return aws.s3.BucketLifecycleConfigurationRuleArgs(
        id=rule,
        status="Enabled",
        filter=aws.s3.BucketLifecycleConfigurationRuleFilterArgs(prefix=prefix),
        expiration=aws.s3.BucketLifecycleConfigurationRuleExpirationArgs(days=days),
    )
