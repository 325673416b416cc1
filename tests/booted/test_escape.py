"""What a hostile build step gets: a real RUN, with all that BuildKit gives it, tries every way out to what is planted.

What this does not prove: that no other way exists.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from rehearsal import leaks
from tests.boxes import KeptBox, until
from tests.builds import bake_of, forget_session, is_in, sessions_of, slow_compile

HERE = Path(__file__).parent / "escape"
METADATA = "169.254.169.254"
METADATA_IPV6 = "fd00:ec2::254"
BRIDGE = "172.17.0.1"
SERVICE = "7788"
PORT = "18080"
PLANTED_UNIT = "planted.service"
BY_ADDRESS = ("connect", "connect32", "raw", "packet")


@dataclass(frozen=True)
class Planted:
    """The word that the box's host says at its port and on its wires, and where."""

    word: str
    own_address: str
    link_local: str
    """The bridge's IPv6 address, which exists without any IPv6 network."""

    def targets(self) -> list[str]:
        hosts = {METADATA: "80", METADATA_IPV6: "80", BRIDGE: PORT, self.own_address: PORT, "127.0.0.1": PORT}
        return [f"{host} {port}" for host, port in {**hosts, f"{self.link_local}%eth0": PORT}.items()]

    def step(self, before: str = "true") -> str:
        """Dockerfile lines that try everything; the allowed port first, which makes the gateway known."""
        tries = [f"/probe {way} {BRIDGE} {SERVICE}" for way in BY_ADDRESS]
        for target in self.targets():
            # Side by side: most of them wait for an answer in vain.
            tries += [f"/probe {way} {target} &" for way in ("connect", "connect32")]
            # One after the other: each would hear the other's answer.
            tries.append(f"(/probe raw {target}; /probe packet {target}) &")
        script = "\n".join([before, "cc -o /probe /probe.c", *tries, "wait", "/probe sniff 6"])
        probe = (HERE / "probe.c").read_text()
        # Nobody listens for what the step itself says meanwhile; that it is heard shows that the ear works.
        own = f"(sleep 1; exec 3<>/dev/tcp/{BRIDGE}/{SERVICE}; echo planted-by-myself >&3) &\n"
        script = script.replace("/probe sniff", f"{own}/probe sniff")
        return f"COPY <<'end' /probe.c\n{probe}end\nCOPY <<'end' /escape\n{script}\nend\nRUN bash -e /escape"


@pytest.fixture(scope="module")
def planted(kept: KeptBox) -> Iterator[Planted]:
    word = f"planted-{secrets.token_hex(8)}"
    address = kept.machine.address
    kept.machine.write("/root/planted.py", (HERE / "planted.py").read_text())
    kept.run("ip", "address", "add", f"{METADATA_IPV6}/128", "dev", "lo", "nodad")
    kept.run(
        *("systemd-run", "--unit", PLANTED_UNIT.removesuffix(".service"), "--property=Restart=on-failure"),
        *("python3", "/root/planted.py", word, PORT, address),
    )
    shown = kept.run("ip", "-6", "-oneline", "address", "show", "dev", "docker0", "scope", "link")
    found = re.search(r"inet6 (fe80:\S+)/64", shown)
    assert found is not None, shown
    yield Planted(word, address, found[1])
    kept.run("systemctl", "stop", PLANTED_UNIT)
    kept.run("ip", "address", "del", f"{METADATA_IPV6}/128", "dev", "lo")


def findings(kept: KeptBox) -> dict[str, str]:
    """What each try of the step has said."""
    log = kept.job.log_of(kept.outputs)
    return dict(re.findall(r"^#\d+ \S+ probe: ((?:sniff|\S+ \S+) \d+): (.*)$", log, re.MULTILINE))


def tries(planted: Planted) -> set[str]:
    targets = [f"{BRIDGE} {SERVICE}", *planted.targets()]
    return {*(f"{way} {target}" for target in targets for way in BY_ADDRESS), "sniff 6"}


def test_the_host_hears_what_is_planted(kept: KeptBox, planted: Planted) -> None:
    """What the step is not to find is there."""
    hosts = [(METADATA_IPV6, "80"), (BRIDGE, PORT), (planted.own_address, PORT), ("127.0.0.1", PORT)]
    for host, port in hosts:
        until(f"the word at {host}", partial(hears, kept, f"exec 3<>/dev/tcp/{host}/{port}; cat <&3", planted.word))


