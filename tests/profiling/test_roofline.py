from __future__ import annotations

import msgspec
import pytest

from octopipe_cli.profiling.hardware import Figure, Hardware, load_hardware
from octopipe_cli.profiling.kernels import attention_core
from octopipe_cli.profiling.operations import Exchange, Product, Work, moving, product_work
from octopipe_cli.profiling.roofline import compute_seconds, exchange_seconds, filled, pass_time
from octopipe_cli.profiling.setting import Setting
from tests.profiling.hardware_examples import round_hardware

ROUND = round_hardware()


def with_figure(hardware: Hardware, **figures: float) -> Hardware:
    return msgspec.structs.replace(
        hardware, **{name: Figure(value=value, source="made up") for name, value in figures.items()}
    )


def test_work_takes_the_longer_of_flops_and_bytes() -> None:
    # 1e12 FLOPs at 50 TFLOP/s: 20 ms; 5e9 bytes at 500 GB/s: 10 ms
    time = pass_time([Work("gemm_forward", 10**12, 5 * 10**9)], ROUND)
    assert time.seconds == pytest.approx(0.02)
    assert (time.compute_seconds, time.memory_seconds, time.bound) == (pytest.approx(0.02), 0.0, "compute")
    time = pass_time([Work("gemm_forward", 10**11, 5 * 10**9), moving("memory", 10**9)], ROUND)
    assert (time.seconds, time.bound) == (pytest.approx(0.012), "bandwidth")


def test_a_kernel_takes_a_least_time_and_a_pass_what_the_host_needs() -> None:
    slow = with_figure(ROUND, kernel_us=4.0)
    assert pass_time([moving("memory", 1, 3)], slow).seconds == pytest.approx(12e-6)
    host = with_figure(ROUND, host_us=50.0)
    time = pass_time([moving("memory", 5 * 10**7, 3)], host)  # 100 us on the device, 150 us on the host
    assert (time.seconds, time.bound) == (pytest.approx(150e-6), "bandwidth")
    assert pass_time([moving("memory", 5 * 10**6, 3)], host).bound == "host"


def test_fp8_doubles_the_rate_of_products_only() -> None:
    product = product_work(Product(1, 1024, 1024, 1024), "gemm_forward", 1)
    core = Work("attention_forward", 10**12, length=4096)
    assert compute_seconds(product, ROUND, "bf16") == pytest.approx(compute_seconds(product, ROUND, "fp8"))  # 0.5 x 2
    assert compute_seconds(core, ROUND, "bf16") == compute_seconds(core, ROUND, "fp8")


def test_a_product_fills_a_device_by_whole_tiles_and_waves() -> None:
    assert filled(Product(1, 1280, 2560, 4096), 100, 1e-9) == pytest.approx(1.0)  # 10 x 10 tiles of 128 x 256
    # ten tiles too many for one wave: split in eight, with 0.8 of the rate, they waste 20 places of 900
    assert filled(Product(1, 1280 + 128, 2560, 4096), 100, 1e-9) == pytest.approx(0.8 * 880 / 900)
    assert filled(Product(1, 1280, 2560, 300), 100, 300.0) == pytest.approx(0.5)  # half depth
    assert filled(Product(1, 1, 1, 4096), 100, 300.0) < 0.001
    assert filled(Product(8, 128, 256, 512), 8, 1e-9) == pytest.approx(1.0)


def test_a_long_product_of_few_tiles_is_split() -> None:
    few = Product(1, 256, 256, 65536)
    assert filled(few, 64, 300.0) > 4 * 2 / 64


@pytest.mark.parametrize(
    ("collective", "sent", "hops"),
    [
        ("all_reduce", 1.5, 4),
        ("all_gather", 0.75, 2),
        ("reduce_scatter", 0.75, 2),
        ("all_to_all", 0.75, 2),
        ("ring", 3, 2),
    ],
)
def test_a_collective_sends_its_share(collective: str, sent: float, hops: int) -> None:
    exchange = Exchange(collective, 10**9, 4)  # type: ignore[arg-type]
    assert exchange_seconds(exchange, ROUND) == pytest.approx(sent * 1e9 / 50e9 + hops * 1e-6)


def test_a_group_across_nodes_shares_their_links() -> None:
    apart = Exchange("all_gather", 10**9, 4, 4)  # one member a node: 5 GB/s
    assert exchange_seconds(apart, ROUND) == pytest.approx(0.75 / 5 + 20e-6)
    pairs = Exchange("all_gather", 10**9, 4, 2)  # two members a node: 10 GB/s together
    assert exchange_seconds(pairs, ROUND) == pytest.approx(0.75 / 10 + 20e-6)
    scattered = Exchange("all_to_all", 10**9, 4, 2)  # each sends for itself
    assert exchange_seconds(scattered, ROUND) == pytest.approx(0.75 / 5 + 20e-6)
    assert exchange_seconds(Exchange("all_reduce", 10**9, 1), ROUND) == 0.0


def test_what_is_hidden_counts_only_where_it_is_longer() -> None:
    work = Work("gemm_forward", 10**12)  # 20 ms
    short, long = (Exchange("all_gather", size, 2, hidden=True) for size in (10**9, 4 * 10**9))  # 10 ms, 40 ms
    assert pass_time([work, short], ROUND).seconds == pytest.approx(0.02)
    assert pass_time([work, long], ROUND).seconds == pytest.approx(0.04, rel=1e-3)


#: aiconfigurator's measured H100 SXM tables, as ../shared/reference/models_and_costs.md quotes them: m, n, k, ms.
PRODUCTS = [
    (4096, 4096, 4096, 0.174),
    (4096, 6144, 4096, 0.265),
    (4096, 10240, 8192, 0.848),
    (4096, 65536, 4096, 2.89),
    (8192, 8192, 8192, 1.405),
]
#: Causal attention, head dim 128, 8 key heads: heads, positions, ms.
ATTENTION = [
    (32, 4096, 0.339),
    (32, 8192, 1.084),
    (32, 16384, 4.34),
    (64, 2048, 0.209),
    (64, 4096, 0.655),
    (64, 8192, 2.165),
    (64, 16384, 8.17),
]


@pytest.mark.parametrize(("m", "n", "k", "measured"), PRODUCTS)
def test_products_on_h100_are_as_measured(m: int, n: int, k: int, measured: float) -> None:
    work = product_work(Product(1, m, n, k), "gemm_forward", 2)
    assert pass_time([work], load_hardware("h100-sxm")).compute_seconds * 1e3 == pytest.approx(measured, rel=0.05)


@pytest.mark.parametrize(("heads", "length", "measured"), ATTENTION)
def test_attention_on_h100_is_as_measured(heads: int, length: int, measured: float) -> None:
    core = attention_core(Setting(length, 1), heads, 8, 128, 128)
    assert pass_time(core.forward, load_hardware("h100-sxm")).compute_seconds * 1e3 == pytest.approx(measured, rel=0.08)
