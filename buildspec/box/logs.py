"""The build's log, in a file, in the journal and, live, in CloudWatch Logs; secrets are taken out first."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from botocore.exceptions import BotoCoreError, ClientError

if TYPE_CHECKING:
    from types_boto3_logs import CloudWatchLogsClient
    from types_boto3_logs.type_defs import InputLogEventTypeDef

# PutLogEvents' limits:
# https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_PutLogEvents.html
MAX_BATCH_BYTES = 1_048_576
MAX_BATCH_EVENTS = 10_000
EVENT_OVERHEAD_BYTES = 26
MAX_EVENT_BYTES = 262_144 - EVENT_OVERHEAD_BYTES

FLUSH_SECONDS = 2.0
CLOSE_SECONDS = 30.0
QUEUE_LINES = 100_000
"""Lines held while CloudWatch is slow; more are dropped, and counted, rather than fill the memory that
compilers need."""

REDACTED = "***"


class LogShipper:
    """Sends lines to one log stream from a thread of its own.

    It never raises: a log that is not shipped fails no build. What was lost is in :attr:`problem`.
    """

    def __init__(self, client: CloudWatchLogsClient, group: str, stream: str) -> None:
        self._client = client
        self._group = group
        self._stream = stream
        self._queue: queue.Queue[InputLogEventTypeDef] = queue.Queue(QUEUE_LINES)
        self._closing = threading.Event()
        self._dropped = 0
        self._error: str | None = None
        self._thread = threading.Thread(target=self._run, name="log-shipper", daemon=True)
        self._thread.start()

    @property
    def problem(self) -> str | None:
        """What CloudWatch has not got and why; None when it has got everything so far."""
        if self._dropped == 0 and self._error is None:
            return None
        return (
            f"{self._dropped} lines were not shipped to the log stream {self._stream} of {self._group}; "
            f"first error: {self._error}"
        )

    def put(self, line: str) -> None:
        """Queues one line. An empty line is sent as a blank, because CloudWatch refuses an empty message."""
        try:
            self._queue.put_nowait({"timestamp": time.time_ns() // 1_000_000, "message": _fit(line) or " "})
        except queue.Full:
            self._lost(1, f"more than {QUEUE_LINES} lines were waiting")

    def close(self) -> None:
        """Send what is queued; give up after :data:`CLOSE_SECONDS`."""
        self._closing.set()
        self._thread.join(CLOSE_SECONDS)
        if self._thread.is_alive():
            self._lost(self._queue.qsize(), f"the end of the log was not taken within {CLOSE_SECONDS:g} s")

    def _run(self) -> None:
        try:
            self._client.create_log_stream(logGroupName=self._group, logStreamName=self._stream)
        except self._client.exceptions.ResourceAlreadyExistsException:
            pass  # a build started again on a kept box goes on in its stream
        except (BotoCoreError, ClientError) as error:
            self._lost(0, str(error))
        while True:
            closing = self._closing.wait(FLUSH_SECONDS)
            for batch in batches(self._drain()):
                try:
                    self._client.put_log_events(logGroupName=self._group, logStreamName=self._stream, logEvents=batch)
                except (BotoCoreError, ClientError) as error:
                    self._lost(len(batch), str(error))
            if closing:
                return

    def _drain(self) -> list[InputLogEventTypeDef]:
        return [self._queue.get_nowait() for _ in range(self._queue.qsize())]

    def _lost(self, lines: int, error: str) -> None:
        self._dropped += lines
        if self._error is None:
            self._error = error


def batches(events: Iterable[InputLogEventTypeDef]) -> list[list[InputLogEventTypeDef]]:
    """Split events, in order, into batches that PutLogEvents takes."""
    result: list[list[InputLogEventTypeDef]] = []
    size = 0
    for event in events:
        length = len(event["message"].encode("utf-8")) + EVENT_OVERHEAD_BYTES
        if not result or size + length > MAX_BATCH_BYTES or len(result[-1]) == MAX_BATCH_EVENTS:
            result.append([])
            size = 0
        result[-1].append(event)
        size += length
    return result


def _fit(line: str) -> str:
    return line.encode("utf-8")[:MAX_EVENT_BYTES].decode("utf-8", errors="ignore")


class BuildLog:
    """The build's log. No line is written or shipped before the secrets are taken out of it."""

    def __init__(self, path: Path, secrets: Sequence[str], shipper: LogShipper) -> None:
        """Open the file at ``path`` anew; ``secrets`` are replaced by :data:`REDACTED` wherever they are."""
        if "" in secrets:
            raise ValueError("an empty secret cannot be taken out of a log")
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("w", encoding="utf-8", buffering=1)
        self._secrets = secrets
        self._shipper = shipper

    def line(self, text: str) -> str:
        """Write one line, given without its newline; return it as written."""
        for secret in self._secrets:
            text = text.replace(secret, REDACTED)
        self._file.write(text + "\n")
        print(text, flush=True)
        self._shipper.put(text)
        return text

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._file.close()
        self._shipper.close()
