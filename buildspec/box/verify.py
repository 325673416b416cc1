"""After the bake: reads its statistics and digests, and fails a build whose compile cache was not used.

``python3 -m buildspec.box.verify`` runs after a failed bake as well; then it only records what there is.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from buildspec.box import config as box
from buildspec.box import stats
from buildspec.box.config import BoxConfig
from buildspec.box.status import StatusFile


class DigestError(ValueError):
    """The bake's metadata file lacks a target's digest."""


def digests(metadata: Mapping[str, Any], targets: tuple[str, ...]) -> dict[str, str]:
    """Each target's image digest, from what ``docker buildx bake --metadata-file`` wrote.

    Raises:
        DigestError: a target without a digest, so without a pushed image.
    """
    missing = [target for target in targets if "containerimage.digest" not in metadata.get(target, {})]
    if missing:
        raise DigestError(f"no image was pushed for {missing}; the bake's metadata has {sorted(metadata)}")
    return {target: str(metadata[target]["containerimage.digest"]) for target in targets}


def read_log(path: Path) -> stats.BakeStats:
    """Return the statistics in the build's log."""
    with path.open(encoding="utf-8") as log:
        return stats.read(line.rstrip("\n") for line in log)


def verify(config: BoxConfig, *, succeeding: bool) -> list[str]:
    """Record and print statistics and digests; return the promises that a succeeding build has broken.

    Raises:
        stats.StatsError: the log's statistics are not what they should be.
        DigestError: see :func:`digests`.
        OSError: the log or the bake's metadata cannot be read.
    """
    found = read_log(box.LOG_FILE)
    cache = found.cache
    print(
        f"compile cache: {len(cache['steps'])} steps, {cache['requests']} requests, {cache['hits']} hits, "
        f"{cache['misses']} misses, {cache['errors']} errors, {cache['writeErrors']} write errors, "
        f"{found.writes} written, {cache['compileSeconds']} s"
    )
    state = StatusFile(box.STATE_FILE)
    state.update({"cache": cache})
    if not succeeding:
        return []
    images = digests(json.loads(box.METADATA_FILE.read_text(encoding="utf-8")), config.targets)
    state.update({"images": images})
    for target, digest in images.items():
        print(f"image: {target} {digest}")
    # An empty bucket is an unset one, for sccache as well: no cache on S3 was asked for.
    if not config.bake_variables.get("SCCACHE_BUCKET"):
        return []
    return stats.broken_promises(found)


def main() -> int:
    """Verify this box's bake; the exit code is 1 when a succeeding build has broken a promise."""
    config = BoxConfig.load(box.CONFIG_FILE)
    try:
        broken = verify(config, succeeding=os.environ["CODEBUILD_BUILD_SUCCEEDING"] == "1")
    except (stats.StatsError, DigestError, OSError) as error:
        print(f"verify: {error}")
        return 1
    for promise in broken:
        print(f"the compile cache was asked for and not used: {promise}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
