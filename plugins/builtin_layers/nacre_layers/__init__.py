"""nacre's own layers, neurons, initializers, regularizers and pooling functions, and contrastive divergence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nacre import hookimpl, lazy

if TYPE_CHECKING:
    from nacre import Identity as Identity

    from .constraints import L2Norm as L2Norm
    from .containers.connections import Connection as Connection
    from .containers.connections import Customised as Customised
    from .containers.connections import FirstToLast as FirstToLast
    from .containers.connections import OneToAll as OneToAll
    from .containers.connections import OneToOne as OneToOne
    from .containers.repeat import RepeatLayer as RepeatLayer
    from .containers.residual import ResidualLayer as ResidualLayer
    from .containers.sequential import SequentialLayer as SequentialLayer
    from .containers.unroll import UnrollLayer as UnrollLayer
    from .convolution.convolution import ConvolutionLayer as ConvolutionLayer
    from .convolution.deconvolution import DeconvolutionLayer as DeconvolutionLayer
    from .convolution.im2col import Im2colLayer as Im2colLayer
    from .elementwise.activation import ActivationLayer as ActivationLayer
    from .elementwise.dropout import DropoutLayer as DropoutLayer
    from .elementwise.element_wise import Add as Add
    from .elementwise.element_wise import Average as Average
    from .elementwise.element_wise import Divide as Divide
    from .elementwise.element_wise import ElementWiseFunction as ElementWiseFunction
    from .elementwise.element_wise import ElementWiseLayer as ElementWiseLayer
    from .elementwise.element_wise import Maximum as Maximum
    from .elementwise.element_wise import Multiply as Multiply
    from .elementwise.element_wise import Subtract as Subtract
    from .elementwise.functions import AbsValLayer as AbsValLayer
    from .elementwise.functions import ClipLayer as ClipLayer
    from .elementwise.functions import ExpLayer as ExpLayer
    from .elementwise.functions import LogLayer as LogLayer
    from .elementwise.functions import PowerLayer as PowerLayer
    from .elementwise.functions import ThresholdLayer as ThresholdLayer
    from .elementwise.glu import GLULayer as GLULayer
    from .elementwise.random_mask import RandomMaskLayer as RandomMaskLayer
    from .elementwise.softmax import SoftmaxLayer as SoftmaxLayer
    from .energy.contrastive_divergence import CD as CD
    from .energy.rbm_hidden import RBMHiddenLayer as RBMHiddenLayer
    from .energy.rbm_visible import RBMVisibleLayer as RBMVisibleLayer
    from .initializers import Bilinear as Bilinear
    from .initializers import Constant as Constant
    from .initializers import Gaussian as Gaussian
    from .initializers import GaussianSqrtFanIn as GaussianSqrtFanIn
    from .initializers import He as He
    from .initializers import Orthogonal as Orthogonal
    from .initializers import PositiveUnitball as PositiveUnitball
    from .initializers import Pretrained as Pretrained
    from .initializers import Uniform as Uniform
    from .initializers import UniformSqrtFanIn as UniformSqrtFanIn
    from .initializers import UniformSqrtFanInOut as UniformSqrtFanInOut
    from .initializers import Xavier as Xavier
    from .initializers import XavierFanIn as XavierFanIn
    from .linear.bias import BiasLayer as BiasLayer
    from .linear.embedding import EmbeddingLayer as EmbeddingLayer
    from .linear.inner_product import InnerProductLayer as InnerProductLayer
    from .linear.mat_mul import MatMulLayer as MatMulLayer
    from .linear.parameter import ParameterLayer as ParameterLayer
    from .linear.prelu import PReLULayer as PReLULayer
    from .linear.scale import ScaleLayer as ScaleLayer
    from .linear.tied_inner_product import TiedInnerProductLayer as TiedInnerProductLayer
    from .losses.binary_cross_entropy_loss import BinaryCrossEntropyLossLayer as BinaryCrossEntropyLossLayer
    from .losses.class_softmax_loss import ClassSoftmaxLossLayer as ClassSoftmaxLossLayer
    from .losses.class_softmax_loss import class_starts as class_starts
    from .losses.contrastive_loss import ContrastiveLossLayer as ContrastiveLossLayer
    from .losses.gaussian_kl_loss import GaussianKLLossLayer as GaussianKLLossLayer
    from .losses.hinge_loss import HingeLossLayer as HingeLossLayer
    from .losses.huber_loss import HuberLossLayer as HuberLossLayer
    from .losses.infogain_loss import InfogainLossLayer as InfogainLossLayer
    from .losses.kl_divergence_loss import KLDivergenceLossLayer as KLDivergenceLossLayer
    from .losses.multinomial_logistic_loss import MultinomialLogisticLossLayer as MultinomialLogisticLossLayer
    from .losses.sigmoid_cross_entropy_loss import SigmoidCrossEntropyLossLayer as SigmoidCrossEntropyLossLayer
    from .losses.softlabel_softmax_loss import SoftlabelSoftmaxLossLayer as SoftlabelSoftmaxLossLayer
    from .losses.softmax_loss import SoftmaxLossLayer as SoftmaxLossLayer
    from .losses.square_loss import SquareLossLayer as SquareLossLayer
    from .losses.sum_loss import SumLossLayer as SumLossLayer
    from .losses.wasserstein_loss import WassersteinLossLayer as WassersteinLossLayer
    from .metrics.accuracy import AccuracyLayer as AccuracyLayer
    from .metrics.average_precision import AveragePrecisionLayer as AveragePrecisionLayer
    from .metrics.binary_accuracy import BinaryAccuracyLayer as BinaryAccuracyLayer
    from .metrics.calibration_error import CalibrationErrorLayer as CalibrationErrorLayer
    from .metrics.confusion_matrix import ConfusionMatrixLayer as ConfusionMatrixLayer
    from .metrics.iou import IoULayer as IoULayer
    from .metrics.mean_absolute_error import MeanAbsoluteErrorLayer as MeanAbsoluteErrorLayer
    from .metrics.perplexity import PerplexityLayer as PerplexityLayer
    from .metrics.precision_recall import PrecisionRecallLayer as PrecisionRecallLayer
    from .metrics.r2 import R2Layer as R2Layer
    from .metrics.roc_auc import ROCAUCLayer as ROCAUCLayer
    from .metrics.top_k_accuracy import TopKAccuracyLayer as TopKAccuracyLayer
    from .neurons import ELU as ELU
    from .neurons import GELU as GELU
    from .neurons import SELU as SELU
    from .neurons import Exponential as Exponential
    from .neurons import Hardswish as Hardswish
    from .neurons import LReLU as LReLU
    from .neurons import Mish as Mish
    from .neurons import ReLU as ReLU
    from .neurons import Sigmoid as Sigmoid
    from .neurons import SiLU as SiLU
    from .neurons import Softplus as Softplus
    from .neurons import STanh as STanh
    from .neurons import Tanh as Tanh
    from .normalisation.batch_norm import BatchNormLayer as BatchNormLayer
    from .normalisation.group_norm import GroupNormLayer as GroupNormLayer
    from .normalisation.layer_norm import LayerNormLayer as LayerNormLayer
    from .normalisation.lrn import LRNLayer as LRNLayer
    from .normalisation.mvn import MVNLayer as MVNLayer
    from .normalisation.rms_norm import RMSNormLayer as RMSNormLayer
    from .pooling.adaptive_pooling import AdaptivePoolingLayer as AdaptivePoolingLayer
    from .pooling.channel_pooling import ChannelPoolingLayer as ChannelPoolingLayer
    from .pooling.functions import Max as Max
    from .pooling.functions import Mean as Mean
    from .pooling.functions import PoolingFunction as PoolingFunction
    from .pooling.functions import Stochastic as Stochastic
    from .pooling.global_pooling import GlobalPoolingLayer as GlobalPoolingLayer
    from .pooling.pooling import PoolingLayer as PoolingLayer
    from .pooling.spp import SPPLayer as SPPLayer
    from .random_nets import RandomNet as RandomNet
    from .recurrent.gru import GRULayer as GRULayer
    from .recurrent.lstm import LSTMLayer as LSTMLayer
    from .recurrent.rnn import RNNLayer as RNNLayer
    from .regularizers import L1 as L1
    from .regularizers import L2 as L2
    from .shapes.argmax import ArgmaxLayer as ArgmaxLayer
    from .shapes.bridge_dst import BridgeDstLayer as BridgeDstLayer
    from .shapes.bridge_src import BridgeSrcLayer as BridgeSrcLayer
    from .shapes.concat import ConcatLayer as ConcatLayer
    from .shapes.crop import CropLayer as CropLayer
    from .shapes.crop_like import CropLikeLayer as CropLikeLayer
    from .shapes.flatten import FlattenLayer as FlattenLayer
    from .shapes.index2onehot import Index2OnehotLayer as Index2OnehotLayer
    from .shapes.one_hot import OneHotLayer as OneHotLayer
    from .shapes.pad import PadLayer as PadLayer
    from .shapes.reduction import ReductionLayer as ReductionLayer
    from .shapes.reshape import ReshapeLayer as ReshapeLayer
    from .shapes.resize import ResizeLayer as ResizeLayer
    from .shapes.silence import SilenceLayer as SilenceLayer
    from .shapes.slice import SliceLayer as SliceLayer
    from .shapes.split import SplitLayer as SplitLayer
    from .shapes.stack import StackLayer as StackLayer
    from .shapes.stop_gradient import StopGradientLayer as StopGradientLayer
    from .shapes.tile import TileLayer as TileLayer
    from .shapes.transpose import TransposeLayer as TransposeLayer
    from .shapes.unstack import UnstackLayer as UnstackLayer
    from .shapes.zeros import ZerosLayer as ZerosLayer

nacre_api = "1"

LAYERS = {
    "AbsVal": "nacre_layers.elementwise.functions:AbsValLayer",
    "Accuracy": "nacre_layers.metrics.accuracy:AccuracyLayer",
    "Activation": "nacre_layers.elementwise.activation:ActivationLayer",
    "AdaptivePooling": "nacre_layers.pooling.adaptive_pooling:AdaptivePoolingLayer",
    "Argmax": "nacre_layers.shapes.argmax:ArgmaxLayer",
    "AveragePrecision": "nacre_layers.metrics.average_precision:AveragePrecisionLayer",
    "BatchNorm": "nacre_layers.normalisation.batch_norm:BatchNormLayer",
    "Bias": "nacre_layers.linear.bias:BiasLayer",
    "BinaryAccuracy": "nacre_layers.metrics.binary_accuracy:BinaryAccuracyLayer",
    "BinaryCrossEntropyLoss": "nacre_layers.losses.binary_cross_entropy_loss:BinaryCrossEntropyLossLayer",
    "BridgeDst": "nacre_layers.shapes.bridge_dst:BridgeDstLayer",
    "BridgeSrc": "nacre_layers.shapes.bridge_src:BridgeSrcLayer",
    "CalibrationError": "nacre_layers.metrics.calibration_error:CalibrationErrorLayer",
    "ChannelPooling": "nacre_layers.pooling.channel_pooling:ChannelPoolingLayer",
    "ClassSoftmaxLoss": "nacre_layers.losses.class_softmax_loss:ClassSoftmaxLossLayer",
    "Clip": "nacre_layers.elementwise.functions:ClipLayer",
    "Concat": "nacre_layers.shapes.concat:ConcatLayer",
    "ConfusionMatrix": "nacre_layers.metrics.confusion_matrix:ConfusionMatrixLayer",
    "ContrastiveLoss": "nacre_layers.losses.contrastive_loss:ContrastiveLossLayer",
    "Convolution": "nacre_layers.convolution.convolution:ConvolutionLayer",
    "Crop": "nacre_layers.shapes.crop:CropLayer",
    "CropLike": "nacre_layers.shapes.crop_like:CropLikeLayer",
    "Deconvolution": "nacre_layers.convolution.deconvolution:DeconvolutionLayer",
    "Dropout": "nacre_layers.elementwise.dropout:DropoutLayer",
    "ElementWise": "nacre_layers.elementwise.element_wise:ElementWiseLayer",
    "Embedding": "nacre_layers.linear.embedding:EmbeddingLayer",
    "Exp": "nacre_layers.elementwise.functions:ExpLayer",
    "Flatten": "nacre_layers.shapes.flatten:FlattenLayer",
    "GLU": "nacre_layers.elementwise.glu:GLULayer",
    "GRU": "nacre_layers.recurrent.gru:GRULayer",
    "GaussianKLLoss": "nacre_layers.losses.gaussian_kl_loss:GaussianKLLossLayer",
    "GlobalPooling": "nacre_layers.pooling.global_pooling:GlobalPoolingLayer",
    "GroupNorm": "nacre_layers.normalisation.group_norm:GroupNormLayer",
    "HingeLoss": "nacre_layers.losses.hinge_loss:HingeLossLayer",
    "HuberLoss": "nacre_layers.losses.huber_loss:HuberLossLayer",
    "Im2col": "nacre_layers.convolution.im2col:Im2colLayer",
    "Index2Onehot": "nacre_layers.shapes.index2onehot:Index2OnehotLayer",
    "InfogainLoss": "nacre_layers.losses.infogain_loss:InfogainLossLayer",
    "InnerProduct": "nacre_layers.linear.inner_product:InnerProductLayer",
    "IoU": "nacre_layers.metrics.iou:IoULayer",
    "KLDivergenceLoss": "nacre_layers.losses.kl_divergence_loss:KLDivergenceLossLayer",
    "LRN": "nacre_layers.normalisation.lrn:LRNLayer",
    "LSTM": "nacre_layers.recurrent.lstm:LSTMLayer",
    "LayerNorm": "nacre_layers.normalisation.layer_norm:LayerNormLayer",
    "Log": "nacre_layers.elementwise.functions:LogLayer",
    "MVN": "nacre_layers.normalisation.mvn:MVNLayer",
    "MatMul": "nacre_layers.linear.mat_mul:MatMulLayer",
    "MeanAbsoluteError": "nacre_layers.metrics.mean_absolute_error:MeanAbsoluteErrorLayer",
    "MultinomialLogisticLoss": "nacre_layers.losses.multinomial_logistic_loss:MultinomialLogisticLossLayer",
    "OneHot": "nacre_layers.shapes.one_hot:OneHotLayer",
    "PReLU": "nacre_layers.linear.prelu:PReLULayer",
    "Pad": "nacre_layers.shapes.pad:PadLayer",
    "Parameter": "nacre_layers.linear.parameter:ParameterLayer",
    "Perplexity": "nacre_layers.metrics.perplexity:PerplexityLayer",
    "Pooling": "nacre_layers.pooling.pooling:PoolingLayer",
    "Power": "nacre_layers.elementwise.functions:PowerLayer",
    "PrecisionRecall": "nacre_layers.metrics.precision_recall:PrecisionRecallLayer",
    "R2": "nacre_layers.metrics.r2:R2Layer",
    "RBMHidden": "nacre_layers.energy.rbm_hidden:RBMHiddenLayer",
    "RBMVisible": "nacre_layers.energy.rbm_visible:RBMVisibleLayer",
    "RMSNorm": "nacre_layers.normalisation.rms_norm:RMSNormLayer",
    "RNN": "nacre_layers.recurrent.rnn:RNNLayer",
    "ROCAUC": "nacre_layers.metrics.roc_auc:ROCAUCLayer",
    "RandomMask": "nacre_layers.elementwise.random_mask:RandomMaskLayer",
    "Reduction": "nacre_layers.shapes.reduction:ReductionLayer",
    "Repeat": "nacre_layers.containers.repeat:RepeatLayer",
    "Reshape": "nacre_layers.shapes.reshape:ReshapeLayer",
    "Residual": "nacre_layers.containers.residual:ResidualLayer",
    "Resize": "nacre_layers.shapes.resize:ResizeLayer",
    "SPP": "nacre_layers.pooling.spp:SPPLayer",
    "Scale": "nacre_layers.linear.scale:ScaleLayer",
    "Sequential": "nacre_layers.containers.sequential:SequentialLayer",
    "SigmoidCrossEntropyLoss": "nacre_layers.losses.sigmoid_cross_entropy_loss:SigmoidCrossEntropyLossLayer",
    "Silence": "nacre_layers.shapes.silence:SilenceLayer",
    "Slice": "nacre_layers.shapes.slice:SliceLayer",
    "SoftlabelSoftmaxLoss": "nacre_layers.losses.softlabel_softmax_loss:SoftlabelSoftmaxLossLayer",
    "Softmax": "nacre_layers.elementwise.softmax:SoftmaxLayer",
    "SoftmaxLoss": "nacre_layers.losses.softmax_loss:SoftmaxLossLayer",
    "Split": "nacre_layers.shapes.split:SplitLayer",
    "SquareLoss": "nacre_layers.losses.square_loss:SquareLossLayer",
    "Stack": "nacre_layers.shapes.stack:StackLayer",
    "StopGradient": "nacre_layers.shapes.stop_gradient:StopGradientLayer",
    "SumLoss": "nacre_layers.losses.sum_loss:SumLossLayer",
    "Threshold": "nacre_layers.elementwise.functions:ThresholdLayer",
    "TiedInnerProduct": "nacre_layers.linear.tied_inner_product:TiedInnerProductLayer",
    "Tile": "nacre_layers.shapes.tile:TileLayer",
    "TopKAccuracy": "nacre_layers.metrics.top_k_accuracy:TopKAccuracyLayer",
    "Transpose": "nacre_layers.shapes.transpose:TransposeLayer",
    "Unroll": "nacre_layers.containers.unroll:UnrollLayer",
    "Unstack": "nacre_layers.shapes.unstack:UnstackLayer",
    "WassersteinLoss": "nacre_layers.losses.wasserstein_loss:WassersteinLossLayer",
    "Zeros": "nacre_layers.shapes.zeros:ZerosLayer",
}
NEURONS = {
    "BNLL": "nacre_layers.neurons:Softplus",  # Caffe's name
    "ELU": "nacre_layers.neurons:ELU",
    "Exponential": "nacre_layers.neurons:Exponential",
    "GELU": "nacre_layers.neurons:GELU",
    "Hardswish": "nacre_layers.neurons:Hardswish",
    "Identity": "nacre.protocols.components:Identity",
    "LReLU": "nacre_layers.neurons:LReLU",
    "Mish": "nacre_layers.neurons:Mish",
    "ReLU": "nacre_layers.neurons:ReLU",
    "SELU": "nacre_layers.neurons:SELU",
    "STanh": "nacre_layers.neurons:STanh",
    "SiLU": "nacre_layers.neurons:SiLU",
    "Sigmoid": "nacre_layers.neurons:Sigmoid",
    "Softplus": "nacre_layers.neurons:Softplus",
    "Tanh": "nacre_layers.neurons:Tanh",
}
INITIALIZERS = {
    "Bilinear": "nacre_layers.initializers:Bilinear",
    "Constant": "nacre_layers.initializers:Constant",
    "Gaussian": "nacre_layers.initializers:Gaussian",
    "GaussianSqrtFanIn": "nacre_layers.initializers:GaussianSqrtFanIn",
    "He": "nacre_layers.initializers:He",
    "Orthogonal": "nacre_layers.initializers:Orthogonal",
    "PositiveUnitball": "nacre_layers.initializers:PositiveUnitball",
    "Pretrained": "nacre_layers.initializers:Pretrained",
    "Uniform": "nacre_layers.initializers:Uniform",
    "UniformSqrtFanIn": "nacre_layers.initializers:UniformSqrtFanIn",
    "UniformSqrtFanInOut": "nacre_layers.initializers:UniformSqrtFanInOut",
    "Xavier": "nacre_layers.initializers:Xavier",
    "XavierFanIn": "nacre_layers.initializers:XavierFanIn",
}
CONSTRAINTS = {"L2Norm": "nacre_layers.constraints:L2Norm"}
REGULARIZERS = {"L1": "nacre_layers.regularizers:L1", "L2": "nacre_layers.regularizers:L2"}
LAYERS_OF = {
    "neuron": "nacre_layers.elementwise.activation:ActivationLayer",
    "copies": "nacre_layers.shapes.split:SplitLayer",
    "slice": "nacre_layers.shapes.slice:SliceLayer",
    "concat": "nacre_layers.shapes.concat:ConcatLayer",
    "bridge_src": "nacre_layers.shapes.bridge_src:BridgeSrcLayer",
    "bridge_dst": "nacre_layers.shapes.bridge_dst:BridgeDstLayer",
}
POOLINGS = {
    "Max": "nacre_layers.pooling.functions:Max",
    "Mean": "nacre_layers.pooling.functions:Mean",
    "Stochastic": "nacre_layers.pooling.functions:Stochastic",
}
ELEMENT_WISE = {
    "Add": "nacre_layers.elementwise.element_wise:Add",
    "Divide": "nacre_layers.elementwise.element_wise:Divide",
    "Maximum": "nacre_layers.elementwise.element_wise:Maximum",
    "Mean": "nacre_layers.elementwise.element_wise:Average",
    "Multiply": "nacre_layers.elementwise.element_wise:Multiply",
    "Subtract": "nacre_layers.elementwise.element_wise:Subtract",
}
CONNECTIONS = {
    "Customised": "nacre_layers.containers.connections:Customised",
    "FirstToLast": "nacre_layers.containers.connections:FirstToLast",
    "OneToAll": "nacre_layers.containers.connections:OneToAll",
    "OneToOne": "nacre_layers.containers.connections:OneToOne",
}

BASES = {  # of the kinds of components that this package brings: nobody offers them
    "connection": "nacre_layers.containers.connections:Connection",
    "elementwise": "nacre_layers.elementwise.element_wise:ElementWiseFunction",
    "pooling": "nacre_layers.pooling.functions:PoolingFunction",
}
ALGORITHMS = {"CD": "nacre_layers.energy.contrastive_divergence:CD"}
ELSEWHERE = {  # in PyTorch and Keras
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
    "layer/Clip": "ReLU6 Hardtanh",
    "neuron/LReLU": "LeakyReLU leaky_relu",
    "neuron/SiLU": "swish",
    "initializer/Xavier": "glorot_uniform glorot_normal xavier_uniform xavier_normal",
    "initializer/He": "he_uniform he_normal kaiming_uniform kaiming_normal",
}
OTHERS = {
    "RandomNet": "nacre_layers.random_nets:RandomNet",
    "class_starts": "nacre_layers.losses.class_softmax_loss:class_starts",
}


@hookimpl
def offer_layers() -> dict[str, str]:
    return LAYERS


@hookimpl
def offer_components() -> dict[str, dict[str, str]]:
    return {
        "neuron": NEURONS,
        "initializer": INITIALIZERS,
        "regularizer": REGULARIZERS,
        "constraint": CONSTRAINTS,
        "pooling": POOLINGS,
        "elementwise": ELEMENT_WISE,
        "connection": CONNECTIONS,
        "algorithm": ALGORITHMS,
        "layer_of": LAYERS_OF,
        "number_of": {"initializer": INITIALIZERS["Constant"]},
    }


@hookimpl
def offer_names_elsewhere() -> dict[str, str]:
    return ELSEWHERE


__getattr__ = lazy(
    __name__,
    LAYERS,
    NEURONS,
    INITIALIZERS,
    REGULARIZERS,
    POOLINGS,
    ELEMENT_WISE,
    CONNECTIONS,
    CONSTRAINTS,
    ALGORITHMS,
    BASES,
    OTHERS,
)
