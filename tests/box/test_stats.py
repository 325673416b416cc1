"""sccache's statistics and BuildKit's failures, from plain progress output."""

from __future__ import annotations

import json

import pytest

from buildspec.box import buildkit, stats
from tests.box.support import stats_line

COMPILE = "RUN --mount=type=secret,id=aws --mount=type=bind,from=sccache,target=/s with-sccache"


def log(*steps: tuple[int, str, list[str]]) -> list[str]:
    lines = ["#1 [internal] load build definition from Dockerfile", "#1 DONE 0.0s", ""]
    for number, name, texts in steps:
        lines += [f"#{number} {name}", *(f"#{number} {text}" for text in texts), ""]
    return lines


def compiled(number: int, step: str, seconds: float, **counts: int) -> tuple[int, str, list[str]]:
    return (
        number,
        f"[{step} build 3/4] {COMPILE} {step}",
        [f"12.345 {stats_line(step, seconds, **counts)}", "DONE 12.4s"],
    )


def test_sums_all_steps_and_all_languages() -> None:
    found = stats.read(
        log(
            compiled(7, "one", 1.5, compile_requests=10, cache_hits=3, cache_misses=4, cache_writes=4),
            compiled(
                8,
                "two",
                2.25,
                compile_requests=5,
                cache_misses=1,
                cache_errors=1,
                cache_read_errors=2,
                cache_timeouts=4,
                cache_write_errors=8,
            ),
        )
    )
    assert found.cache == {
        "requests": 15,
        "hits": 3,
        "misses": 5,
        "errors": 7,
        "writeErrors": 8,
        "compileSeconds": 3.75,
        "steps": [
            {
                "step": "one",
                "seconds": 1.5,
                "requests": 10,
                "hits": 3,
                "misses": 4,
                "errors": 0,
                "writeErrors": 0,
            },
            {
                "step": "two",
                "seconds": 2.25,
                "requests": 5,
                "hits": 0,
                "misses": 1,
                "errors": 7,
                "writeErrors": 8,
            },
        ],
    }
    assert (found.writes, found.silent_steps) == (4, ())


def test_languages_are_summed() -> None:
    document = json.loads(stats_line("s", 1).removeprefix(stats.PREFIX))
    document["sccache"]["stats"]["cache_hits"]["counts"] = {"C/C++": 3, "HIP": 4, "Rust": 5}
    found = stats.read(log((5, f"[a 1/2] {COMPILE}", [f"0.1 {stats.PREFIX}{json.dumps(document)}"])))
    assert found.cache["hits"] == 12


def test_output_of_other_steps_is_no_statistics() -> None:
    found = stats.read([stats_line("outside", 1, cache_hits=9), *log((4, "[a 1/2] RUN true", ["0.1 hello"]))])
    assert (found.cache["hits"], found.cache["steps"], found.silent_steps) == (0, [], ())


@pytest.mark.parametrize(
    ("texts", "silent"),
    [
        (["CACHED"], False),
        (["CANCELED"], False),
        (["sha256:f798da9c 86.98kB / 86.98kB 0.1s done", "extracting sha256:f798da9c 0.1s done", "DONE 1.0s"], False),
        (["DONE 3.0s"], True),
        (["0.1 make: done", "DONE 3.0s"], True),
    ],
)
def test_compile_step_that_ran_must_have_statistics(texts: list[str], silent: bool) -> None:
    name = f"[cache-probe build 3/4] {COMPILE} cache-probe"
    found = stats.read(log((9, name, texts)))
    assert found.silent_steps == ((name,) if silent else ())
    assert stats.broken_promises(found) == ([f"compile step without statistics: {name}"] if silent else [])


def test_step_that_compiled_without_sccache_is_silent() -> None:
    line = stats.PREFIX + json.dumps({"step": "slow", "seconds": 3.0, "sccache": None})
    found = stats.read(log((9, f"[a 3/4] {COMPILE}", [f"9.0 {line}"])))
    assert found.silent_steps == ("slow",)


@pytest.mark.parametrize(
    ("counts", "promises"),
    [
        ({"cache_hits": 5}, []),
        ({"cache_hits": 5, "cache_misses": 2, "cache_writes": 2}, []),
        ({}, []),
        (
            {"cache_misses": 2},
            ["2 misses, and nothing was written: sccache found the cache read-only"],
        ),
        (
            {"cache_misses": 2, "cache_writes": 1, "cache_write_errors": 1},
            ["1 results could not be written to the cache"],
        ),
        (
            {"cache_misses": 2, "cache_writes": 2, "cache_errors": 1},
            ["1 errors while reading the cache or handling a request"],
        ),
    ],
)
def test_promises(counts: dict[str, int], promises: list[str]) -> None:
    assert stats.broken_promises(stats.read(log(compiled(7, "one", 1.5, **counts)))) == promises


