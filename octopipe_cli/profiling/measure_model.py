"""The layers of a config, built with transformers: one of each distinct kind, random weights, its own arguments.

The whole model is made without memory (on torch's meta device) and run once with layers that only hand their input on:
so every layer's arguments (rotary tables, masks) are what the model itself would give it. Then one layer of each
kind, the embedding and what follows the last layer get memory and weights.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from octopipe_cli.errors import InputError
from octopipe_cli.formats import Document
from octopipe_cli.formats import show as quoted
from octopipe_cli.profiling.architecture import Architecture
from octopipe_cli.profiling.configs.families import text_fields
from octopipe_cli.profiling.measure_kernels import fuse

#: Torch's names of number formats.
DTYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32", "fp64": "float64"}
#: Families that transformers has under another name.
SAME_AS = {"kimi_k2": "deepseek_v3"}
#: Keys that say how a checkpoint is stored or loaded, not what the model is.
LOADING = ("auto_map", "quantization_config", "torch_dtype", "dtype", "_name_or_path", "architectures", "pad_token_id")
TIE = "tie_word_embeddings"


@dataclass(frozen=True)
class Piece:
    """A layer that can be run.

    Parameters
    ----------
    kind, role
        As in the architecture.
    module
        What has its weights.
    run
        From its input to its output, or to the loss; the head also takes labels, and has some of its own.
    make_input
        A fresh input: a leaf that takes a gradient, but for the embedding.
    shared
        Tensors every layer of a stage uses (rotary tables, masks): not among what the layer keeps.
    """

    kind: str
    role: str
    module: Any
    run: Callable[..., Any]
    make_input: Callable[[], Any]
    shared: list[Any] = field(default_factory=list)

    @property
    def parameters(self) -> list[Any]:
        """Weights that train."""
        return [weight for weight in self.module.parameters() if weight.requires_grad]


class Layers:
    """The layers of a model, each with memory and weights from when it is asked for; MTP depths are left out.

    Parameters
    ----------
    document, architecture
        The config and what was read from it.
    dtype
        One of `DTYPES`.
    batch, length
        Sequences and positions of the input.
    fused
        Whether norms and gated activations keep what training kernels keep.

    Raises
    ------
    InputError
        Where transformers does not know the model, or builds another than the config's description.
    """

    def __init__(
        self,
        document: Document,
        architecture: Architecture,
        *,
        device: str,
        dtype: str,
        batch: int,
        length: int,
        fused: bool,
    ) -> None:
        import torch

        self.device, self.fused = device, fused
        self.model = _meta_model(document, architecture, dtype)
        decoder = [index for index, layer in enumerate(architecture.layers) if layer.role == "decoder"]
        self.architecture = architecture
        self.place = {index: place for place, index in enumerate(decoder)}
        base, self.layers = _layer_list(self.model, len(decoder), architecture)
        self.ids = torch.randint(0, architecture.vocabulary, (batch, length), device=device)
        for part in _outside(self.model, self.layers):
            _materialise(self.model, part, device, recurse=False)
        self.calls = _captured_calls(self.model, base, self.layers, self.ids)

    def hidden(self) -> Any:
        """Return hidden states as a decoder layer gets them."""
        return _hidden(*self.calls.layers[0])

    def piece(self, index: int, seed: int = 0) -> Piece:
        """Return a layer of the architecture, by its index; a decoder layer's weights are drawn with the seed."""
        layer = self.architecture.layers[index]
        if layer.role == "embedding":
            embedding = self.model.get_input_embeddings()
            return Piece(layer.kind, layer.role, embedding, embedding, lambda: self.ids)
        if layer.role == "head":
            return _head(self.model, self.calls, layer.kind, self.ids, self.fused)
        place = self.place[index]
        module = self.layers[place]
        _materialise(self.model, module, self.device, seed=seed)
        if self.fused:
            fuse(module)
        return _decoder(module, self.calls.layers[place], layer.kind, layer.role)


