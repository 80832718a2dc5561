"""Every kernel of the cupy backend that its states launch, by file: what is compiled without a GPU, and run here."""

from __future__ import annotations

from itertools import product

KINDS = ("float", "double", "bf16")
NARROW = ("float", "bf16")
NEURONS = [
    *("ELU", "Exponential", "GELU", "TanhGELU", "Hardswish", "LReLU", "Mish", "ReLU", "SELU", "STanh", "Sigmoid"),
    *("SiLU", "Softplus", "Tanh"),
]
METHODS = ["SGD", "Nesterov", "AdaGrad", "RMSProp", "CenteredRMSProp", "AdaDelta", "Adam", "AdaMax"]
COMBINED = [
    *product(("Add", "Mean", "Multiply"), ("Identity", "ReLU")),
    ("Maximum", "Identity"),
    ("Divide", "Identity"),
]
CHAINS = {
    "AbsVal": False,
    "Clip": False,
    "Exp": True,
    "Log": False,
    "Power": False,
    "Two<Add, false>, ByBottom<SiLU>": False,
    "ByTop<Sigmoid>, Two<Multiply, true>, Two<Add, false>, ByTop<ReLU>": False,
    "ByTop<Sigmoid>, Dropout": False,
    "Dropout, ByTop<ReLU>": True,
    "ByBottom<GELU>, Dropout, Two<Add, false>, Two<Multiply, true>, ByTop<Tanh>": False,
    "Two<Maximum, false>, Two<Divide, true>, Two<Mean, false>, ByBottom<GELU>, Two<Add, true>, ByTop<Tanh>": False,
}
"""Links of chains, and whether backward reads the top alone; a net may have others."""
EXPRESSIONS: dict[str, list[str]] = {
    "chain": [
        f"chain_{way}Chain<{links}>>"
        for links, top in CHAINS.items()
        for kind in KINDS
        for way in (f"forward<{kind}, ", f"backward<{kind}, {str(top).lower()}, ")
    ],
    "pooling": [
        f"{what}_{way}<{kind}, {more}{deep}>"
        for way, kind, deep in product(("forward", "backward"), KINDS, ("false", "true"))
        for what, more in (("max", "u8, "), ("max", "int, "), ("mean", ""))
    ],
    "lrn": [f"lrn_{way}<{kind}>" for way, kind in product(("forward", "backward"), KINDS)],
    "elementwise": [
        *(
            f"{kernel}<{kind}, {one}>"
            for kernel in ("activate", "activate_backward")
            for kind in KINDS
            for one in NEURONS
        ),
        *(f"penalise<{kind}, {penalty}>" for kind in KINDS[:2] for penalty in ("L1", "L2")),
        *(
            f"{kernel}<{kind}, {operation}, {neuron}>"
            for kernel in ("combine", "combine_backward")
            for kind in KINDS
            for operation, neuron in COMBINED
        ),
    ],
    "update": [f"update<{kind}, {method}>" for kind in KINDS[:2] for method in METHODS],
    "loss": [
        *(f"softmax_loss_rows<{kind}, {alone}>" for kind in KINDS for alone in ("true", "false")),
        *(f"softmax_loss_total<{wide}>" for wide in KINDS[:2]),
        *(f"softmax_loss_gradient<{kind}>" for kind in KINDS),
    ],
    "convert": [f"convert<{kind}, {stored}>" for kind in KINDS for stored in ("u8", "float")],
    "batch_norm": [
        *(
            f"batch_norm_{one}<{kind}>"
            for one in ("moments", "slopes", "measure", "apply", "backward")
            for kind in KINDS
        ),
        *(f"batch_norm_{one}<{wide}>" for one in ("follow", "total") for wide in KINDS[:2]),
    ],
    "bias": [
        *(f"bias_{what}<{kind}>" for what in ("add", "parts") for kind in KINDS),
        *(f"bias_total<{wide}>" for wide in KINDS[:2]),
    ],
    "embedding": [
        *(f"embedding_{what}<{kind}>" for what in ("forward", "parts", "total") for kind in KINDS),
        *("embedding_sort", "embedding_merge"),
    ],
    "norm": [f"norm_{what}<{kind}>" for what in ("forward", "backward", "columns") for kind in KINDS],
    "one_hot": [f"one_hot<{kind}>" for kind in KINDS],
    "squares": [
        f"{name}<{kind}>" for name, kind in product(("square_images", "square_filters", "filters_of_squares"), NARROW)
    ],
    "blobs": [
        *(f"{way}_to<{to}, {kind}>" for way, to, kind in product(("convert", "transpose", "swap"), NARROW, NARROW)),
        *("swap_to<double, double>", "swap_to<double, float>", "swap_to<float, double>"),
        *("swap_to<bf16, double>", "convert_to<bf16, double>"),
        *(f"add_to<{kind}>" for kind in NARROW),
        *(f"copy_rows<{kind}>" for kind in KINDS),
        "transpose_to<double, double>",
    ],
    "dot": [f"dot_{what}<{kind}>" for what in ("parts", "total") for kind in KINDS[:2]],
    "random": ["uniform<float>", "uniform<double>"],
    "recurrent": [
        *(f"{cell}_{way}<{kind}>" for cell in ("lstm", "gru") for way in ("forward", "backward") for kind in KINDS[:2]),
        *(
            f"rnn_{way}<{kind}, {one}>"
            for way in ("forward", "backward")
            for kind in KINDS[:2]
            for one in ("Bent", "Cut")
        ),
    ],
    "dropout": [f"dropout_{way}<{kind}>" for way, kind in product(("forward", "backward"), KINDS)],
}
