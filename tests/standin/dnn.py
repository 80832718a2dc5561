"""A stand-in for cuDNN's frontend over NumPy: graphs of convolutions and of BatchNorm, with what dnn.json says it has.

What a graph was built with decides what `execute` computes, on the stand-in's streams: sizes that do not fit, another
type among its arrays, a method called too early, or an array that is missing are errors, as they are in the frontend.
"""

import ctypes
import enum
import json
import pickle
from hashlib import sha256
from itertools import product
from math import prod
from pathlib import Path

import numpy as np
from cublaslt import BF16, bits_of, rounded, widened
from numpy.lib.stride_tricks import as_strided

INTERFACE = json.loads(Path(__file__).with_name("dnn.json").read_text(encoding="utf-8"))
data_type, heur_mode, numerical_note = (
    enum.Enum(name, INTERFACE["enums"][name]) for name in ("data_type", "heur_mode", "numerical_note")
)
TYPES = {data_type.FLOAT: np.dtype(np.float32), data_type.BFLOAT16: np.dtype(np.uint16)}
IN_TF32 = 77


class cudnnGraphNotSupportedError(Exception):
    """As the frontend's."""


class Handle:
    """cuDNN on one stream."""

    stream = 0


class Tensor:
    """An array of a graph, or a number on its way from one operation to the next."""

    def __init__(self, name, dim=None, stride=None, kind=None, virtual=True, by_value=False):
        self.name, self.dim, self.stride, self.kind, self.virtual = name, dim, stride, kind, virtual
        self.uid, self.by_value = -1, by_value

    def set_output(self, value):
        self.virtual = not value
        return self

    def set_data_type(self, dtype):
        self.kind = dtype
        return self

    def set_dim(self, dim):
        self.dim = list(dim)
        return self

    def set_stride(self, stride):
        self.stride = list(stride)
        return self

    def set_uid(self, uid):
        self.uid = uid
        return self

    def at(self, address):
        """Return the array at an address, and its numbers in float32."""
        extent = sum((size - 1) * step for size, step in zip(self.dim, self.stride, strict=True)) + 1
        if self.kind == data_type.BOOLEAN:  # eight of them are a byte
            flat = np.frombuffer((ctypes.c_char * -(-extent // 8)).from_address(address), np.uint8)
            bits = np.unpackbits(flat, count=extent, bitorder="little")
            return flat, as_strided(bits, self.dim, self.stride).astype(np.float32)
        kind = TYPES[self.kind]
        flat = np.frombuffer((ctypes.c_char * (extent * kind.itemsize)).from_address(address), kind)
        array = as_strided(flat, self.dim, [kind.itemsize * step for step in self.stride], writeable=True)
        return array, widened(array, BF16 if kind == np.uint16 else None)

    def put(self, address, numbers):
        """Write numbers of float32 to an address, rounded to the tensor's type."""
        array, _ = self.at(address)
        if self.kind == data_type.BOOLEAN:
            laid = np.empty(prod(self.dim), np.uint8)
            as_strided(laid, self.dim, self.stride, writeable=True)[...] = numbers
            array[...] = np.packbits(laid, bitorder="little")
        else:
            array[...] = bits_of(numbers) if array.dtype == np.uint16 else numbers


class Frontend:
    """The module `cudnn` over a stand-in for CuPy; a graph with an operation in `lacks` has no plan."""

    __version__ = INTERFACE["version"]
    data_type, heur_mode, numerical_note = data_type, heur_mode, numerical_note
    cudnnGraphNotSupportedError = cudnnGraphNotSupportedError

    def __init__(self, cupy):
        self.cupy = cupy
        self.handles, self.lacks, self.ran, self.built = [], set(), [], []

    def backend_version_string(self):
        return "9.26.0"

    def create_handle(self):
        self.handles.append(Handle())
        return self.handles[-1]

    def set_stream(self, handle, stream):
        handle.stream = stream

    def create_device_properties(self, device_id=0):
        return f"device {device_id}"

    def pygraph(self, **given):
        return Graph(self, **given)


class Graph:
    """A convolution or one of its gradients, or BatchNorm or its gradients, with what may be behind it or before."""

    def __init__(
        self,
        frontend,
        name="",
        io_data_type=None,
        intermediate_data_type=None,
        compute_data_type=None,
        handle=None,
        device_property=None,
    ):
        assert device_property or handle in frontend.handles, "a graph needs a handle, or a description of a device"
        wide = intermediate_data_type, compute_data_type
        assert wide == (data_type.FLOAT if io_data_type else None,) * 2, "cuDNN adds up convolutions in float32"
        self.frontend, self.io = frontend, io_data_type
        self.tensors, self.nodes, self.done, self.plans, self.barred, self.most = [], [], "", [], set(), None
        self.chosen = None

    def tensor(self, dim, stride, data_type=None, is_pass_by_value=False, name=""):
        return self._new(Tensor(name, list(dim), list(stride), data_type or self.io, False, is_pass_by_value))

    def _new(self, tensor):
        self.tensors.append(tensor)
        return tensor

    def _add(self, mode, inputs, **attributes):
        assert all(one in self.tensors for one in inputs), "a tensor of another graph"
        self.nodes.append((mode, inputs, self._new(Tensor(mode)), attributes))
        return self.nodes[-1][2]

    def conv_fprop(self, image, weight, pre_padding, post_padding, stride, dilation):
        windows = pre_padding, post_padding, stride, dilation
        return self._add("forward", [image, weight], windows=windows)

    def conv_dgrad(self, loss, filter, pre_padding, post_padding, stride, dilation):
        return self._add("data", [loss, filter], windows=(pre_padding, post_padding, stride, dilation))

    def conv_wgrad(self, image, loss, pre_padding, post_padding, stride, dilation):
        return self._add("weight", [image, loss], windows=(pre_padding, post_padding, stride, dilation))

    def bias(self, input, bias):
        return self._add("bias", [input, bias])

    def add(self, a, b):
        return self._add("add", [a, b])

    def relu(self, input):
        return self._add("relu", [input])

    def mul(self, a, b):
        return self._add("mul", [a, b])

    def cmp_gt(self, input, comparison):
        return self._add("cmp_gt", [input, comparison])

    def batchnorm(self, input, scale, bias, in_running_mean, in_running_var, epsilon, momentum):
        given = [input, scale, bias, in_running_mean, in_running_var, epsilon, momentum]
        more = [self._new(Tensor(name)) for name in ("mean", "inv_variance", "next_mean", "next_variance")]
        return [self._add("norm", given, more=more), *more]

    def batchnorm_backward(self, grad, input, scale, mean, inv_variance):
        more = [self._new(Tensor(name)) for name in ("dscale", "dbias")]
        return [self._add("norm_backward", [grad, input, scale, mean, inv_variance], more=more), *more]

    def sdpa(self, **given):
        assert given.keys() <= ATTENTION | {"generate_stats"} and given["generate_stats"]
        stats = self._new(Tensor("stats"))
        tensors = [given.pop(name) for name in "qkv"]
        return [self._add("sdpa", tensors, more=[stats], **given), stats]

    def sdpa_backward(self, **given):
        assert given.keys() <= ATTENTION | {"o", "dO", "stats", "use_deterministic_algorithm"}
        more = [self._new(Tensor(name)) for name in ("dK", "dV")]
        tensors = [given.pop(name) for name in ("q", "k", "v", "o", "dO", "stats")]
        return [self._add("sdpa_backward", tensors, more=more, **given), *more]

    def _step(self, after, now):
        assert self.done == after, f"{now} comes after {after or 'nothing'}, not after {self.done or 'nothing'}"
        self.done = now

    def validate(self):
        self._step("", "validate")
        if self.nodes[0][0].startswith("sdpa"):
            self._validate_attention()
            return
        norm = any(node[0] in NORMS for node in self.nodes)
        for one in self.tensors:
            small = norm and one.dim and one.dim[0] == prod(one.dim[2:]) == 1
            kind = (
                data_type.BOOLEAN if norm and one.name in ("mask", "cmp_gt") else data_type.FLOAT if small else self.io
            )
            numbered = one.virtual or (one.uid >= 0 and one.dim and one.stride and one.kind == kind)
            assert numbered, f"tensor {one.name}: dim, stride, uid, or a type of its own"
            assert one.virtual or len(one.dim) == len(one.stride) == (4 if norm else len(self._roles()[0].dim))
        assert len({one.uid for one in self.tensors if not one.virtual}) == sum(not t.virtual for t in self.tensors)
        if norm:
            self._validate_norm()
            return
        (mode, _, made, how), *behind = self.nodes
        last = behind[-1][2] if behind else made
        assert not last.virtual, "nothing is an output"
        image, weight, top = self._roles()
        assert top.dim == tops(image.dim, weight.dim, *how["windows"]), f"{mode}: the sizes do not fit"
        groups = image.dim[1] / weight.dim[1]
        assert groups == int(groups) and weight.dim[0] % groups == 0, f"{mode}: no such groups"
        for kind, given, _, _ in behind:
            assert mode == "forward" and given[0] in (node[2] for node in self.nodes), "not a chain"
            wanted = {"bias": [1, top.dim[1], *[1] * (len(top.dim) - 2)], "add": top.dim}.get(kind)
            assert wanted is None or given[1].dim == wanted, f"{kind}: the sizes do not fit"

    def _validate_norm(self):
        """Check the sizes, and that it is one of the graphs that cuDNN has plans for."""
        modes = [node[0] for node in self.nodes]
        assert modes in NORM_GRAPHS, f"no such graph: {modes}"
        mode, given, _, how = next(node for node in self.nodes if node[0] in NORMS)
        images = given[mode == "norm_backward"]
        channels = [1, images.dim[1], 1, 1]
        assert all(not one.virtual and one.dim == channels for one in how["more"]), "a result without a place"
        per_channel = given[1:5] if mode == "norm" else given[2:]
        assert all(one.dim == channels for one in per_channel), f"{mode}: the sizes do not fit"
        numbers = [one for one in self.tensors if one.by_value]
        compared = [node[1][1] for node in self.nodes if node[0] == "cmp_gt"]
        assert numbers == ([*given[5:], *compared] if mode == "norm" else []), "numbers of the host are of one value"
        wide = [one for one in self.tensors if not one.virtual and one not in numbers and one.dim != channels]
        assert all(one.dim == images.dim for one in wide), f"{mode}: the sizes do not fit"
        if self.io == data_type.BFLOAT16:  # what is between operations is rounded, too
            between = [node[2] for node in self.nodes if node[2].virtual]
            assert all(one.kind == self.io for one in between), "cuDNN has no plan with wider numbers in between"

    def _validate_attention(self):
        """Check sizes and types: queries and keys of all heads, and the numbers that backward needs."""
        (mode, (q, k, v, *behind), made, how) = self.nodes[0]
        (images, heads, rows, head), keys = q.dim, k.dim[2]
        assert self.io == data_type.BFLOAT16 and head % 8 == 0 and head <= 128, "cuDNN has no such attention"
        wanted = [[images, heads, keys, head]] * 2
        shapes = [k.dim, v.dim]
        if mode == "sdpa":
            tops, levels = [made], how["more"][0]
        else:
            tops, levels = [*behind[:2], made], behind[2]
            wanted, shapes = wanted * 2, [*shapes, *(one.dim for one in how["more"])]
        assert shapes == wanted and all(one.dim == q.dim for one in tops), f"{mode}: the sizes do not fit"
        assert levels.dim == [images, heads, rows, 1] and levels.kind == data_type.FLOAT, f"{mode}: of another type"
        others = [one for one in self.tensors if one is not levels]
        assert all(one.kind == self.io and one.uid > 0 and not one.virtual for one in others), "a type of its own"

    def _roles(self):
        """Return the images, the filters and the top."""
        mode, (first, second), made, _ = self.nodes[0]
        last = self.nodes[-1][2]
        return {"forward": (first, second, last), "data": (made, second, first), "weight": (first, made, second)}[mode]

    def build_operation_graph(self):
        self._step("validate", "build_operation_graph")

    def create_execution_plans(self, heuristics):
        self._step("build_operation_graph", "create_execution_plans")
        assert heur_mode.FALLBACK in heuristics
        if self.frontend.lacks & {mode for mode, _, _, _ in self.nodes}:
            raise cudnnGraphNotSupportedError("no engine proposed a plan for this graph\nand more")
        note = numerical_note
        fast = {note.TENSOR_CORE} if self.io == data_type.FLOAT else set()
        self.plans = [
            ("huge", {note.TENSOR_CORE}, 1 << 40),
            ("any order", {note.NONDETERMINISTIC, *fast}, 0),
            ("fast", fast, 4096),
            ("exact", set(), 100),
            ("exact, too", set(), 0),
            ("unnoted", set(), 0),  # in TF32, and nothing says so
        ]

    def deselect_numeric_notes(self, notes):
        assert self.plans, "filters of plans are for plans that are there"
        self.barred |= set(notes)
        return self

    def deselect_workspace_greater_than(self, workspace_limit):
        self.most = workspace_limit
        return self

    def key(self):
        assert self.done, "a graph has a key once it is valid"
        described = [(one.name, one.uid, one.dim, one.stride, str(one.kind)) for one in self.tensors]
        text = str((described, [(mode, str(how)) for mode, _, _, how in self.nodes if "more" not in how]))
        return int.from_bytes(sha256(text.encode()).digest()[:8], "little")

    def serialize(self):
        assert self.chosen is not None, "no plan"
        return list(pickle.dumps({name: value for name, value in vars(self).items() if name != "frontend"}))

    def deserialize(self, *given):
        handle, data = given
        assert handle in self.frontend.handles and not self.tensors, "no handle, or a graph with tensors"
        try:
            self.__dict__ |= pickle.loads(bytes(data))  # noqa: S301 (what it has pickled itself)
        except pickle.UnpicklingError as error:
            raise cudnnGraphNotSupportedError("no serialized graph") from error

    def get_execution_plan_count(self):
        return len(self.plans)

    def build_plan_at_index(self, index):
        _, notes, size = self.plans[index]
        if notes & self.barred or (self.most is not None and size > self.most):
            raise cudnnGraphNotSupportedError("the plan was deselected")
        self.chosen = index
        self.frontend.built.append(self)

    def get_plan_name_at_index(self, index):
        return self.plans[index][0]

    def get_workspace_size_plan_at_index(self, index):
        return self.plans[index][2]

    def execute(self, tensor_dict, workspace=None, handle=None):
        assert handle in self.frontend.handles and self.chosen is not None, "no handle, or no plan"
        name, notes, size = self.plans[self.chosen]
        needed = {one.uid: one for one in self.tensors if not one.virtual}
        for uid, one in needed.items():
            if not tensor_dict.get(uid):
                raise ValueError(f"the variant pack is missing a buffer for tensor uid {uid} ({one.name!r})")
        assert set(tensor_dict) == set(needed), f"uids of no tensor: {set(tensor_dict) - set(needed)}"
        on_device = [address for uid, address in tensor_dict.items() if not needed[uid].by_value]
        assert all(address % 16 == 0 for address in on_device), "an array that is not aligned"
        assert workspace or not size, f"plan {name!r} needs {size} bytes of workspace"
        places = dict(tensor_dict)
        numbers = {one.uid: float(one.at(places[one.uid])[1].item()) for one in needed.values() if one.by_value}
        inexact = numerical_note.TENSOR_CORE in notes or name == "unnoted"
        fast = IN_TF32 if self.io == data_type.FLOAT and inexact else None
        self.frontend.ran.append((self.nodes[0][0], name, len(self.nodes)))

        def run():
            ctypes.memset(workspace or 0, 0xFF, size if workspace else 0)  # nobody else has anything there
            if self.nodes[0][0] in CONVOLUTIONS:
                self._compute(places, fast)
            elif self.nodes[0][0].startswith("sdpa"):
                self._compute_attention(places)
            else:
                self._compute_norm(places, numbers)

        self.frontend.cupy._machine.streams[handle.stream].enqueue(run)

    def _compute(self, places, fast):
        (mode, given, made, how), *behind = self.nodes
        factors = [rounded(np.ascontiguousarray(one.at(places[one.uid])[1]), fast) for one in given]
        image, weight, _ = self._roles()
        found = {"forward": forward, "data": data, "weight": filters}[mode](
            *factors, image.dim, weight.dim, *how["windows"]
        )
        for kind, inputs, result, _ in behind:
            found = np.maximum(found, 0) if kind == "relu" else found + inputs[1].at(places[inputs[1].uid])[1]
            made = result
        made.put(places[made.uid], found)

    def _compute_norm(self, places, numbers):
        """Compute BatchNorm, or its gradients, in float64; what is of bf16 in between is rounded."""
        values = {}

        def value(one):
            return values[id(one)] if id(one) in values else one.at(places[one.uid])[1].astype(np.float64)

        for mode, given, made, how in self.nodes:
            if mode == "norm":
                x, scale, bias, mean, variance = map(value, given[:5])
                epsilon, share = (numbers[one.uid] for one in given[5:])
                count = x.size // x.shape[1]
                found = x.mean((0, 2, 3), keepdims=True), x.var((0, 2, 3), keepdims=True)
                slope = 1 / np.sqrt(found[1] + epsilon)
                result = (x - found[0]) * slope * scale + bias
                follow = found[0], found[1] * count / max(count - 1, 1)
                news = (old + share * (new - old) for old, new in zip((mean, variance), follow, strict=True))
                more = found[0], slope, *news
            elif mode == "norm_backward":
                dy, x, scale, mean, slope = map(value, given)
                normal = (x - mean) * slope
                more = [(dy * one).sum((0, 2, 3), keepdims=True) for one in (normal, 1)]
                count = x.size // x.shape[1]
                result = (dy - more[1] / count - normal * more[0] / count) * scale * slope
            else:
                first, second = value(given[0]), None if mode == "relu" else given[1]
                second = numbers.get(second.uid) if mode == "cmp_gt" else second and value(second)
                result = OPERATIONS[mode](first, second)
                more = ()
            if made.virtual and made.kind == data_type.BFLOAT16:
                result = widened(bits_of(result), BF16).astype(np.float64)
            values[id(made)] = result
            for one, numbers_of in zip([made, *how.get("more", ())], [result, *more], strict=True):
                if not one.virtual:
                    one.put(places[one.uid], numbers_of)

    def _compute_attention(self, places):
        """Compute attention, or its gradients, in float64."""
        mode, given, made, how = self.nodes[0]
        q, k, v, *behind = (one.at(places[one.uid])[1].astype(np.float64) for one in given)
        scores = q @ k.swapaxes(2, 3) * how["attn_scale"]
        if how["use_causal_mask"]:
            scores[..., np.triu(np.ones(scores.shape[2:], bool), 1)] = -np.inf
        if mode == "sdpa":
            most = scores.max(axis=3, keepdims=True)
            levels = most + np.log(np.exp(scores - most).sum(axis=3, keepdims=True))
            results = [np.exp(scores - levels) @ v, levels]
        else:
            y, dy, levels = behind
            weights = np.exp(scores - levels)
            dscores = weights * (dy @ v.swapaxes(2, 3) - (dy * y).sum(axis=3, keepdims=True)) * how["attn_scale"]
            results = [dscores @ k, dscores.swapaxes(2, 3) @ q, weights.swapaxes(2, 3) @ dy]
        for one, numbers in zip([made, *how["more"]], results, strict=True):
            one.put(places[one.uid], numbers)


ATTENTION = {"q", "k", "v", "attn_scale", "use_causal_mask"}
OPERATIONS = {
    "add": np.add,
    "mul": np.multiply,
    "cmp_gt": np.greater,
    "relu": lambda one, _: np.maximum(one, 0),
}
CONVOLUTIONS = ("forward", "data", "weight")
NORMS = ("norm", "norm_backward")
NORM_GRAPHS = (
    *(["norm"], ["norm", "relu", "cmp_gt"], ["norm", "add", "relu", "cmp_gt"]),
    *(["norm_backward"], ["mul", "norm_backward"]),
)
"""Operations that cuDNN computes together: it has no plan for others, such as a sum without a ReLU."""


def tops(image, weight, before, behind, stride, dilation):
    """Return the shape of a convolution's result."""
    counts = (
        (size + p + q - (k - 1) * d - 1) // step + 1
        for size, p, q, k, d, step in zip(image[2:], before, behind, weight[2:], dilation, stride, strict=True)
    )
    return [image[0], weight[0], *counts]


def cells(image, weight, before, behind, stride, dilation):
    """Yield for each cell of a filter its index, and that of the pixels of padded images that it meets."""
    counts = tops(image, weight, before, behind, stride, dilation)[2:]
    for cell in product(*map(range, weight[2:])):
        starts = [one * far for one, far in zip(cell, dilation, strict=True)]
        ends = (start + (count - 1) * step + 1 for start, count, step in zip(starts, counts, stride, strict=True))
        yield cell, tuple(slice(*one) for one in zip(starts, ends, stride, strict=True))


def padded(shape, before, behind):
    """Return images of zeros with their padding, and the index of the images in it."""
    sizes = [size + p + q for size, p, q in zip(shape[2:], before, behind, strict=True)]
    inside = tuple(slice(p, p + size) for p, size in zip(before, shape[2:], strict=True))
    return np.zeros((*shape[:2], *sizes), np.float32), (..., *inside)


def grouped(array, groups, axis):
    """Return an array with the groups as an axis before the channels, and its pixels as one axis."""
    shape = array.shape
    return array.reshape(*shape[:axis], groups, shape[axis] // groups, *shape[axis + 1 : 2], prod(shape[2:]))


def forward(x, w, image, weight, *windows):
    """Return the convolution."""
    groups, shape = image[1] // weight[1], tops(image, weight, *windows)
    pixels, inside = padded(image, *windows[:2])
    pixels[inside] = x
    total = np.zeros((shape[0], groups, shape[1] // groups, prod(shape[2:])), np.float32)
    for cell, index in cells(image, weight, *windows):
        of_cell = w[(..., *cell)].reshape(groups, -1, weight[1])
        total += np.matmul(of_cell, grouped(pixels[(..., *index)], groups, 1))
    return total.reshape(shape)


def data(dy, w, image, weight, *windows):
    """Return the gradient of the images."""
    groups = image[1] // weight[1]
    pixels, inside = padded(image, *windows[:2])
    for cell, index in cells(image, weight, *windows):
        of_cell = w[(..., *cell)].reshape(groups, -1, weight[1]).transpose(0, 2, 1)
        pixels[(..., *index)] += np.matmul(of_cell, grouped(dy, groups, 1)).reshape(image[0], image[1], *dy.shape[2:])
    return pixels[inside]


def filters(x, dy, image, weight, *windows):
    """Return the gradient of the filters."""
    groups = image[1] // weight[1]
    pixels, inside = padded(image, *windows[:2])
    pixels[inside] = x
    found = np.zeros(weight, np.float32)
    for cell, index in cells(image, weight, *windows):
        of_images = np.matmul(grouped(dy, groups, 1), grouped(pixels[(..., *index)], groups, 1).swapaxes(2, 3))
        found[(..., *cell)] = of_images.sum(axis=0).reshape(weight[:2])
    return found
