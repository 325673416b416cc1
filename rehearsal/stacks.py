"""Runs this program by `pulumi` itself, with a backend in a folder of its own and the stand-in provider on PATH."""

from __future__ import annotations

import json
import os
import secrets
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from infra import naming
from rehearsal.console import StepError, last_lines, step
from rehearsal.tools.store import home

PROJECT_DIRECTORY = Path(__file__).resolve().parent.parent
_PLUGIN = "pulumi-resource-aws"


class Workspace:
    """A folder with a Pulumi backend, the configuration of the stacks in it and the logs of every command.

    The checkout's own `Pulumi.<stack>.yaml` are not touched: each stack here has its configuration in the folder.
    """

    def __init__(self, directory: Path, engine: Path, aws: Mapping[str, str], tools: Sequence[Path] = ()) -> None:
        """Prepare a workspace.

        Args:
            directory: the folder; made when it is not there.
            engine: the directory with `pulumi`.
            aws: the environment that leads to the stand-in: keys, region, endpoint, authority.
            tools: more directories for PATH.
        """
        self.directory = directory
        self._engine = engine / "pulumi"
        state = directory / "state"
        plugins = directory / "bin"
        for path in (state, plugins, directory / "logs"):
            path.mkdir(parents=True, exist_ok=True)
        (directory / "Pulumi.yaml").write_text(f"name: {naming.PROJECT}\nruntime: python\n")
        plugin = plugins / _PLUGIN
        plugin.write_text(
            "#!/bin/sh\n"
            f"export PYTHONPATH={shlex.quote(str(PROJECT_DIRECTORY))}\n"
            f'exec {shlex.quote(sys.executable)} -m rehearsal.provider "$@"\n'
        )
        plugin.chmod(0o755)
        search = [plugins, engine, Path(sys.executable).parent, *tools]
        self.environment = {
            **aws,
            "HOME": str(home()),
            "PATH": os.pathsep.join([*map(str, search), "/usr/local/bin", "/usr/bin", "/bin"]),
            "PULUMI_HOME": str(directory / "home"),
            "PULUMI_BACKEND_URL": f"file://{state}",
            # The state of a rehearsal holds no secret; a passphrase that nobody knows keeps it so.
            "PULUMI_CONFIG_PASSPHRASE": secrets.token_urlsafe(),
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def stack(self, name: str, settings: Mapping[str, Any]) -> Stack:
        """A stack of this program with the given settings (keys without the project's prefix), made if it is new."""
        stack = Stack(self, name)
        stack.configure(settings)
        if name not in {entry["name"] for entry in json.loads(self.pulumi("stack", "ls", "--json"))}:
            # `stack init` knows no --config-file and writes the encryption salt beside the Pulumi.yaml that it finds.
            self.pulumi("stack", "init", name, "--no-select", "--cwd", str(self.directory))
        return stack

    def command(self, *arguments: str) -> list[str]:
        """The command line of a pulumi command; it runs in the checkout, with `environment`."""
        return [str(self._engine), "--non-interactive", "--color=never", *arguments]

    def attempt(self, *arguments: str, log: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Run a pulumi command that may fail, and append its output to a log."""
        log = log or self.directory / "logs" / "pulumi.log"
        done = subprocess.run(
            self.command(*arguments),
            cwd=PROJECT_DIRECTORY,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        with log.open("a") as file:
            file.write(f"$ pulumi {shlex.join(arguments)}\n{done.stdout}{done.stderr}\n")
        return done

    def pulumi(self, *arguments: str, title: str = "", log: Path | None = None) -> str:
        """Run a pulumi command and give its standard output.

        Raises:
            StepError: with the last lines, when it exits with another code than 0.
        """
        log = log or self.directory / "logs" / "pulumi.log"
        done = self.attempt(*arguments, log=log)
        if done.returncode != 0:
            raise StepError(
                title or f"pulumi {shlex.join(arguments)}",
                f"exited {done.returncode} (whole output: {log})",
                last_lines=last_lines(log),
                next_action="read the lines above; the same command can be run again",
            )
        return done.stdout


class Stack:
    """One stack of the program."""

    def __init__(self, workspace: Workspace, name: str) -> None:
        self._workspace = workspace
        self.name = name
        self._config = workspace.directory / f"Pulumi.{name}.yaml"

    @property
    def log(self) -> Path:
        """The output of every command on this stack."""
        return self._workspace.directory / "logs" / f"{self.name}.log"

    def configure(self, settings: Mapping[str, Any]) -> None:
        """Write the stack's configuration; what `pulumi` itself keeps there (the encryption salt) stays."""
        kept = yaml.safe_load(self._config.read_text()) if self._config.exists() else {}
        region = self._workspace.environment["AWS_REGION"]
        kept["config"] = {
            "aws:region": region,
            **{f"{naming.PROJECT}:{key}": value for key, value in settings.items()},
        }
        self._config.write_text(yaml.safe_dump(kept, sort_keys=True))

    def config_arguments(self) -> list[str]:
        """The flags that make a pulumi command use this configuration."""
        return ["--config-file", str(self._config)]

    def up(self, *arguments: str) -> None:
        """`pulumi up`, shown as a step.

        Raises:
            StepError: when it fails.
        """
        self._run("up", "--yes", "--skip-preview", *arguments)

    def destroy(self) -> None:
        """`pulumi destroy`, then the removal of the empty stack.

        Raises:
            StepError: when something cannot be destroyed.
        """
        self._run("destroy", "--yes", "--skip-preview")
        self._workspace.pulumi("stack", "rm", "--yes", "--stack", self.name, "--preserve-config")

    def _run(self, verb: str, *arguments: str) -> None:
        title = f"pulumi {verb} ({self.name})"
        with step(title):
            self._workspace.pulumi(
                verb, "--stack", self.name, *self.config_arguments(), *arguments, title=title, log=self.log
            )

    def attempt(self, verb: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command on this stack that may fail, for a person or a test to look at its output."""
        return self._workspace.attempt(verb, "--stack", self.name, *self.config_arguments(), *arguments, log=self.log)

    def start(self, verb: str, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a command on this stack, in a process group of its own, for a test to interrupt it."""
        command = self._workspace.command(verb, "--stack", self.name, *self.config_arguments(), *arguments)
        with self.log.open("ab") as log:
            return subprocess.Popen(
                command,
                cwd=PROJECT_DIRECTORY,
                env=self._workspace.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def outputs(self) -> dict[str, Any]:
        """The stack's outputs."""
        answer = self._workspace.pulumi("stack", "output", "--json", "--stack", self.name)
        outputs: dict[str, Any] = json.loads(answer)
        return outputs

    def export(self) -> str:
        """The stack's state as `pulumi stack export` prints it, with secrets decrypted as a curious person would."""
        return self._workspace.pulumi("stack", "export", "--show-secrets", "--stack", self.name)

    def resources(self) -> list[dict[str, Any]]:
        """The resources in the state, without the stack itself and providers."""
        deployment = json.loads(self.export())["deployment"]
        return [
            resource
            for resource in deployment.get("resources", [])
            if resource.get("custom") and not resource["type"].startswith("pulumi:")
        ]
