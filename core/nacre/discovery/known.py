"""Names that are known elsewhere: an unknown name then says what to install, or what it is called here."""

from __future__ import annotations

from collections.abc import Iterable

from ..errors import nearest

KNOWN = {
    "nacre-forward-twice": ("algorithm/ForwardTwice",),
    "nacre-parquet": ("store/Parquet", "ending/.parquet"),
    "nacre-serve": ("command/serve",),
    "nacre-swirl": ("layer/Swirl",),
    "nacre-torch": (
        "layer/Torch",
        "torch_module/BatchNorm2d",
        "torch_module/Conv2d",
        "torch_module/LSTM",
        "torch_module/Linear",
    ),
    "nacre-transformer": ("layer/Attention", "layer/DotProductAttention", "layer/Positions", "layer/TransformerBlock"),
}
"""What each offers besides kernels, as "kind/Name"; also the endings of the files that its stores read."""

OF_OTHERS = {
    "layer/InnerProduct": "Linear Dense",
    "layer/Convolution": "Conv1d Conv2d Conv3d",
    "layer/Deconvolution": "ConvTranspose1d ConvTranspose2d ConvTranspose3d Conv1DTranspose Conv2DTranspose",
    "layer/Pooling": "MaxPool1d MaxPool2d MaxPool3d MaxPooling1D MaxPooling2D MaxPooling3D "
    "AvgPool1d AvgPool2d AvgPool3d AveragePooling1D AveragePooling2D AveragePooling3D",
    "layer/AdaptivePooling": "AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveMaxPool1d AdaptiveMaxPool2d",
    "layer/GlobalPooling": "GlobalAveragePooling1D GlobalAveragePooling2D GlobalMaxPooling1D GlobalMaxPooling2D",
    "layer/BatchNorm": "BatchNorm1d BatchNorm2d BatchNorm3d BatchNormalization",
    "layer/LayerNorm": "LayerNormalization",
    "layer/GroupNorm": "InstanceNorm1d InstanceNorm2d InstanceNorm3d GroupNormalization",
    "layer/Dropout": "Dropout1d Dropout2d Dropout3d",
    "layer/Resize": "Upsample UpSampling2D Resizing Interpolate",
    "layer/Pad": "ZeroPad2d ConstantPad2d ReplicationPad2d ReflectionPad2d ZeroPadding2D",
    "layer/Concat": "Concatenate Cat",
    "layer/ElementWise": "Add Subtract Multiply",
    "layer/RNN": "SimpleRNN",
    "layer/Transpose": "Permute",
    "layer/SoftmaxLoss": "CrossEntropyLoss SparseCategoricalCrossentropy",
    "layer/SoftlabelSoftmaxLoss": "CategoricalCrossentropy",
    "layer/MultinomialLogisticLoss": "NLLLoss",
    "layer/SigmoidCrossEntropyLoss": "BCEWithLogitsLoss",
    "layer/BinaryCrossEntropyLoss": "BCELoss BinaryCrossentropy",
    "layer/KLDivergenceLoss": "KLDivLoss KLDivergence",
    "layer/SquareLoss": "MSELoss MeanSquaredError",
    "layer/HuberLoss": "SmoothL1Loss Huber",
    "layer/SumLoss": "L1Loss",
    "layer/LReLU": "LeakyReLU leaky_relu",
    "layer/Clip": "ReLU6 Hardtanh",
    "neuron/LReLU": "LeakyReLU leaky_relu",
    "neuron/SiLU": "swish",
    "initializer/Xavier": "glorot_uniform glorot_normal xavier_uniform xavier_normal",
    "initializer/He": "he_uniform he_normal kaiming_uniform kaiming_normal",
    "backend/cupy": "cuda gpu",
    "backend/onednn": "cpu",
}
"""What is called otherwise in PyTorch and Keras, as "kind/Name", and how."""


def meant(kind: str, name: str, known: Iterable[str]) -> str:
    """Return ` (did you mean 'x'?)` for the known name that a name of another library, or a misspelt one, means."""
    known = list(known)
    for here, others in OF_OTHERS.items():
        whose, _, ours = here.partition("/")
        if whose == kind and ours in known and name.casefold() in others.casefold().split():
            return f" (did you mean '{ours}'?)"
    return nearest(name, known)


def known_remedy(kind: str, name: str) -> str:
    """Return which known distribution offers a name, and how to install it, or ""."""
    whose, _, short = name.rpartition(":")
    found = [one for one, offers in KNOWN.items() if f"{kind}/{short}" in offers and whose in ("", one)]
    return f"{found[0]} offers it: pip install {found[0]}" if found else ""