def pieces_of(
    document: Document, architecture: Architecture, *, device: str, dtype: str, batch: int, length: int, fused: bool
) -> Iterator[Piece]:
    """Yield the pieces of a model, one a kind, in the order of the architecture; MTP depths are left out.

    Each has memory only until the next one is asked for. Raises what `Layers` does.
    """
    layers = Layers(document, architecture, device=device, dtype=dtype, batch=batch, length=length, fused=fused)
    first = {layer.kind: index for index, layer in reversed(list(enumerate(architecture.layers)))}
    for kind, layer in architecture.kinds.items():
        if layer.role != "mtp":
            piece = layers.piece(first[kind])
            yield piece
            if layer.role == "decoder":
                piece.module.to("meta")


def _meta_model(document: Document, architecture: Architecture, dtype: str) -> Any:
    """Return the causal language model of a config without memory, in training mode."""
    import torch
    import transformers

    transformers.logging.set_verbosity_error()
    values = _text_values(document)
    family = values.pop("model_type", None) or architecture.family
    family = SAME_AS.get(family, family)
    if family not in transformers.CONFIG_MAPPING:
        raise InputError(
            f"transformers {transformers.__version__} has no model of the type {quoted(family)}",
            remedy="`octopipe profile estimate` needs none; or give another version of transformers",
        )
    try:
        config = transformers.AutoConfig.for_model(family, **values)
        config.use_cache = False
        with torch.device("meta"):
            model = transformers.AutoModelForCausalLM.from_config(config, dtype=getattr(torch, DTYPES[dtype]))
    except (ValueError, TypeError, KeyError, AttributeError, ImportError, AssertionError) as error:
        raise InputError(
            f"transformers {transformers.__version__} cannot build this model: {_first_line(error)}",
            found=quoted(family),
            remedy="`octopipe profile estimate` does without transformers",
        ) from error
    return model.train()


def _text_values(document: Document) -> dict[str, Any]:
    """Return the fields of the language model, the tie around it with them, without those about checkpoints."""
    fields = text_fields(document, "config")
    values = dict(fields.values)
    if fields.outer is not None and not fields.has(TIE) and fields.outer.has(TIE):
        values[TIE] = fields.outer.values[TIE]
    return {key: copy.deepcopy(value) for key, value in values.items() if key not in LOADING}


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).strip().splitlines()[0]


def _layer_list(model: Any, count: int, architecture: Architecture) -> tuple[Any, Any]:
    """Return the module that holds the decoder layers, and their list: the outermost one of the right length."""
    import torch

    lists = [(name, part) for name, part in model.named_modules() if isinstance(part, torch.nn.ModuleList)]
    fitting = [(name.count("."), name) for name, part in lists if len(part) == count]
    if not fitting:
        raise InputError(
            "transformers builds another number of layers than the config says",
            found=", ".join(f"{len(part)} in {name}" for name, part in lists[:3]) or "no list of layers",
            expected=f"{count}, as read from {architecture.name} ({architecture.family})",
            remedy="use `octopipe profile estimate`",
        )
    _, name = min(fitting)
    return model.get_submodule(name.rpartition(".")[0]), model.get_submodule(name)


def _outside(model: Any, layers: Any) -> list[Any]:
    """Return the modules with tensors of their own that belong to no layer."""
    inside = {id(part) for part in layers.modules()}
    return [part for part in model.modules() if id(part) not in inside and _own_tensors(part, recurse=False)]


def _own_tensors(part: Any, recurse: bool) -> list[Any]:
    return [*part.parameters(recurse=recurse), *part.buffers(recurse=recurse)]


def _materialise(model: Any, module: Any, device: str, recurse: bool = True, seed: int = 0) -> None:
    """Give a module memory and random weights, as the model's class draws them."""
    import torch

    torch.manual_seed(seed)
    module.to_empty(device=device, recurse=recurse)
    with torch.no_grad():
        for tensor in _own_tensors(module, recurse):  # what the class leaves as it is must be a number too
            tensor.fill_(1) if isinstance(tensor, torch.nn.Parameter) or tensor.is_floating_point() else tensor.zero_()
        try:
            for part in module.modules() if recurse else (module,):
                model._init_weights(part)
        except (ValueError, TypeError, AttributeError, RuntimeError) as error:
            raise InputError(
                f"transformers cannot draw weights for one layer of this model: {_first_line(error)}",
                found=type(module).__name__,
                remedy="use `octopipe profile estimate`",
            ) from error


