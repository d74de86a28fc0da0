"""The blocks of a layer: dimensions and exact parameter counts, the norms and biases inside a block with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

Gate = Literal["none", "element", "head"]


class Block(Protocol):
    """A piece of a layer."""

    @property
    def parameters(self) -> int:
        """Weights it stores."""

    @property
    def active_parameters(self) -> int:
        """Weights a token meets."""


class Dense:
    """Base of the blocks in which every token meets every weight."""

    @property
    def parameters(self) -> int:
        """Weights it stores."""
        raise NotImplementedError

    @property
    def active_parameters(self) -> int:
        """Weights a token meets: all."""
        return self.parameters


@dataclass(frozen=True)
class Norm(Dense):
    """A normalisation over `width` elements; `scale` and `bias` say which of its vectors it has.

    `parts` pieces of a position are normalised each by itself, with the same weights.
    """

    width: int
    bias: bool = False
    scale: bool = True
    parts: int = 1

    @property
    def parameters(self) -> int:
        """Weights it stores."""
        return self.width * (self.scale + self.bias)


@dataclass(frozen=True)
class Linear(Dense):
    """A plain projection."""

    inputs: int
    outputs: int
    bias: bool = False

    @property
    def parameters(self) -> int:
        """Weights it stores."""
        return self.outputs * (self.inputs + self.bias)


@dataclass(frozen=True)
class Attention(Dense):
    """Softmax attention with grouped queries, from `inputs` elements (None: `hidden`) to `hidden`.

    Parameters
    ----------
    window, chunk
        The most positions a query sees: a sliding window, or (Llama 4) its chunk of that length.
    qk_norm, qk_norm_parameters
        Whether queries and keys are normalised, and how many weights that has (none, per head, per width).
    gate
        A sigmoid gate on the core's output: for each element, for each head, or none.
    sinks
        A learned logit for each head in the softmax (gpt-oss).
    value_is_key, shares_kv
        No projection for the values (Gemma 4's global layers); none for keys either: those of an earlier layer are
        used again.
    extra_parameters
        Weights of small parts that nothing here describes otherwise (adapters).
    causal, rotary
        Whether a query sees only what lies before it (else all, or its whole chunk); whether queries and keys are
        rotated, where the model's are.
    """

    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    value_head_dim: int | None = None
    inputs: int | None = None
    window: int | None = None
    chunk: int | None = None
    qkv_bias: bool = False
    output_bias: bool = False
    qk_norm: bool = False
    qk_norm_parameters: int = 0
    gate: Gate = "none"
    sinks: bool = False
    value_is_key: bool = False
    shares_kv: bool = False
    extra_parameters: int = 0
    causal: bool = True
    rotary: bool = True

    @property
    def value_dim(self) -> int:
        """Width of a head's values."""
        return self.head_dim if self.value_head_dim is None else self.value_head_dim

    @property
    def qkv_width(self) -> int:
        """Width of queries, keys and values together, as projected (no gate)."""
        keys = 0 if self.shares_kv else self.kv_heads * self.head_dim
        values = 0 if self.shares_kv or self.value_is_key else self.kv_heads * self.value_dim
        return self.heads * self.head_dim + keys + values

    @property
    def gate_width(self) -> int:
        """Width of the gate's projection."""
        return {"none": 0, "element": self.heads * self.value_dim, "head": self.heads}[self.gate]

    @property
    def parameters(self) -> int:
        """Weights it stores."""
        inputs = self.hidden if self.inputs is None else self.inputs
        projected = inputs * (self.qkv_width + self.gate_width) + self.qkv_bias * self.qkv_width
        output = self.heads * self.value_dim * self.hidden + self.output_bias * self.hidden
        return projected + output + self.qk_norm_parameters + self.sinks * self.heads + self.extra_parameters


@dataclass(frozen=True)
class Indexer(Dense):
    """The lightning indexer of sparse latent attention (DeepSeek V3.2): which `top_k` positions a query sees."""

    hidden: int
    query_rank: int
    heads: int
    head_dim: int
    top_k: int

    @property
    def parameters(self) -> int:
        """Weights it stores: queries from the latent, keys, their layer norm, a weight for each head."""
        keys = self.hidden * self.head_dim + 2 * self.head_dim
        return self.query_rank * self.heads * self.head_dim + keys + self.hidden * self.heads


@dataclass(frozen=True)
class LatentAttention(Dense):
    """Multi-head latent attention (DeepSeek V2, 2405.04434): queries and keys/values from low-rank latents.

    `query_rank` None: queries straight from the hidden states. A head has `nope_dim` + `rope_dim` elements of queries
    and keys, the rope part of the keys shared by all heads, and `value_dim` of values.
    """

    hidden: int
    heads: int
    query_rank: int | None
    kv_rank: int
    nope_dim: int
    rope_dim: int
    value_dim: int
    bias: bool = False
    indexer: Indexer | None = None
    output_gate: bool = False

    @property
    def head_dim(self) -> int:
        """Width of a head's queries and keys."""
        return self.nope_dim + self.rope_dim

    @property
    def parameters(self) -> int:
        """Weights it stores, the norms of both latents with them."""
        width = self.heads * self.head_dim
        if self.query_rank is None:
            query = self.hidden * width
        else:
            query = self.hidden * self.query_rank + self.bias * self.query_rank + self.query_rank * (1 + width)
        down = self.hidden * (self.kv_rank + self.rope_dim) + self.bias * (self.kv_rank + self.rope_dim)
        up = self.kv_rank * (1 + self.heads * (self.nope_dim + self.value_dim))
        output = (1 + self.output_gate) * self.heads * self.value_dim * self.hidden + self.bias * self.hidden
        return query + down + up + output + (self.indexer.parameters if self.indexer else 0)


@dataclass(frozen=True)
class LinearAttention(Dense):
    """Attention with a decaying state in place of the softmax (lightning attention): Q, K, V, norm, output gate."""

    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    norm_width: int
    qkv_bias: bool = False
    qk_norm_parameters: int = 0
    output_gate: bool = True
    chunk: int = 256

    @property
    def parameters(self) -> int:
        """Weights it stores."""
        width = self.heads * self.head_dim
        qkv = width + 2 * self.kv_heads * self.head_dim
        projected = self.hidden * (qkv + width * self.output_gate) + self.qkv_bias * qkv
        return projected + width * self.hidden + self.norm_width + self.qk_norm_parameters


@dataclass(frozen=True)
class GatedDeltaNet(Dense):
    """The gated delta rule (2412.06464) as in Qwen3-Next: convolution over Q, K, V, decay and beta, gated norm."""

    hidden: int
    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    conv_width: int
    chunk: int = 64

    @property
    def conv_channels(self) -> int:
        """Channels of the convolution: queries, keys, values."""
        return 2 * self.key_heads * self.key_dim + self.value_heads * self.value_dim

    @property
    def parameters(self) -> int:
        """Weights it stores: Q, K, V, gate z, beta and decay, convolution, dt bias and A, norm, output."""
        values = self.value_heads * self.value_dim
        projected = self.hidden * (self.conv_channels + values + 2 * self.value_heads)
        inner = self.conv_channels * self.conv_width + 2 * self.value_heads + self.value_dim
        return projected + inner + values * self.hidden


@dataclass(frozen=True)
class KimiDeltaAttention(Dense):
    """Kimi delta attention (2510.26692): a delta rule whose decay is for each channel, from a low-rank projection.

    The gate on its output is of low rank too, unless `full_rank_gate`.
    """

    hidden: int
    heads: int
    head_dim: int
    conv_width: int
    full_rank_gate: bool = False
    chunk: int = 64

    @property
    def parameters(self) -> int:
        """Weights it stores: Q, K, V, their convolutions, low-rank decay and gate, beta, A, dt bias, norm, output."""
        width = self.heads * self.head_dim
        qkv = 3 * width * (self.hidden + self.conv_width)
        low_rank = self.head_dim * (self.hidden + width)
        gate = self.hidden * width if self.full_rank_gate else low_rank
        scalars = self.hidden * self.heads + self.heads + width + self.head_dim
        return qkv + low_rank + gate + scalars + width * self.hidden


@dataclass(frozen=True)
class Mamba1(Dense):
    """A selective state space block (2312.00752); `inner_norms` are Jamba's norms of dt, B and C."""

    hidden: int
    inner: int
    state: int
    conv_width: int
    dt_rank: int
    bias: bool = False
    conv_bias: bool = True
    inner_norms: bool = False

    @property
    def parameters(self) -> int:
        """Weights it stores: input, convolution, x and dt projections, A, D, output."""
        projected = 2 * self.inner * (self.hidden + self.bias) + self.inner * (self.conv_width + self.conv_bias)
        selected = self.dt_rank + 2 * self.state
        scan = self.inner * selected + self.inner * (self.dt_rank + 1) + self.inner * (self.state + 1)
        return projected + scan + self.inner_norms * selected + self.hidden * (self.inner + self.bias)


@dataclass(frozen=True)
class Mamba2(Dense):
    """A Mamba-2 block (2405.21060): inner width heads x head_dim, B and C for each group, a scalar decay a head.

    `gated_norm` is the norm over the inner width before the output; `output_bias` the output projection's bias where
    it differs from the input's (`bias`).
    """

    hidden: int
    heads: int
    head_dim: int
    groups: int
    state: int
    conv_width: int
    chunk: int
    bias: bool = False
    conv_bias: bool = True
    gated_norm: bool = True
    output_bias: bool | None = None

    @property
    def inner(self) -> int:
        """Width inside."""
        return self.heads * self.head_dim

    @property
    def conv_channels(self) -> int:
        """Channels of the convolution: x, B, C."""
        return self.inner + 2 * self.groups * self.state

    @property
    def projected_width(self) -> int:
        """Width of the input projection: z, x, B, C, dt."""
        return self.inner + self.conv_channels + self.heads

    @property
    def parameters(self) -> int:
        """Weights it stores: input, convolution, A, D and dt bias, norm, output."""
        inputs = self.projected_width * (self.hidden + self.bias)
        inner = self.conv_channels * (self.conv_width + self.conv_bias) + 3 * self.heads + self.gated_norm * self.inner
        bias = self.bias if self.output_bias is None else self.output_bias
        return inputs + inner + self.hidden * (self.inner + bias)


@dataclass(frozen=True)
class ShortConvolution(Dense):
    """A doubly gated short convolution (LFM2): three projections, a depthwise convolution, an output projection."""

    hidden: int
    conv_width: int
    bias: bool = False

    @property
    def parameters(self) -> int:
        """Weights it stores."""
        return 4 * self.hidden * (self.hidden + self.bias) + self.hidden * (self.conv_width + self.bias)


@dataclass(frozen=True)
class Mlp(Dense):
    """A feed-forward block: two matrices, or three where `gated`."""

    hidden: int
    intermediate: int
    gated: bool = True
    bias: bool = False
    extra_parameters: int = 0

    @property
    def parameters(self) -> int:
        """Weights it stores."""
        up = (1 + self.gated) * self.intermediate * (self.hidden + self.bias)
        return up + self.hidden * (self.intermediate + self.bias) + self.extra_parameters


@dataclass(frozen=True)
class Moe:
    """A mixture of experts: a router picks `active` of `experts` for each token; shared experts see every token.

    Parameters
    ----------
    intermediate
        Width of one routed expert.
    shared_intermediate
        Width of all shared experts together, 0 for none; `shared_gate` is a sigmoid gate on them (one output).
    latent, latent_norm
        Routed experts work on projections of this width (Nemotron 3 Super), None on the hidden states themselves;
        their sum is normalised before it is projected back (Kimi K3).
    router_bias, correction_bias
        A bias of the router's projection; a bias of the choice alone (DeepSeek V3), one number an expert each.
    zero_experts
        Experts that do nothing and have no weights, but a row in the router (LongCat).
    router_scales
        Weights of the router beside its matrix and biases (Gemma 4).
    """

    hidden: int
    experts: int
    active: int
    intermediate: int
    gated: bool = True
    bias: bool = False
    shared_intermediate: int = 0
    shared_gate: bool = False
    shared_bias: bool = False
    latent: int | None = None
    latent_norm: bool = False
    router_bias: bool = False
    correction_bias: bool = False
    zero_experts: int = 0
    router_scales: int = 0

    @property
    def expert(self) -> Mlp:
        """One routed expert."""
        return Mlp(self.hidden if self.latent is None else self.latent, self.intermediate, self.gated, self.bias)

    @property
    def shared(self) -> Mlp | None:
        """The shared experts as one feed-forward block."""
        if not self.shared_intermediate:
            return None
        return Mlp(self.hidden, self.shared_intermediate, self.gated, self.shared_bias)

    @property
    def always(self) -> int:
        """Weights every token meets: router, shared experts and their gate, projections to and from the latent."""
        rows = self.experts + self.zero_experts
        router = rows * (self.hidden + self.router_bias + self.correction_bias) + self.router_scales
        shared = self.shared.parameters + self.shared_gate * self.hidden if self.shared else 0
        return router + shared + (0 if self.latent is None else self.latent * (2 * self.hidden + self.latent_norm))

    @property
    def parameters(self) -> int:
        """Weights it stores."""
        return self.always + self.experts * self.expert.parameters

    @property
    def active_parameters(self) -> int:
        """Weights a token meets."""
        return self.always + self.active * self.expert.parameters


@dataclass(frozen=True)
class DepthAttention(Dense):
    """A softmax over the outputs of `sources` blocks of layers, what a layer reads in place of their sum (Kimi K3)."""

    hidden: int
    sources: int

    @property
    def parameters(self) -> int:
        """Weights it stores: a norm and a projection to one logit."""
        return 2 * self.hidden


@dataclass(frozen=True)
class Parallel:
    """Branches that read the same input and whose outputs are summed."""

    branches: tuple[Block, ...]

    @property
    def parameters(self) -> int:
        """Weights it stores."""
        return sum(block.parameters for block in self.branches)

    @property
    def active_parameters(self) -> int:
        """Weights a token meets."""
        return sum(block.active_parameters for block in self.branches)


@dataclass(frozen=True)
class Shared:
    """Blocks whose weights several layers use: group number `group`, stored by the layer where `owner`."""

    blocks: tuple[Block, ...]
    group: int
    owner: bool

    @property
    def parameters(self) -> int:
        """Weights it stores here."""
        return sum(block.parameters for block in self.blocks) if self.owner else 0

    @property
    def active_parameters(self) -> int:
        """Weights a token meets that are stored here (each weight is counted once for a model)."""
        return sum(block.active_parameters for block in self.blocks) if self.owner else 0


@dataclass(frozen=True)
class Embedding(Dense):
    """The token embedding, with learned positions and types of a position where a family has them."""

    vocabulary: int
    hidden: int
    positions: int = 0
    width: int | None = None

    @property
    def parameters(self) -> int:
        """Weights it stores; where `width` differs from `hidden`, the projection to it too."""
        width = self.hidden if self.width is None else self.width
        projection = 0 if width == self.hidden else width * self.hidden
        return self.vocabulary * width + projection + self.positions * self.hidden


@dataclass(frozen=True)
class Head(Dense):
    """The output projection and the loss, for `predictions` positions a token (1 + MTP depths).

    `soft_capped` says whether logits go through a scaled tanh (Gemma 2, 2408.00118).
    """

    vocabulary: int
    hidden: int
    tied: bool = False
    bias: bool = False
    predictions: int = 1
    width: int | None = None
    soft_capped: bool = False

    @property
    def parameters(self) -> int:
        """Weights it stores itself: none of the matrix where it is the embedding's."""
        width = self.hidden if self.width is None else self.width
        projection = 0 if width == self.hidden else width * self.hidden
        return self.vocabulary * (width * (not self.tied) + self.bias) + projection
