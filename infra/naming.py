"""Every name the program gives to something in AWS, in one pure module.

The IAM documents are built from these names alone, so they hold no value that AWS decides and a reviewer sees
them whole in a preview.
"""

from __future__ import annotations

import hashlib
import string
from dataclasses import dataclass

PROJECT = "rocm-build-box"

# Top-level folders of the bucket that are not the cache. The cache role may write anything under the cache
# prefix, so a prefix equal to one of these, or under it, would let a build replace what the next box runs, or
# forge a status.
CONTEXTS = "contexts"
BUILDS = "builds"
RESERVED_FOLDERS = (BUILDS, CONTEXTS)

VPC_CIDR = "10.64.0.0/16"

# https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html
BUCKET_NAME_LIMIT = 63
# https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html
ROLE_NAME_LIMIT = 64
# https://docs.aws.amazon.com/AmazonECR/latest/APIReference/API_CreateRepository.html
REPOSITORY_NAME_LIMIT = 256

_DIGEST_LENGTH = 8


def shortened(name: str, limit: int) -> str:
    """Return `name`, or, when it is longer than `limit` characters, its beginning and a digest of the whole.

    The digest keeps two long names apart that begin alike; cutting alone would make their stacks share a
    bucket.
    """
    if len(name) <= limit:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:_DIGEST_LENGTH]
    return f"{name[: limit - _DIGEST_LENGTH - 1].rstrip('-.')}-{digest}"


def _slug(stack: str) -> str:
    """Return the stack's name with what S3 and ECR refuse (capitals, underscores, dots) replaced.

    A Pulumi stack name may hold letters, digits, hyphens, underscores and full stops. A name that had to be
    changed gets a digest of the original, so that `Dev` and `dev` do not become one bucket.
    """
    allowed = string.ascii_lowercase + string.digits
    slug = "-".join(part for part in "".join(c if c in allowed else "-" for c in stack.lower()).split("-") if part)
    if slug == stack:
        return slug
    digest = hashlib.sha256(stack.encode()).hexdigest()[:_DIGEST_LENGTH]
    return f"{slug}-{digest}" if slug else digest


def subnet_cidr(zone: str) -> str:
    """Return the /20 of VPC_CIDR that belongs to an availability zone such as `us-east-1a`.

    The number comes from the zone's letter and not from its place in the list: a zone that AWS adds or
    withdraws must not renumber, and so replace, the subnets of the others. A /16 has sixteen /20, for zones
    `a` to `p`.

    Raises:
        ValueError: the zone's name does not end in a letter from `a` to `p`.
    """
    number = string.ascii_lowercase.find(zone[-1:]) if zone else -1
    if not 0 <= number < 16:
        raise ValueError(f"availability zone {zone!r}: expected a name that ends in a letter from a to p")
    return f"10.64.{number * 16}.0/20"


@dataclass(frozen=True)
class Names:
    """Names and ARNs of one foundation stack, in the partition `aws`."""

    stack: str
    account: str
    region: str

    @property
    def bucket(self) -> str:
        """S3 bucket, at most 63 characters; account and region make it globally unique."""
        return shortened(f"{PROJECT}-{_slug(self.stack)}-{self.account}-{self.region}", BUCKET_NAME_LIMIT)

    @property
    def bucket_arn(self) -> str:
        """ARN of the bucket."""
        return f"arn:aws:s3:::{self.bucket}"

    @property
    def role_path(self) -> str:
        """IAM path of both roles and of the instance profile."""
        return f"/{PROJECT}/"

    @property
    def box_role(self) -> str:
        """The box's role and its instance profile, at most 64 characters."""
        return shortened(f"{PROJECT}-{self.stack}-box", ROLE_NAME_LIMIT)

    @property
    def box_role_arn(self) -> str:
        """ARN of the box's role."""
        return f"arn:aws:iam::{self.account}:role{self.role_path}{self.box_role}"

    @property
    def cache_role(self) -> str:
        """The role whose credentials a build step gets, at most 64 characters."""
        return shortened(f"{PROJECT}-{self.stack}-cache", ROLE_NAME_LIMIT)

    @property
    def cache_role_arn(self) -> str:
        """ARN of the cache role."""
        return f"arn:aws:iam::{self.account}:role{self.role_path}{self.cache_role}"

    @property
    def registry(self) -> str:
        """Host name of the account's ECR registry."""
        return f"{self.account}.dkr.ecr.{self.region}.amazonaws.com"

    @property
    def repository(self) -> str:
        """ECR repository, at most 256 characters."""
        return shortened(f"{PROJECT}/{_slug(self.stack)}", REPOSITORY_NAME_LIMIT)

    @property
    def repository_arn(self) -> str:
        """ARN of the ECR repository."""
        return f"arn:aws:ecr:{self.region}:{self.account}:repository/{self.repository}"

    @property
    def repository_url(self) -> str:
        """What an image tag of the repository begins with."""
        return f"{self.registry}/{self.repository}"

    @property
    def log_group(self) -> str:
        """CloudWatch log group of the builds."""
        return f"/{PROJECT}/{self.stack}"

    @property
    def log_group_arn(self) -> str:
        """ARN of the log group, without the `:*` that policies add."""
        return f"arn:aws:logs:{self.region}:{self.account}:log-group:{self.log_group}"


def tags(stack: str, name: str) -> dict[str, str]:
    """Return the tags of a resource. `Project` and `Stack` together find everything that a stack made."""
    return {"Project": PROJECT, "Stack": stack, "Name": f"{PROJECT}-{stack}-{name}"}


def context_key(stack: str, sha256: str) -> str:
    """Return the key of a build context in the bucket.

    The box stack is part of it: two stacks of the same working tree would otherwise own one object, and
    destroying the first would take it away from the second, whose box may still be booting.
    """
    return f"{CONTEXTS}/{stack}/{sha256}.tar.gz"


def build_folder(stack: str, instance_id: str) -> str:
    """Return the folder, without a trailing slash, that holds a build's `status.json` and `build.log`."""
    return f"{BUILDS}/{stack}/{instance_id}"
