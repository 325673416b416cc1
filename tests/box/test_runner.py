"""The build specification and the runner: real shells, real processes."""

from __future__ import annotations

import json
from pathlib import Path

import boto3
import pytest

from buildspec.box import config as box
from buildspec.box import runner, spec
from buildspec.box.jobs import max_jobs
from buildspec.box.status import PhaseStatus
from tests.box.support import BUCKET, INSTANCE, box_config

HEAD = "version: 0.2\nenv:\n  shell: bash\n"


class Build:
    """A build specification that was run, and what came of it."""

    def __init__(self, phases: str, environment: dict[str, str] | None = None, head: str = HEAD) -> None:
        self.lines: list[str] = []
        self.reports: list[tuple[str, list[tuple[str, int | None]]]] = []
        path = {"PATH": "/usr/bin:/bin"}
        self.runner = runner.Runner(
            spec.parse(head + phases), {**path, **(environment or {})}, self._write, self._report
        )
        self.exit_code = self.runner.run()

    def _write(self, line: str) -> str:
        self.lines.append(line)
        return line

    def _report(self, phase: str, phases: list[PhaseStatus]) -> None:
        self.reports.append((phase, [(entry["name"], entry["exitCode"]) for entry in phases]))

    @property
    def output(self) -> list[str]:
        """The commands' own lines."""
        return [line for line in self.lines if not line.startswith("[")]

    @property
    def failure(self) -> runner.Failure:
        assert self.runner.failure is not None
        return self.runner.failure


def phases(**commands: str) -> str:
    """A ``phases`` mapping of flow-style values."""
    return "phases:\n" + "".join(f"  {name}: {value}\n" for name, value in commands.items())


def test_commands_share_one_shell_across_phases() -> None:
    build = Build(
        phases(
            install="{commands: [export A=1, B=2, cd /usr]}",
            build="{commands: ['echo \"$A $B $PWD\"', 'sh -c \"echo [$A] {$B}\" | cat -A']}",
        )
    )
    assert build.output == ["1 2 /usr"]
    assert build.lines[-2] == "[1] {2}$"
    assert build.exit_code == 0


def test_environment_wins_over_the_specifications_variables() -> None:
    head = HEAD + "  variables: {NAME: of the spec, OTHER: of the spec}\n"
    build = Build(phases(build="{commands: ['echo \"$NAME, $OTHER\"']}"), environment={"NAME": "of the box"}, head=head)
    assert build.output == ["of the box, of the spec"]


def test_failing_command_ends_its_phase_and_finally_still_runs() -> None:
    build = Build(
        phases(
            build="{commands: [echo one, (exit 7), echo never], finally: [echo finally]}",
            post_build="{commands: ['echo succeeding=$CODEBUILD_BUILD_SUCCEEDING']}",
        )
    )
    assert build.output == ["one", "finally", "succeeding=0"]
    assert build.exit_code == 7
    assert build.failure.step == "build: (exit 7): exit code 7"
    assert build.reports == [
        ("build", [("build", None)]),
        ("build", [("build", 7)]),
        ("post_build", [("build", 7), ("post_build", None)]),
        ("post_build", [("build", 7), ("post_build", 0)]),
    ]


@pytest.mark.parametrize("phase", ["install", "pre_build"])
def test_nothing_follows_a_failed_phase_before_the_build(phase: str) -> None:
    build = Build(phases(**{phase: "{commands: ['false']}"}, build="{commands: [echo never]}"))
    assert (build.exit_code, build.output) == (1, [])


def test_on_failure_continue_goes_on_but_the_build_has_failed() -> None:
    build = Build(
        phases(
            install="{commands: [(exit 3)], on-failure: CONTINUE}",
            build="{commands: ['echo $CODEBUILD_BUILD_SUCCEEDING', (exit 4)]}",
        )
    )
    assert (build.exit_code, build.output) == (3, ["0"])
    assert build.failure.phase == "install"


def test_on_failure_abort_skips_post_build() -> None:
    build = Build(phases(build="{commands: ['false'], on-failure: ABORT}", post_build="{commands: [echo never]}"))
    assert (build.exit_code, build.output) == (1, [])


def test_failing_finally_fails_the_phase() -> None:
    build = Build(phases(install="{commands: [echo a], finally: [(exit 9)]}", build="{commands: [echo never]}"))
    assert (build.exit_code, build.output) == (9, ["a"])


def test_success_is_visible_to_commands() -> None:
    build = Build(phases(build="{commands: ['echo $CODEBUILD_BUILD_SUCCEEDING']}"))
    assert (build.exit_code, build.output, build.runner.failure) == (0, ["1"], None)


@pytest.mark.parametrize("command", ["exit 5", "set -e; (exit 5)", "kill -KILL $$"])
def test_command_that_ends_the_shell_is_a_failure_and_the_rest_gets_a_new_one(command: str) -> None:
    build = Build(
        phases(
            build=f"{{commands: ['{command}', echo never], finally: [echo finally]}}",
            post_build="{commands: [echo post]}",
        )
    )
    assert build.output == ["finally", "post"]
    assert build.exit_code == (5 if "5" in command else -9)