@dataclass
class _Calls:
    """What a run of the model gave: each layer's arguments, the modules after the last layer, the base's output."""

    layers: list[tuple[tuple[Any, ...], dict[str, Any]]]
    after: list[Any]
    base: Any
    output: Any


def _captured_calls(model: Any, base: Any, layers: Any, ids: Any) -> _Calls:
    """Run the model with layers that hand their input on and return what it called, and how.

    Layers return a tensor, or a tuple of which it is the first: which, is found by trying.
    """
    import torch

    forms = (lambda hidden: hidden, lambda hidden: (hidden,), lambda hidden: (hidden, None))
    problem: BaseException | None = None
    for form in forms:
        try:
            with torch.no_grad():
                calls = _run_captured(model, base, layers, ids, form)
        except (ValueError, TypeError, IndexError, AttributeError, RuntimeError) as error:
            problem = problem or error
            continue
        shapes = {tuple(_hidden(*call).shape) for call in calls.layers}
        if len(shapes) == 1 and len(next(iter(shapes))) == 3 and len(calls.layers) == len(layers):
            return calls
    why = f": {_first_line(problem)}" if problem is not None else ""
    raise InputError(
        f"cannot run this model of transformers layer by layer{why}",
        remedy="estimate it in place of that: `octopipe profile estimate`",
    ) from problem


def _run_captured(model: Any, base: Any, layers: Any, ids: Any, form: Callable[[Any], Any]) -> _Calls:
    calls = _Calls([], [], base, None)

    def passing(*arguments: Any, **named: Any) -> Any:
        calls.layers.append((arguments, named))
        calls.after.clear()
        return form(_hidden(arguments, named))

    def keep_output(_: Any, __: Any, output: Any) -> None:
        calls.output = output

    outer = [child for child in base.children() if child is not layers]
    hooks = [child.register_forward_pre_hook(lambda part, _: calls.after.append(part)) for child in outer]
    hooks.append(base.register_forward_hook(keep_output))
    for layer in layers:
        layer.forward = passing
    try:
        model(input_ids=ids, use_cache=False)
    finally:
        for hook in hooks:
            hook.remove()
        for layer in layers:
            del layer.forward
    return calls


def _hidden(arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
    return arguments[0] if arguments else named["hidden_states"]


def _decoder(module: Any, call: tuple[tuple[Any, ...], dict[str, Any]], kind: str, role: str) -> Piece:
    arguments, named = call
    like = _hidden(arguments, named)

    def run(hidden: Any) -> Any:
        output = module(hidden, *arguments[1:], **named) if arguments else module(**named | {"hidden_states": hidden})
        return output[0] if isinstance(output, tuple) else output

    shared = list(_tensors([arguments[1:], named]))
    return Piece(kind, role, module, run, _input_like(like), shared)


def _input_like(like: Any) -> Callable[[], Any]:
    import torch

    values = torch.randn_like(like)
    return lambda: values.detach().clone().requires_grad_()


def _tensors(value: Any) -> Iterator[Any]:
    import torch

    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)


def _head(model: Any, calls: _Calls, kind: str, ids: Any, fused: bool) -> Piece:
    """Return what follows the last layer: final norm, output projection, the model's own handling of logits, loss."""
    import torch

    after = torch.nn.ModuleList([*calls.after, model.get_output_embeddings()])
    if fused:
        fuse(after)
    output = calls.output

    def base(*_: Any, inputs_embeds: Any, **__: Any) -> Any:
        hidden = inputs_embeds
        for part in after[:-1]:
            hidden = part(hidden)
        return type(output)(**{**output, "last_hidden_state": hidden})

    def run(hidden: Any, labels: Any = ids) -> Any:
        calls.base.forward = base
        try:
            return model(inputs_embeds=hidden, labels=labels, use_cache=False).loss
        finally:
            del calls.base.forward

    return Piece(kind, "head", after, run, _input_like(_hidden(*calls.layers[-1])), [ids])
