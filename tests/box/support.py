"""What several tests of the box's parts need."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TypedDict

import boto3
import requests

from buildspec.box.config import BoxConfig, BuildContext

INSTANCE = "i-0123456789abcdef0"
BUCKET = "cache-bucket"
ROLE = "arn:aws:iam::123456789012:role/rocm-build-box/rocm-build-box-prod-cache"
SESSION_POLICY = {
    "Version": "2012-10-17",
    "Statement": [{"Sid": "All", "Effect": "Allow", "Action": ["s3:GetObject"], "Resource": ["*"]}],
}


def box_config(**changes: Any) -> BoxConfig:
    """A box's configuration, with the given fields changed."""
    fields: dict[str, Any] = {
        "stack": "dev",
        "region": "us-east-1",
        "bucket": BUCKET,
        "cache_prefix": "rocm-pytorch",
        "context": BuildContext("contexts/0000.tar.gz", "0" * 64),
        "cache_role_arn": ROLE,
        "session_policy": SESSION_POLICY,
        "log_group": "/rocm-build-box/prod",
        "targets": ("cache-probe",),
        "bake_variables": {"REGISTRY": "registry.example", "REGISTRY_INSECURE": "false", "SCCACHE_BUCKET": BUCKET},
        "keep_box": False,
        "max_lifetime_hours": 12,
    }
    return BoxConfig(**{**fields, **changes})


def sccache_stats(**counts: int) -> dict[str, Any]:
    """What ``sccache --show-stats --stats-format=json`` of sccache 0.19.0 prints, with the given counts."""

    def per_language(name: str) -> dict[str, dict[str, int]]:
        count = counts.get(name, 0)
        return {
            "counts": {"C/C++": count} if count else {},
            "adv_counts": {"c [gcc]": count} if count else {},
        }

    numbers = [
        "compile_requests",
        "requests_unsupported_compiler",
        "requests_not_compile",
        "requests_not_cacheable",
        "requests_executed",
        "cache_timeouts",
        "cache_read_errors",
        "non_cacheable_compilations",
        "forced_recaches",
        "cache_write_errors",
        "cache_writes",
        "compilations",
        "compile_fails",
        "dist_errors",
    ]
    return {
        "stats": {
            **{name: counts.get(name, 0) for name in numbers},
            **{name: per_language(name) for name in ("cache_errors", "cache_hits", "cache_misses")},
            "not_cached": {},
            "dist_compiles": {},
        },
        "cache_location": "S3, name: rocm-pytorch, prefix: /rocm-pytorch/",
        "version": "0.19.0",
    }


def stats_line(step: str, seconds: float, **counts: int) -> str:
    """The line that a compile step prints at its end."""
    return "rocm-build-stats: " + json.dumps({"step": step, "seconds": seconds, "sccache": sccache_stats(**counts)})


def executable(path: Path, text: str) -> Path:
    """Writes a program."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


class Keys(TypedDict):
    """What a boto3 client takes."""

    aws_access_key_id: str
    aws_secret_access_key: str


def policy(allowed: dict[str, str]) -> str:
    """A policy of these actions on these resources."""
    return json.dumps(
        {
            "Version": "2012-10-17",
            "Statement": [
                {"Effect": "Allow", "Action": action, "Resource": resource} for action, resource in allowed.items()
            ],
        }
    )


def user(name: str, allowed: dict[str, str]) -> Keys:
    """A new user's keys."""
    iam = boto3.client("iam", region_name="us-east-1")
    iam.create_user(UserName=name)
    iam.put_user_policy(UserName=name, PolicyName="cache", PolicyDocument=policy(allowed))
    key = iam.create_access_key(UserName=name)["AccessKey"]
    return {"aws_access_key_id": key["AccessKeyId"], "aws_secret_access_key": key["SecretAccessKey"]}


def reset_auth(endpoint: str, requests_without: str) -> None:
    """moto enforces IAM policies after so many requests more; "Infinity" is never."""
    headers = {"Content-Type": "text/plain"}
    answer = requests.post(f"{endpoint}/moto-api/reset-auth", data=requests_without, headers=headers, timeout=10)
    answer.raise_for_status()