def test_output_is_read_as_it_is() -> None:
    build = Build(
        phases(build=r"""{commands: ['printf "no newline"', 'printf "\n\nblank\n"', 'printf "\377bad\n" >&2', cat]}""")
    )
    assert build.output == ["no newline", "", "", "blank", "\ufffdbad"]
    assert build.exit_code == 0, "cat finds an empty standard input, not the next commands"


def test_commands_of_several_lines() -> None:
    build = Build(
        "phases:\n  build:\n    commands:\n      - |\n        if true; then\n          echo yes\n        fi\n"
    )
    assert build.output == ["yes"]


def test_last_lines_are_those_of_the_failed_command() -> None:
    build = Build(
        phases(
            build="{commands: [echo before, 'seq 1 40; exit 2'], finally: [echo after]}",
            post_build="{commands: [echo late]}",
        )
    )
    assert build.failure.last_lines == tuple(str(number) for number in range(11, 41))


def test_failed_bake_is_named_with_target_and_step(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(
        "#9 [cache-probe build 2/3] RUN make\n#9 0.1 cc: error\n"
        '#9 ERROR: process "/bin/sh -c make" did not complete successfully: exit code: 2\n'
        "------\n > [cache-probe build 2/3] RUN make:\n0.1 cc: error\n------\n"
        'ERROR: target cache-probe: failed to solve: process "/bin/sh -c make" did not complete successfully: '
        "exit code: 2\n"
    )
    build = Build(phases(build=f"{{commands: ['cat {log}; false']}}"))
    assert build.failure.detail == (
        "target cache-probe: step [cache-probe build 2/3] RUN make: "
        'process "/bin/sh -c make" did not complete successfully: exit code: 2'
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("version: 0.1\nenv: {shell: bash}\nphases: {}\n", "version: 0.1 is not supported; write 0.2"),
        ("version: 0.2\nphases: {}\n", r"keys missing \['env'\]"),
        ("version: 0.2\nenv: {shell: sh}\nphases: {}\n", "env.shell: 'sh' is not supported; write bash"),
        (
            HEAD + "phases: {}\nartifacts: {}\n",
            r"keys not supported \['artifacts'\].*\['env', 'phases', 'version'\]",
        ),
        (
            HEAD + "  git-credential-helper: yes\nphases: {}\n",
            r"env: keys not supported \['git-credential-helper'\]",
        ),
        (HEAD + "  variables: {N: 1}\nphases: {}\n", "env.variables.N: 1 is not a string; put it in quotes"),
        (HEAD + "phases: {deploy: {commands: [a]}}\n", r"phases: keys not supported \['deploy'\]"),
        (HEAD + "phases: {build: {}}\n", r"phases.build: .*keys missing \['commands'\]"),
        (HEAD + "phases: {build: {commands: [a], runtime-versions: {}}}\n", r"\['runtime-versions'\]"),
        (
            HEAD + "phases: {build: {commands: a}}\n",
            "phases.build.commands: 'a' is not a list of at least one",
        ),
        (HEAD + "phases: {build: {commands: [1]}}\n", r"phases.build.commands: \[1\] is not a list"),
        (
            HEAD + "phases: {build: {commands: [a], finally: []}}\n",
            r"phases.build.finally: \[\] is not a list",
        ),
        (
            HEAD + "phases: {build: {commands: [a], on-failure: RETRY}}\n",
            "on-failure: 'RETRY' is not supported",
        ),
        ("a: [", "not YAML"),
        ("- a", "is not a mapping"),
    ],
)
def test_what_is_not_supported_is_refused(text: str, message: str) -> None:
    with pytest.raises(spec.SpecError, match=message):
        spec.parse(text)


def test_projects_own_specification() -> None:
    loaded = spec.load(runner.BUILD_SPEC)
    assert loaded.variables == {"BUILDX_BUILDER": "rocm-build-box", "BUILDKIT_IMAGE": "moby/buildkit:v0.34.2"}
    assert {phase.name: phase.commands for phase in loaded.phases} == {
        "install": (
            "python3 -m buildspec.box.preflight",
            'docker buildx create --bootstrap --name "$BUILDX_BUILDER" --driver docker-container '
            '--driver-opt "image=$BUILDKIT_IMAGE" --driver-opt env.BUILDKIT_STEP_LOG_MAX_SIZE=-1 '
            "--driver-opt env.BUILDKIT_STEP_LOG_MAX_SPEED=-1",
        ),
        "pre_build": (
            "python3 -m buildspec.box.canary",
            "python3 -m buildspec.box.cache_probe",
            "python3 -m buildspec.box.registry_probe",
        ),
        "build": ("python3 -m buildspec.box.bake",),
        "post_build": ("python3 -m buildspec.box.verify",),
    }


