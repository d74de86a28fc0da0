"""What layers share: projections with their tensor-parallel exchanges, norms, elementwise kernels, cores."""

from __future__ import annotations

from typing import Literal, NamedTuple

from octopipe_cli.profiling.operations import Exchange, Operation, Product, Step, Work, moving, product_work
from octopipe_cli.profiling.setting import ELEMENT, Setting

Cut = Literal["none", "column", "row"]


def norm(setting: Setting, width: int, name: str = "norm", rows: int | None = None) -> Operation:
    """Return a normalisation: input read and output written; I reads both gradients' sides and the kept input.

    Its input is kept (2 bytes an element, 2205.05198 section 4.1); bound by memory.
    """
    size = ELEMENT * (setting.sharded_tokens if rows is None else rows) * width
    return Operation(
        name,
        (moving("memory", 2 * size),),
        (moving("memory", 3 * size, 2),),
        kept_bytes=size,
        gradient_bytes=size,
    )


def elementwise(
    name: str,
    read: int,
    written: int,
    back: int,
    kept: int = 0,
    kernels: int = 1,
    back_kernels: int | None = None,
    freed: int = 0,
) -> Operation:
    """Return an elementwise operation that reads and writes so many bytes forward and moves `back` bytes backward."""
    after = kernels if back_kernels is None else back_kernels
    backward = (moving("memory", back, after),) if back else ()
    forward = (moving("memory", read + written, kernels),)
    return Operation(name, forward, backward, kept_bytes=kept, freed_bytes=freed)


def residual(setting: Setting, width: int) -> Operation:
    """Return the addition of a branch to the residual stream, with its dropout (a byte of mask an element).

    I of the addition alone moves nothing: both sides take the same gradient.
    """
    elements = setting.sharded_tokens * width
    mask = elements if setting.dropout else 0
    return elementwise("residual", 2 * ELEMENT * elements, ELEMENT * elements + mask, 2 * ELEMENT * mask + mask, mask)


