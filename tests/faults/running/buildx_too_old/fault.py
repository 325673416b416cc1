"""buildx is the one of Debian 13, which has no variables with a validation."""

from __future__ import annotations

import json

from buildspec.box.status import BuildStatus
from tests.boxes import KeptBox
from tests.builds import other_buildx

METADATA = json.dumps({"SchemaVersion": "0.1.0", "Vendor": "Docker Inc.", "ShortDescription": "Builds"})
VERSION = "github.com/docker/buildx 0.13.1+ds1 0.13.1+ds1-3"
BUILDX = f"#!/bin/sh\ncase $1 in docker-cli-plugin-metadata) echo '{METADATA}' ;; *) echo '{VERSION}' ;; esac\n"


def build(kept: KeptBox) -> BuildStatus:
    with other_buildx(kept, BUILDX):
        return kept.build()