@pytest.mark.parametrize(
    ("cpus", "available_kib", "jobs"),
    [(32, 128 * 1024**2, 32), (32, 32 * 1024**2, 8), (32, 32 * 1024**2 - 1, 7), (8, 1024, 1)],
)
def test_jobs_follow_processors_and_available_memory(cpus: int, available_kib: int, jobs: int) -> None:
    meminfo = f"MemTotal: 999999999 kB\nMemFree: 1 kB\nMemAvailable:   {available_kib} kB\n"
    assert max_jobs(cpus, meminfo) == jobs


@pytest.mark.parametrize(("available_gib", "jobs"), [(36, 8), (47, 8), (48, 12), (122, 28), (125, 28), (128, 32)])
def test_a_little_memory_less_leaves_the_jobs_as_they_are(available_gib: int, jobs: int) -> None:
    """m7a.8xlarge and most of its kind have 4 GiB a vCPU, so memory decides there."""
    assert max_jobs(32, f"MemAvailable: {available_gib * 1024**2} kB\n") == jobs


def test_environment_of_the_commands() -> None:
    derived = runner.environment(box_config(bake_variables={"REGISTRY": "r", "EMPTY": ""}), INSTANCE)
    assert (derived["REGISTRY"], derived["EMPTY"], derived["RUN_ID"]) == ("r", "", f"dev-{INSTANCE}")
    assert int(derived["MAX_JOBS"]) >= 1
    pinned = runner.environment(box_config(bake_variables={"MAX_JOBS": "77", "RUN_ID": "mine"}), INSTANCE)
    assert (pinned["MAX_JOBS"], pinned["RUN_ID"]) == ("77", f"dev-{INSTANCE}")


@pytest.mark.usefixtures("aws")
def test_whole_run_reports_ships_and_redacts(
    places: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    box.TOKEN_FILE.write_text("5ec3e7\n")
    build_yml = places / "build.yml"
    build_yml.write_text(HEAD + phases(build="{commands: ['echo the token is 5ec3e7; (exit 6)']}"))
    monkeypatch.setattr(runner, "BUILD_SPEC", build_yml)

    assert runner.main() == 6

    log = box.LOG_FILE.read_text().splitlines()
    assert "the token is ***" in log
    logs = boto3.client("logs", region_name="us-east-1")
    events = logs.get_log_events(logGroupName="/rocm-build-box/prod", logStreamName=INSTANCE)["events"]
    assert [event["message"] for event in events] == log
    state = json.loads(box.STATE_FILE.read_text())
    assert state["failingStep"] == "build: echo the token is ***; (exit 6): exit code 6"
    assert state["lastLines"] == ["the token is ***"]
    assert state["warnings"] == []
    assert [(entry["name"], entry["exitCode"]) for entry in state["phases"]] == [("build", 6)]
    s3 = boto3.client("s3", region_name="us-east-1")
    stored = json.load(s3.get_object(Bucket=BUCKET, Key=f"builds/dev/{INSTANCE}/status.json")["Body"])
    assert (stored["state"], stored["phase"], stored["phases"]) == ("running", "build", state["phases"])
    everything = "".join(capfd.readouterr()) + json.dumps(state) + json.dumps(stored)
    assert "5ec3e7" not in everything


@pytest.mark.usefixtures("aws")
def test_log_and_status_out_of_reach_do_not_fail_the_build(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    box.TOKEN_FILE.write_text("5ec3e7\n")
    build_yml = places / "build.yml"
    build_yml.write_text(HEAD + phases(build="{commands: [echo done]}"))
    monkeypatch.setattr(runner, "BUILD_SPEC", build_yml)
    config = box_config(bucket="no-such-bucket", log_group="/none")
    box.CONFIG_FILE.write_text(config.to_json())

    assert runner.main() == 0

    begun, ended, shipping = json.loads(box.STATE_FILE.read_text())["warnings"]
    assert begun == ended
    assert begun.startswith("the status of phase build was not stored: ")
    assert "NoSuchBucket" in begun
    assert "lines were not shipped to the log stream i-0123456789abcdef0 of /none; first error: " in shipping
    assert "ResourceNotFoundException" in shipping


@pytest.mark.usefixtures("aws", "places")
def test_a_runner_that_gives_up_leaves_the_reason() -> None:
    box.TOKEN_FILE.write_text("5ec3e7\n")
    # Writing to it is what fails on a full disk.
    box.LOG_FILE.parent.mkdir()
    box.LOG_FILE.symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left"):
        runner.main()
    assert box.RUNNER_ERROR_FILE.read_text() == "OSError: [Errno 28] No space left on device"


def test_output_comes_live(tmp_path: Path) -> None:
    seen: list[str] = []

    def write(line: str) -> None:
        seen.append(line)
        (tmp_path / line).touch()

    shell = runner.Shell({"PATH": "/usr/bin:/bin"}, write)
    wait = f"for _ in $(seq 200); do [ -e {tmp_path}/first ] && break; sleep 0.05; done"
    shell.run(f"echo first; {wait}; ls {tmp_path}")
    shell.close()
    assert seen == ["first", "first"]