def projection(
    setting: Setting,
    name: str,
    inputs: int,
    outputs: int,
    *,
    cut: Cut = "none",
    rows: int | None = None,
    experts: int = 0,
    bias: bool = False,
    keep_input: bool = True,
    vocabulary: bool = False,
) -> Operation:
    """Return a matrix product with a layer's weights: Y = X A.

    Parameters
    ----------
    inputs, outputs
        Widths of the whole matrix; `cut` says which of them the tensor-parallel devices share (1909.08053): the
        outputs (column), the inputs (row), none (each device has the whole matrix).
    rows
        How many rows X has on the device: the micro-batch's positions unless given.
    experts
        How many experts share the rows, as a grouped product; 0 for a plain one.
    keep_input
        Whether X is newly kept; not where another operation keeps it already.

    Notes ----- I computes dX = dY A^T, W adds X^T dY to the weights' gradient (read and written in its own format).
    Exchanges (1909.08053, 2205.05198): a column cut all-reduces dX, a row cut all-reduces Y; with sequence
    parallelism X is gathered before and dX scattered after a column cut (X once more for W, hidden behind I), Y
    scattered and dY gathered at a row cut.
    """
    degree = setting.tensor_parallel
    m = setting.tokens if rows is None else rows
    k = inputs // degree if cut == "row" else inputs
    n = -(-outputs // degree) if cut == "column" else outputs
    batch = max(1, experts)
    m = max(1, m // batch)
    kind = "vocabulary_gemm" if vocabulary else "grouped_gemm" if experts else None
    names = (kind or "gemm_forward", kind or "gemm_input", kind or "gemm_weight")
    element, gradient = setting.factor_bytes, setting.gradient_element
    passes = (
        product_work(Product(batch, m, n, k), names[0], element, ELEMENT),
        product_work(Product(batch, m, k, n), names[1], element, ELEMENT),
        product_work(Product(batch, k, n, m), names[2], element, 2 * gradient),
    )
    around = _exchanges(setting, cut, ELEMENT * batch * m * (k if cut == "column" else n))
    bias_gradient = (moving("memory", ELEMENT * batch * m * n),) if bias else ()
    sharded = degree if cut == "column" and setting.sequence_parallel else 1
    kept = element * batch * m * k // sharded if keep_input else 0
    return Operation(
        name,
        (*around.before_forward, passes[0], *around.after_forward),
        (*around.before_input, passes[1], *around.after_input),
        (*around.before_weight, passes[2], *bias_gradient),
        kept_bytes=kept,
        weight_bytes=kept,
        gradient_bytes=ELEMENT * batch * m * n // (degree if cut == "row" and setting.sequence_parallel else 1),
        workspace_bytes=ELEMENT * batch * m * (n + k),
    )


class _Around(NamedTuple):
    """The exchanges around the passes of a projection."""

    before_forward: tuple[Step, ...] = ()
    after_forward: tuple[Step, ...] = ()
    before_input: tuple[Step, ...] = ()
    after_input: tuple[Step, ...] = ()
    before_weight: tuple[Step, ...] = ()


def _exchanges(setting: Setting, cut: Cut, size: int) -> _Around:
    """Return the exchanges around a cut projection: of its input (column) or its output (row), `size` bytes whole."""
    degree = setting.tensor_parallel
    if degree == 1 or cut == "none":
        return _Around()
    if not setting.sequence_parallel:
        reduce = (Exchange("all_reduce", size, degree),)
        return _Around(after_input=reduce) if cut == "column" else _Around(after_forward=reduce)
    gather, scatter = (Exchange("all_gather", size, degree),), (Exchange("reduce_scatter", size, degree),)
    if cut == "row":
        return _Around(after_forward=scatter, before_input=gather)
    again = (Exchange("all_gather", size, degree, hidden=True),)
    return _Around(before_forward=gather, after_input=scatter, before_weight=again)


def attention_core(
    setting: Setting,
    heads: int,
    kv_heads: int,
    key_dim: int,
    value_dim: int,
    window: int | None = None,
    chunk: int | None = None,
    beyond: float = 0.0,
    causal: bool = True,
) -> Operation:
    """Return softmax attention of queries that see what lies before them, on this device's heads.

    Parameters
    ----------
    heads, kv_heads
        On this device.
    window, chunk
        The most positions a query sees: a window that slides, or a chunk of that length.
    beyond
        Further keys that a query sees on average (compressed ones).
    causal
        Whether what lies behind a query is hidden from it.

    Notes ----- Forward: 2 FLOPs x (key + value width) for each pair of query and visible key. Flash attention
    (2205.14135) skips what the mask hides; its backward runs 5 products for the forward's 2, 2.5 x; it keeps queries,
    keys, values and a row sum (4 bytes a row), its output is the output projection's input. Without it, scores of all
    pairs are computed, and the softmax's output is kept, with dropout also its mask and result: 5 a s^2 b bytes
    (2205.05198 section 4.1). No weights, no W. Context parallelism passes keys and values around a ring (2310.01889),
    hidden behind the products.
    """
    length, tokens = setting.sequence_length, setting.tokens
    rows = tokens * heads
    width = heads * key_dim + kv_heads * (key_dim + value_dim)
    kept = ELEMENT * tokens * width
    visible = visible_keys(length, window, chunk) + beyond if causal else min(length, chunk or length)
    whole = min(window or length, chunk or length) >= length
    ring = _ring(setting, ELEMENT * tokens * kv_heads * (key_dim + value_dim))
    if setting.flash_attention:
        flops = int(2 * rows * visible * (key_dim + value_dim))
        moved = ELEMENT * tokens * (width + heads * value_dim)
        forward = Work("attention_forward", flops, moved, length=min(length, window or chunk or length))
        backward = Work("attention_backward", flops * 5 // 2, 3 * moved, length=forward.length, kernels=3)
        passes = ((forward, *ring), (backward, *ring, *ring))
        return Operation("core", *passes, kept_bytes=kept + 4 * rows, quadratic=whole)
    pairs = rows * length
    batch = setting.micro_batch_size * heads
    scores = Product(batch, length // setting.context_parallel, length, key_dim)
    values = Product(batch, length // setting.context_parallel, value_dim, length)
    products = tuple(product_work(shape, "gemm_forward", ELEMENT) for shape in (scores, values))
    masked = 3 if setting.dropout else 0
    softmax = moving("memory", (4 + (masked + 2 if masked else 0)) * pairs, 2 if masked else 1)
    softmax_back = moving("memory", (6 + (masked + 2 if masked else 0)) * pairs, 2 if masked else 1)
    return Operation(
        "core",
        (products[0], softmax, products[1], *ring),
        (*products, *products, softmax_back, *ring, *ring),
        kept_bytes=kept + (2 + masked) * pairs,
        workspace_bytes=4 * pairs,
        quadratic=True,
    )


def visible_keys(length: int, window: int | None, chunk: int | None) -> float:
    """Return how many keys a query sees on average, itself among them (half of it by the convention of FLOP counts).

    All before it: s / 2. A window of w: w (1 - w / 2 s). A chunk of c: c / 2.
    """
    if chunk is not None and chunk < length:
        return chunk / 2
    if window is not None and window < length:
        return window * (1 - window / (2 * length))
    return length / 2


def _ring(setting: Setting, size: int) -> tuple[Step, ...]:
    if setting.context_parallel == 1:
        return ()
    return (Exchange("ring", size, setting.context_parallel, setting.tensor_parallel, hidden=True),)
