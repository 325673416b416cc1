"""Where a box can stand and what it must carry: decisions about EC2's answers, without asking EC2."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from infra.errors import RefusedError

# Model in EC2's name of a GPU, to the architecture that its compilers call it.
# https://rocm.docs.amd.com/en/latest/reference/gpu-arch-specs.html
GFX_BY_MODEL: Mapping[str, str] = {
    "V520": "gfx1011",
    "MI100": "gfx908",
    "MI210": "gfx90a",
    "MI250": "gfx90a",
    "MI250X": "gfx90a",
    "MI300A": "gfx942",
    "MI300X": "gfx942",
    "MI325X": "gfx942",
    "MI350X": "gfx950",
    "MI355X": "gfx950",
}

ARCHITECTURE = "x86_64"


class PlacementError(RefusedError):
    """The instance type cannot be used; the message says why and what can."""


@dataclass(frozen=True)
class Gpu:
    """A GPU as EC2 describes it."""

    manufacturer: str
    name: str

    @property
    def gfx(self) -> str | None:
        """The LLVM architecture, or None for a GPU that is not AMD's or not known here."""
        models = [GFX_BY_MODEL[word] for word in self.name.split() if word in GFX_BY_MODEL]
        return models[0] if self.manufacturer == "AMD" and models else None


def choose_zone(instance_type: str, offered: Collection[str], subnets: Collection[str], region: str) -> str:
    """Return the first zone by name that has a subnet and offers the type, so that the same one is chosen every time.

    Raises:
        PlacementError: no zone does both.
    """
    usable = sorted(set(offered) & set(subnets))
    if usable:
        return usable[0]
    if not offered:
        raise PlacementError(
            f"instanceType: {instance_type} is not offered in {region}.\n"
            f"  allowed: the types that `aws ec2 describe-instance-type-offerings --region {region}` lists\n"
            "  fix: set instanceType to one of these; Pulumi.yaml names some that fit a build"
        )
    raise PlacementError(
        f"instanceType: {instance_type} is offered in {', '.join(sorted(offered))}, "
        f"but the foundation has subnets in {', '.join(sorted(subnets))}.\n"
        "  fix: run `pulumi up` of the foundation, which makes a subnet in every zone that is available, or choose "
        "another type"
    )


def check_architecture(instance_type: str, architectures: Collection[str]) -> None:
    """Refuse a processor that cannot run the toolchain.

    Raises:
        PlacementError: the type is not x86-64.
    """
    if ARCHITECTURE not in architectures:
        raise PlacementError(
            f"instanceType: {instance_type} has {', '.join(sorted(architectures))} processors.\n"
            f"  allowed: {ARCHITECTURE}, the only one that AMD publishes the ROCm toolchain for\n"
            "  fix: choose another type, such as m7a.8xlarge"
        )


def check_gpu(instance_type: str, gpus: Sequence[Gpu], wanted: Sequence[str]) -> None:
    """Refuse a type without a GPU of one of the architectures `wanted`.

    Raises:
        PlacementError: the type has no GPU, or others only.
    """
    if any(gpu.gfx in wanted for gpu in gpus):
        return
    carries = ", ".join(f"{gpu.manufacturer} {gpu.name} ({gpu.gfx or 'architecture not known'})" for gpu in gpus)
    raise PlacementError(
        f"requireGpu: {instance_type} carries {carries or 'no GPU'}, and the build is for {';'.join(wanted)}.\n"
        f"  allowed: a type with an AMD GPU of {' or '.join(wanted)}\n"
        "  fix: the build cross-compiles and needs no GPU: `pulumi config rm requireGpu`"
    )
