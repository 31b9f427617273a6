"""Occupancy against NVIDIA's own calculator, and the tables of architectures and cards."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from tirx_bench import tools
from tirx_bench.hardware import (
    CARDS,
    DEFAULT_CARDS,
    MULTIPROCESSORS,
    capability,
    card_of_device,
    find_card,
    occupancy,
)
from tirx_bench.model import Resources, UsageError, Work

SOURCE = Path(__file__).parent / "data" / "occupancy.cpp"


def resources(registers=32, threads=128, static=0, dynamic=0, barriers=1):
    return Resources("kernel", registers, 0, 0, 0, static, dynamic, threads, (1, 1, 1), (1, 1, 1), barriers)


@pytest.fixture(scope="module")
def nvidia(tmp_path_factory):
    """Cases of (arch digits, registers, threads, static, dynamic, barriers) to blocks, by cuda_occupancy.h of the wheel."""
    program = tmp_path_factory.mktemp("occupancy") / "occupancy"
    include = tools.wheel_root() / "include"
    subprocess.run(["g++", "-w", f"-I{include}", str(SOURCE), "-o", str(program)], check=True)

    def ask(cases):
        lines = "".join(f"{arch[:-1]} {arch[-1]} {' '.join(map(str, rest))}\n" for arch, *rest in cases)
        done = subprocess.run([program], input=lines, capture_output=True, text=True, check=True)
        return [int(line) for line in done.stdout.split()]

    return ask


def random_cases(arch, count):
    rng = random.Random(int(arch))
    most = MULTIPROCESSORS[arch].block_smem_bytes + 2048  # also a little more than fits
    for _ in range(count):
        static = rng.choice((0, 0, 16, 1024, rng.randrange(48 * 1024)))
        dynamic = rng.choice((0, rng.randrange(32 * 1024), rng.randrange(most)))
        threads = rng.choice((rng.randrange(1, 1025), 32 * rng.randrange(1, 33)))
        yield arch, rng.randrange(256), threads, static, dynamic, rng.choice((0, 1, 1, 2, rng.randrange(17)))


@pytest.mark.parametrize("arch", MULTIPROCESSORS)
def test_blocks_are_those_of_nvidias_calculator(arch, nvidia):
    cases = list(random_cases(arch, 400))
    expected = nvidia(cases)
    assert len(set(expected)) > 8 and min(expected) == 0  # the cases tell limits apart, and some do not fit
    wrong = []
    for case, blocks in zip(cases, expected, strict=True):
        found = occupancy(resources(*case[1:]), f"sm_{arch}")
        if found.blocks != blocks:
            wrong.append((case, blocks, found))
    assert not wrong


def test_the_gemm_that_nsight_compute_measured_fills_12_of_64_warps():
    found = occupancy(resources(registers=168, threads=384, dynamic=230400, barriers=16), "sm_90a")
    assert (found.blocks, found.warps, found.max_warps) == (1, 12, 64)
    assert found.fraction == 0.1875
    assert found.limiter == "registers and shared memory"


@pytest.mark.parametrize(
    ("taken", "limiter", "blocks"),
    [
        (resources(registers=255, threads=64), "registers", 4),
        (resources(dynamic=100_000), "shared memory", 2),
        (resources(threads=1024), "registers and warps", 2),
        (resources(threads=32), "blocks", 32),
        (resources(threads=32, barriers=16), "barriers", 4),
        (resources(threads=1025), "warps", 0),
        (resources(dynamic=232449), "shared memory", 0),
    ],
)
def test_the_resource_that_allows_fewest_blocks_is_named(taken, limiter, blocks):
    found = occupancy(taken, "sm_90a")
    assert (found.limiter, found.blocks) == (limiter, blocks)


def test_there_is_no_occupancy_without_the_limits_or_the_threads():
    assert occupancy(resources(), "sm_75") is None
    assert occupancy(resources(threads=0), "sm_90a") is None


@pytest.mark.parametrize(("arch", "digits"), [("sm_90a", "90"), ("sm_90", "90"), ("sm_100a", "100"), ("sm_100f", "100")])
def test_the_capability_is_in_the_name_of_an_architecture(arch, digits):
    assert capability(arch) == digits


@pytest.mark.parametrize("arch", ["", "90a", "sm90a", "sm_9", "sm_90b", "sm_90a ", "compute_90a", "sm_1000"])
def test_what_is_not_an_architecture_is_refused(arch):
    with pytest.raises(UsageError, match="is not an architecture"):
        capability(arch)


def test_a_card_is_found_by_name_or_by_architecture():
    assert find_card(None, "sm_90a").name == "H200 SXM"
    assert find_card(None, "sm_100a").name == "B200"
    assert find_card("H100 PCIe", "sm_90a").sms == 114
    assert find_card(None, "sm_120a") is None
    with pytest.raises(UsageError) as caught:
        find_card("H200 SMX", "sm_90a")
    assert "H200 SXM" in caught.value.hint


@pytest.mark.parametrize(
    ("name", "card"),
    [
        ("NVIDIA H200", "H200 SXM"),
        ("NVIDIA H100 80GB HBM3", "H100 SXM"),
        ("NVIDIA H100 PCIe", "H100 PCIe"),
        ("NVIDIA B200", "B200"),
    ],
)
def test_a_card_is_known_by_the_name_its_driver_gives(name, card):
    assert card_of_device(name) is CARDS[card]


@pytest.mark.parametrize("name", ["", "None", "NVIDIA H200 NVL", "NVIDIA GeForce RTX 5090", "NVIDIA H100 NVL"])
def test_a_card_that_is_not_in_the_table_has_no_data_sheet(name):
    assert card_of_device(name) is None


def test_every_card_has_the_limits_of_its_architecture_and_peaks_that_order():
    assert set(DEFAULT_CARDS.values()) <= set(CARDS)
    for card in CARDS.values():
        assert capability(card.arch) in MULTIPROCESSORS and "data sheet" in card.source
        assert card.tflops["float64"] <= card.tflops["float32"] < card.tflops["bfloat16"] < card.tflops["float8_e4m3fn"]
        assert card.peak("int4") is None


def test_the_floor_is_the_slower_of_arithmetic_and_memory():
    peak = CARDS["H200 SXM"].peak("bfloat16")
    assert peak.floor_us(Work(989.4e6, 0, "bfloat16")) == pytest.approx(1)
    assert peak.floor_us(Work(1, 4.8e6, "bfloat16")) == pytest.approx(1)