def hears(kept: KeptBox, script: str, word: str) -> bool:
    return kept.machine.execute(["timeout", "3", "bash", "-c", script]).stdout == word


@pytest.mark.parametrize("when", ["as it booted", "after Docker has restarted"])
def test_a_step_finds_nothing_that_is_planted(kept: KeptBox, planted: Planted, when: str) -> None:
    if when == "after Docker has restarted":
        kept.run("systemctl", "restart", "docker.service")
    with bake_of(kept, planted.step()):
        status = kept.build()
    assert (status["state"], status["failingStep"]) == ("succeeded", None)
    found = findings(kept)
    assert found.keys() == tries(planted)
    # The allowed port shows that each way works at all; without the build's token it says no.
    allowed = {way: found.pop(f"{way} {BRIDGE} {SERVICE}") for way in BY_ADDRESS}
    assert allowed.pop("raw") == allowed.pop("packet") == "open: it answers"
    assert {answer.partition("  ")[0] for answer in allowed.values()} == {"open: HTTP/1.0 404 Not Found"}
    overheard = found.pop("sniff 6")
    assert overheard.endswith(" packets")
    assert set(re.findall(r"seen: (\S+)", overheard)) == {"planted-by-myself"}
    assert [f"{tried}: {said}" for tried, said in found.items() if said.startswith("open")] == []
    log = kept.job.log_of(kept.outputs)
    assert planted.word not in log
    issued = leaks.issued_secrets(kept.job.region)
    assert [kind for secret, kind in issued.items() if secret in log] == []


def test_without_the_firewall_the_step_finds_the_word(kept: KeptBox, planted: Planted) -> None:
    """The other way round: it is the firewall that keeps it in."""
    with bake_of(kept, planted.step(before="sleep 8")):
        kept.start_build()
        # The canary, which would find it out, has run by then.
        until("the bake", lambda: is_in(kept, "build"))
        kept.run("nft", "delete", "table", "inet", "rocm_build_box")
        try:
            status = kept.wait_for_build()
        finally:
            kept.run("systemctl", "reload", "rocm-build-firewall.service")
    assert status["state"] == "succeeded"
    found = findings(kept)
    for target in (f"{BRIDGE} {PORT}", f"{planted.own_address} {PORT}"):
        assert [found[f"{way} {target}"] for way in ("connect", "connect32")] == [f"open: {planted.word}"] * 2
        assert [found[f"{way} {target}"] for way in ("raw", "packet")] == ["open: it answers"] * 2
    # The step's interface has no address of IPv6, so only a frame of its own making gets there.
    for target in (f"{METADATA_IPV6} 80", f"{planted.link_local}%eth0 {PORT}"):
        assert found[f"packet {target}"] == "open: it answers"


def test_a_stolen_session_is_refused_outside_the_vpc(kept: KeptBox) -> None:
    # A session of this box's, and not of one that was launched meanwhile.
    forget_session(kept)
    with slow_compile(kept, files=1):
        kept.build()
    cloud = kept.job.region.cloud
    stolen = cloud.keyring.find(sessions_of(kept)[-1])
    assert stolen is not None
    assert not stolen.expired
    prefix = kept.job.foundation.outputs()["cachePrefix"]
    used = [request for request in kept.job.requests() if request["key"] == stolen.access_key_id]
    assert {(request["source"], request["status"]) for request in used if request["action"] == "s3:PutObject"} == {
        (kept.machine.address, 200)
    }
    s3 = cloud.client("s3", stolen)
    calls: dict[str, dict[str, Any]] = {
        "get_object": {"Key": f"{prefix}/.sccache_check"},
        "put_object": {"Key": f"{prefix}/planted", "Body": b""},
        "list_objects_v2": {},
    }
    for operation, arguments in calls.items():
        with pytest.raises(ClientError) as refused:
            getattr(s3, operation)(Bucket=kept.outputs.bucket, **arguments)
        assert refused.value.response["Error"]["Code"] == "AccessDenied"
        assert "because no session policy allows" in refused.value.response["Error"]["Message"]
