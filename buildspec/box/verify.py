"""After the bake: reads its statistics and digests, and fails a build that did not leave what it promised.

A compile cache that was not used, an image or a layer cache that is not in the registry: none of them makes
the bake itself fail. Layer caches are exported with ``ignore-error=true``, so that one that cannot be written
does not cost the image.

``python3 -m buildspec.box.verify`` runs after a failed bake as well; then it only records what there is.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from buildspec.box import bake, buildkit, stats
from buildspec.box import config as box
from buildspec.box.cache_probe import Patience, is_required
from buildspec.box.config import BoxConfig
from buildspec.box.registry import Reference, Registry, RegistryError, Scheme
from buildspec.box.registry_probe import UNREACHED
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


def promised(plan: Mapping[str, Any]) -> list[Reference]:
    """Return what a bake is to leave in registries: the pushed images and the layer caches, sorted.

    ``plan`` is what ``docker buildx bake --print`` says. A target that is only the input of another one is not
    pushed.

    Raises:
        RegistryError: a tag or cache without its registry.
    """
    found: set[str] = set()
    for target in plan["target"].values():
        outputs = target.get("output", [])
        if any(output["type"] == "registry" or output.get("push") == "true" for output in outputs):
            found |= set(target.get("tags", []))
        found |= {cache["ref"] for cache in target.get("cache-to", []) if cache["type"] == "registry"}
    return [Reference.parse(reference) for reference in sorted(found)]


def missing(references: Iterable[Reference], scheme: Scheme, patience: Patience) -> list[str]:
    """Return the references that their registry does not have, or could not be asked for.

    A registry that is not reached, or fails, is asked again while there is patience.
    """
    lost: list[str] = []
    for reference in references:
        while True:
            try:
                if not Registry(reference.host, scheme).has(reference):
                    lost.append(f"{reference} is not in the registry")
                break
            except (RegistryError, *UNREACHED) as error:
                if not patience.wait():
                    lost.append(f"{reference} could not be asked for: {error}")
                    break
    return lost


def _lines(path: Path) -> Iterator[str]:
    """Yield a log's lines; it may be too long to be held."""
    with path.open(encoding="utf-8") as log:
        for line in log:
            yield line.rstrip("\n")


def _plan(targets: tuple[str, ...]) -> Mapping[str, Any]:
    argv = bake.plan_command(Path.cwd(), targets)
    plan: Mapping[str, Any] = json.loads(subprocess.run(argv, stdout=subprocess.PIPE, check=True).stdout)
    return plan


def verify(config: BoxConfig, *, succeeding: bool) -> list[str]:
    """Record and print statistics and digests; return the promises that a succeeding build has broken.

    Raises:
        stats.StatsError: the log's statistics are not what they should be.
        DigestError: see :func:`digests`.
        RegistryError: see :func:`promised`.
        OSError: the log or the bake's metadata cannot be read.
        subprocess.CalledProcessError: the bake file cannot be read any more.
    """
    found = stats.read(_lines(box.LOG_FILE))
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
    exports = buildkit.failed_cache_exports(_lines(box.LOG_FILE))
    broken = [f"a layer cache was not exported: {export}" for export in exports]
    references = promised(_plan(config.targets))
    scheme: Scheme = "http" if config.bake_variables["REGISTRY_INSECURE"] == "true" else "https"
    broken += missing(references, scheme, Patience())
    print(f"registry: {len(references)} tags asked for")
    # An empty bucket is an unset one, for sccache as well: no cache on S3 was asked for.
    if config.bake_variables.get("SCCACHE_BUCKET"):
        unused = [f"the compile cache was asked for and not used: {why}" for why in stats.broken_promises(found)]
        warnings = [f"the compile cache has lost little: {loss}" for loss in stats.tolerated_losses(found)]
        (broken if is_required() else warnings).extend(unused)
        for warning in warnings:
            print(f"verify: warning: {warning}")
        state.update({"warnings": warnings})
    return broken


def main() -> int:
    """Verify this box's bake; the exit code is 1 when a succeeding build has broken a promise."""
    config = BoxConfig.load(box.CONFIG_FILE)
    try:
        broken = verify(config, succeeding=os.environ["CODEBUILD_BUILD_SUCCEEDING"] == "1")
    except (stats.StatsError, DigestError, RegistryError, OSError, subprocess.CalledProcessError) as error:
        print(f"verify: {error}")
        return 1
    for promise in broken:
        print(f"verify: {promise}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
