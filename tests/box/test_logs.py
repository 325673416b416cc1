"""Batches of log events within the limits of PutLogEvents."""

from __future__ import annotations

from pathlib import Path

import boto3
import pytest
from types_boto3_logs.type_defs import InputLogEventTypeDef

from buildspec.box import logs


def events(*messages: str) -> list[InputLogEventTypeDef]:
    return [{"timestamp": 1, "message": message} for message in messages]


def test_no_events_are_no_batch() -> None:
    assert logs.batches([]) == []


def test_batch_holds_at_most_10000_events_in_order() -> None:
    split = logs.batches(events(*map(str, range(10_001))))
    assert [len(batch) for batch in split] == [10_000, 1]
    assert split[1][0]["message"] == "10000"


def test_batch_size_counts_utf8_bytes_and_26_for_each_event() -> None:
    # Two bytes a letter: eight events of 131,072 bytes with their overhead are exactly 1,048,576.
    fits = "é" * ((131_072 - 26) // 2)
    assert [len(batch) for batch in logs.batches(events(*[fits] * 9))] == [8, 1]
    assert [len(batch) for batch in logs.batches(events(*[fits] * 7, fits + "x"))] == [7, 1]


@pytest.mark.usefixtures("aws")
def test_long_and_empty_lines_are_taken(tmp_path: Path) -> None:
    client = boto3.client("logs", region_name="us-east-1")
    shipper = logs.LogShipper(client, "/rocm-build-box/prod", "stream")
    with logs.BuildLog(tmp_path / "build.log", [], shipper) as log:
        log.line("")
        log.line("é" * 200_000)
    found = client.get_log_events(logGroupName="/rocm-build-box/prod", logStreamName="stream")["events"]
    assert [event["message"] for event in found] == [" ", "é" * ((262_144 - 26) // 2)]
    assert shipper.problem is None
    assert (tmp_path / "build.log").read_text() == "\n" + "é" * 200_000 + "\n"


@pytest.mark.usefixtures("aws")
def test_a_stream_that_exists_is_gone_on_with() -> None:
    client = boto3.client("logs", region_name="us-east-1")
    for line in ("first", "second"):
        shipper = logs.LogShipper(client, "/rocm-build-box/prod", "stream")
        shipper.put(line)
        shipper.close()
        assert shipper.problem is None
    found = client.get_log_events(logGroupName="/rocm-build-box/prod", logStreamName="stream")["events"]
    assert [event["message"] for event in found] == ["first", "second"]


@pytest.mark.usefixtures("aws")
def test_an_empty_secret_is_refused(tmp_path: Path) -> None:
    shipper = logs.LogShipper(boto3.client("logs", region_name="us-east-1"), "/rocm-build-box/prod", "stream")
    with pytest.raises(ValueError, match="an empty secret"):
        logs.BuildLog(tmp_path / "build.log", [""], shipper)
    shipper.close()