@pytest.mark.parametrize(("requests", "tolerated"), [(200, True), (199, False)])
def test_one_lost_result_in_a_hundred_fails_no_build(requests: int, tolerated: bool) -> None:
    counts = {"compile_requests": requests, "cache_misses": requests, "cache_writes": requests - 1}
    found = stats.read(log(compiled(7, "one", 1.5, **counts, cache_write_errors=1, cache_errors=1)))
    losses = [
        "1 results could not be written to the cache",
        "1 errors while reading the cache or handling a request",
    ]
    assert (stats.tolerated_losses(found), stats.broken_promises(found)) == (
        (losses, []) if tolerated else ([], losses)
    )


@pytest.mark.parametrize(
    "text",
    ["{", "[]", "{}", '{"step": "a", "seconds": 1}', '{"step": "a", "seconds": 1, "sccache": {"stats": {}}}'],
)
def test_broken_statistics_are_an_error(text: str) -> None:
    with pytest.raises(stats.StatsError, match="not the statistics of"):
        stats.read(log((7, f"[a 1/2] {COMPILE}", [f"0.1 {stats.PREFIX}{text}"])))


def test_vertex_numbers_begin_again_with_the_next_bake() -> None:
    found = buildkit.vertices(
        [*log((5, "[a 1/2] RUN one", ["0.1 mark 1"])), *log((5, "[b 1/2] RUN two", ["CACHED"]))], keep="mark"
    )
    assert [(vertex.name, vertex.ran, vertex.output) for vertex in found if "RUN" in vertex.name] == [
        ("[a 1/2] RUN one", True, ["mark 1"]),
        ("[b 1/2] RUN two", False, []),
    ]


def test_a_step_that_two_targets_share_is_one_step() -> None:
    lines = [
        "#5 [cupy build 4/5] RUN one",
        "#6 [cupy build 5/5] RUN one",
        "#5 [runtime build 4/5] RUN one",
        "#5 0.1 mark",
        "#6 CACHED",
    ]
    assert [(vertex.name, vertex.ran, vertex.output) for vertex in buildkit.vertices(lines, keep="mark")] == [
        ("[cupy build 4/5] RUN one", True, ["mark"]),
        ("[cupy build 5/5] RUN one", False, []),
    ]


def test_interleaved_output_stays_with_its_step() -> None:
    lines = [
        "#5 [a 1/2] RUN one",
        "#6 [b 1/2] RUN two",
        "#5 0.1 mark a",
        "#6 0.2 mark b",
        "#5 [a 1/2] RUN one",
        "#5 0.3 mark a again",
    ]
    assert [(vertex.name, vertex.output) for vertex in buildkit.vertices(lines, keep="mark")] == [
        ("[a 1/2] RUN one", ["mark a", "mark a again"]),
        ("[b 1/2] RUN two", ["mark b"]),
    ]


@pytest.mark.parametrize(
    ("lines", "step"),
    [
        (["make: *** [all] Error 2", "#7 ERROR: failed to solve: no error of buildx's"], None),
        (
            ["ERROR: failed to receive status: EOF"],
            "BuildKit ended in the middle, see `journalctl --unit docker.service`: failed to receive status: EOF",
        ),
        (
            ["ERROR: Unavailable: error reading from server: EOF", "bake of app failed"],
            "target app: BuildKit ended in the middle, see `journalctl --unit docker.service`: "
            "Unavailable: error reading from server: EOF",
        ),
        (
            ["ERROR: failed to solve: failed to push a: 503 Service Unavailable", "bake of app failed"],
            "target app: failed to push a: 503 Service Unavailable",
        ),
        (
            [" > [source 2/2] RUN fetch:", "ERROR: failed to solve: exit code: 1", "bake of app failed"],
            "target app: step [source 2/2] RUN fetch: exit code: 1",
        ),
        (
            ["ERROR: target app: failed to solve: debian: not found", "bake of app tool failed"],
            "target app: debian: not found",
        ),
        (
            [" > [app 2/3] RUN false:", "ERROR: target app: failed to solve: exit code: 1"],
            "target app: step [app 2/3] RUN false: exit code: 1",
        ),
        (
            [
                " > importing cache manifest from registry.example/a:b-cache:",
                " > [stage-0 2/3] RUN false:",
                " > [b] importing cache manifest from registry.example/a:b-cache:",
                " > exporting cache to registry:",
                "ERROR: failed to solve: exit code: 1",
            ],
            "step [stage-0 2/3] RUN false: exit code: 1",
        ),
    ],
)
def test_failed_step(lines: list[str], step: str | None) -> None:
    assert buildkit.failed_step(lines) == step
