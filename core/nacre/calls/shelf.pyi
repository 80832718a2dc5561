"""L: the layers of all plugins by their names. Made by docs/make_stub.py."""
# pyright: reportIncompatibleMethodOverride=false
# mypy: disable-error-code="override"

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any, Literal, overload

from nacre.calls.handles import Call, Top
from nacre.fields.component import Written
from nacre.net.input import InputLayer
from nacre.protocols.components import Constraint
from nacre.protocols.components import Initializer
from nacre.protocols.components import Neuron
from nacre.protocols.components import Regularizer
from nacre.protocols.components import Transformer
from nacre.protocols.data_store import Store
from nacre.protocols.layer import Layer
from nacre_data.async_hdf5_data import AsyncHDF5DataLayer
from nacre_data.csv_data import CSVDataLayer
from nacre_data.data import DataLayer
from nacre_data.hdf5_data import HDF5DataLayer
from nacre_data.image_data import ImageDataLayer
from nacre_data.iterable_data import IterableDataLayer
from nacre_data.lmdb_data import LMDBDataLayer
from nacre_data.memory_data import MemoryDataLayer
from nacre_data.memory_output import MemoryOutputLayer
from nacre_data.numpy_data import NumpyDataLayer
from nacre_data.output import CSVOutputLayer
from nacre_data.output import HDF5OutputLayer
from nacre_data.output import JSONLOutputLayer
from nacre_data.output import LMDBOutputLayer
from nacre_data.output import NumpyOutputLayer
from nacre_data.output import OutputLayer
from nacre_data.output import ShardOutputLayer
from nacre_data.parsers.label import LabelLayer
from nacre_data.parsers.mnist_image import MnistImageLayer
from nacre_data.parsers.rgb_image import RGBImageLayer
from nacre_data.prefetch import PrefetchLayer
from nacre_data.random_normal import RandomNormalLayer
from nacre_data.shard_data import ShardDataLayer
from nacre_data.tar_data import TarDataLayer
from nacre_data.text import CharTextLayer
from nacre_data.text import WordTextLayer
from nacre_layers.containers.connections import Connection
from nacre_layers.containers.repeat import RepeatLayer
from nacre_layers.containers.residual import ResidualLayer
from nacre_layers.containers.sequential import SequentialLayer
from nacre_layers.containers.unroll import UnrollLayer
from nacre_layers.convolution.convolution import ConvolutionLayer
from nacre_layers.convolution.deconvolution import DeconvolutionLayer
from nacre_layers.convolution.im2col import Im2colLayer
from nacre_layers.elementwise.activation import ActivationLayer
from nacre_layers.elementwise.dropout import DropoutLayer
from nacre_layers.elementwise.element_wise import ElementWiseFunction
from nacre_layers.elementwise.element_wise import ElementWiseLayer
from nacre_layers.elementwise.functions import AbsValLayer
from nacre_layers.elementwise.functions import ClipLayer
from nacre_layers.elementwise.functions import ExpLayer
from nacre_layers.elementwise.functions import LogLayer
from nacre_layers.elementwise.functions import PowerLayer
from nacre_layers.elementwise.functions import ThresholdLayer
from nacre_layers.elementwise.glu import GLULayer
from nacre_layers.elementwise.random_mask import RandomMaskLayer
from nacre_layers.elementwise.softmax import SoftmaxLayer
from nacre_layers.energy.rbm_hidden import RBMHiddenLayer
from nacre_layers.energy.rbm_visible import RBMVisibleLayer
from nacre_layers.linear.bias import BiasLayer
from nacre_layers.linear.embedding import EmbeddingLayer
from nacre_layers.linear.inner_product import InnerProductLayer
from nacre_layers.linear.mat_mul import MatMulLayer
from nacre_layers.linear.parameter import ParameterLayer
from nacre_layers.linear.prelu import PReLULayer
from nacre_layers.linear.scale import ScaleLayer
from nacre_layers.linear.tied_inner_product import TiedInnerProductLayer
from nacre_layers.losses.binary_cross_entropy_loss import BinaryCrossEntropyLossLayer
from nacre_layers.losses.class_softmax_loss import ClassSoftmaxLossLayer
from nacre_layers.losses.contrastive_loss import ContrastiveLossLayer
from nacre_layers.losses.gaussian_kl_loss import GaussianKLLossLayer
from nacre_layers.losses.hinge_loss import HingeLossLayer
from nacre_layers.losses.huber_loss import HuberLossLayer
from nacre_layers.losses.infogain_loss import InfogainLossLayer
from nacre_layers.losses.kl_divergence_loss import KLDivergenceLossLayer
from nacre_layers.losses.multinomial_logistic_loss import MultinomialLogisticLossLayer
from nacre_layers.losses.sigmoid_cross_entropy_loss import SigmoidCrossEntropyLossLayer
from nacre_layers.losses.softlabel_softmax_loss import SoftlabelSoftmaxLossLayer
from nacre_layers.losses.softmax_loss import SoftmaxLossLayer
from nacre_layers.losses.square_loss import SquareLossLayer
from nacre_layers.losses.sum_loss import SumLossLayer
from nacre_layers.losses.wasserstein_loss import WassersteinLossLayer
from nacre_layers.metrics.accuracy import AccuracyLayer
from nacre_layers.metrics.average_precision import AveragePrecisionLayer
from nacre_layers.metrics.binary_accuracy import BinaryAccuracyLayer
from nacre_layers.metrics.calibration_error import CalibrationErrorLayer
from nacre_layers.metrics.confusion_matrix import ConfusionMatrixLayer
from nacre_layers.metrics.iou import IoULayer
from nacre_layers.metrics.mean_absolute_error import MeanAbsoluteErrorLayer
from nacre_layers.metrics.perplexity import PerplexityLayer
from nacre_layers.metrics.precision_recall import PrecisionRecallLayer
from nacre_layers.metrics.r2 import R2Layer
from nacre_layers.metrics.roc_auc import ROCAUCLayer
from nacre_layers.metrics.top_k_accuracy import TopKAccuracyLayer
from nacre_layers.normalisation.batch_norm import BatchNormLayer
from nacre_layers.normalisation.group_norm import GroupNormLayer
from nacre_layers.normalisation.layer_norm import LayerNormLayer
from nacre_layers.normalisation.lrn import LRNLayer
from nacre_layers.normalisation.mvn import MVNLayer
from nacre_layers.normalisation.rms_norm import RMSNormLayer
from nacre_layers.pooling.adaptive_pooling import AdaptivePoolingLayer
from nacre_layers.pooling.channel_pooling import ChannelPoolingLayer
from nacre_layers.pooling.functions import PoolingFunction
from nacre_layers.pooling.global_pooling import GlobalPoolingLayer
from nacre_layers.pooling.pooling import PoolingLayer
from nacre_layers.pooling.spp import SPPLayer
from nacre_layers.recurrent.gru import GRULayer
from nacre_layers.recurrent.lstm import LSTMLayer
from nacre_layers.recurrent.rnn import RNNLayer
from nacre_layers.shapes.argmax import ArgmaxLayer
from nacre_layers.shapes.bridge_dst import BridgeDstLayer
from nacre_layers.shapes.bridge_src import BridgeSrcLayer
from nacre_layers.shapes.concat import ConcatLayer
from nacre_layers.shapes.crop import CropLayer
from nacre_layers.shapes.crop_like import CropLikeLayer
from nacre_layers.shapes.flatten import FlattenLayer
from nacre_layers.shapes.index2onehot import Index2OnehotLayer
from nacre_layers.shapes.one_hot import OneHotLayer
from nacre_layers.shapes.pad import PadLayer
from nacre_layers.shapes.reduction import ReductionLayer
from nacre_layers.shapes.reshape import ReshapeLayer
from nacre_layers.shapes.resize import ResizeLayer
from nacre_layers.shapes.silence import SilenceLayer
from nacre_layers.shapes.slice import SliceLayer
from nacre_layers.shapes.split import SplitLayer
from nacre_layers.shapes.stack import StackLayer
from nacre_layers.shapes.stop_gradient import StopGradientLayer
from nacre_layers.shapes.tile import TileLayer
from nacre_layers.shapes.transpose import TransposeLayer
from nacre_layers.shapes.unstack import UnstackLayer
from nacre_layers.shapes.zeros import ZerosLayer

class Shelf:
    """The layers by their names in net files: `L.Convolution` is `nacre_layers.ConvolutionLayer`."""

    def __getitem__(self, name: str) -> Callable[..., Any]: ...
    def __getattr__(self, name: str) -> Callable[..., Any]: ...
    def __dir__(self) -> list[str]: ...

    class AbsVal(AbsValLayer):
        """y = |x|; the gradient at 0 is 0. After Caffe's `AbsVal`.

        Fields:
            bottoms: the inputs of the function (at least 1)
            tops: the results (as many as bottoms)
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            bottoms: str | Sequence[str] = ...,
            tops: str | Sequence[str] = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        @overload
        def __call__(self, bottom: Top, /) -> Top: ...
        @overload
        def __call__(self, bottom: Top, other: Top, /, *more: Top) -> tuple[Top, ...]: ...
        @overload
        def __call__(self, *bottoms: Top, tops: int) -> tuple[Top, ...]: ...

    class Accuracy(AccuracyLayer):
        """The share of labels whose score is one of the `top_k` highest.

        Fields:
            bottoms: the scores and the labels (exactly 2)
            axis: axis of the classes (different from 0); by default 1
            top_k: the label must be among this many highest scores (above 0); by default 1
            ignore_label: labels of this value are ignored; by default None
            report_error: report the statistic `error` too; by default False
            per_class: report the accuracy of each class too; by default False
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            bottoms: str | Sequence[str] = ...,
            axis: int = ...,
            top_k: int = ...,
            ignore_label: int | None = ...,
            report_error: bool = ...,
            per_class: bool = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        def __call__(self, bottom0: Top, bottom1: Top, /) -> Call: ...

    class Activation(ActivationLayer):
        """y = f(x), element by element; one top for each bottom.

        Fields:
            bottoms: the inputs of the function (at least 1)
            tops: the results (as many as bottoms)
            neuron: the function
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            neuron: Neuron | Written,
            bottoms: str | Sequence[str] = ...,
            tops: str | Sequence[str] = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        @overload
        def __call__(self, bottom: Top, /) -> Top: ...
        @overload
        def __call__(self, bottom: Top, other: Top, /, *more: Top) -> tuple[Top, ...]: ...
        @overload
        def __call__(self, *bottoms: Top, tops: int) -> tuple[Top, ...]: ...

    class AdaptivePooling(AdaptivePoolingLayer):
        """Pool every channel of every image to `size` numbers, whatever its own size; one top for each bottom.

        Fields:
            bottoms: the blobs to pool (at least 1)
            tops: the pooled blobs (as many as bottoms)
            size: (rows, columns) of the tops, or one number for both (above 0)
            pooling: the summary of a window; by default Mean()
            neuron: activation function of the tops; by default Identity()
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            size: int | Sequence[int],
            bottoms: str | Sequence[str] = ...,
            tops: str | Sequence[str] = ...,
            pooling: PoolingFunction | Written = ...,
            neuron: Neuron | Written = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        @overload
        def __call__(self, bottom: Top, /) -> Top: ...
        @overload
        def __call__(self, bottom: Top, other: Top, /, *more: Top) -> tuple[Top, ...]: ...
        @overload
        def __call__(self, *bottoms: Top, tops: int) -> tuple[Top, ...]: ...

    class Argmax(ArgmaxLayer):
        """The indices of the `top_k` largest numbers along `axis`, counted from 0, the largest first; or their `values`.

        Fields:
            bottoms: the blobs to search (at least 1)
            tops: the indices, or the values (as many as bottoms)
            axis: axis along which to compare numbers (different from 0); by default 1
            top_k: number of largest ones (above 0); by default 1
            values: return the numbers instead of their indices; by default False
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            bottoms: str | Sequence[str] = ...,
            tops: str | Sequence[str] = ...,
            axis: int = ...,
            top_k: int = ...,
            values: bool = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        @overload
        def __call__(self, bottom: Top, /) -> Top: ...
        @overload
        def __call__(self, bottom: Top, other: Top, /, *more: Top) -> tuple[Top, ...]: ...
        @overload
        def __call__(self, *bottoms: Top, tops: int) -> tuple[Top, ...]: ...

    class AsyncHDF5Data(AsyncHDF5DataLayer):
        """Feed the records of HDF5 files as HDF5Data does, but read them ahead, chunk by chunk, in a thread.

        Fields:
            source: HDF5 files, or .txt lists of them; relative to the net file (at least 1)
            batch_size: number of records in a batch (above 0)
            ahead: batches that a thread reads before they are needed (0 or more); by default 3
            chunk_size: number of records that are read at a time (above 0); by default 1024
            threads: threads that decode records, such as pictures; those of all processes together (above 0); by default 1
            processes: processes that read and decode records; 0: this one does it (from 0 to 256); by default 0
            on_error: what a record does that cannot be read: end the work, or be left out ("skip") (one of 'raise', 'skip'); by default 'raise'
            tops: names of the blobs (at least 1); by default ('data', 'label')
            shuffle: use a new random order of the records in each pass; by default False
            split: part of the records that is fed, such as the validation part; by default None
            sampling: how often records are drawn in training: classes alike, or by weights; by default None
            transformers: transformers of the batches: a list of [top, transformer]
            classes: names of the classes of labels, in the order of their numbers: {top: names}; by default None
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            source: str | Sequence[str],
            batch_size: int,
            ahead: int = ...,
            chunk_size: int = ...,
            threads: int = ...,
            processes: int = ...,
            on_error: str = ...,
            tops: str | Sequence[str] = ...,
            shuffle: bool = ...,
            split: Mapping[str, Any] | None = ...,
            sampling: str | Mapping[str, str] | None = ...,
            transformers: Sequence[Sequence[str | Transformer | Written | Mapping[str, Any]]] = ...,
            classes: Mapping[str, Sequence[str]] | None = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        def __call__(self, *, tops: int | None = None) -> Any: ...

    class AveragePrecision(AveragePrecisionLayer):
        """The average precision, a summary of the curve of precision over recall.

        Fields:
            bottoms: the scores and the labels (exactly 2)
            axis: axis of the classes (different from 0); by default 1
            threshold: labels of the scores' shape are true if they are above it (finite); by default 0.5
            ignore_label: class numbers of this value are ignored; by default None
            per_class: report the statistic of each class too, with `_0`, `_1`, ... after its name; by default False
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            bottoms: str | Sequence[str] = ...,
            axis: int = ...,
            threshold: float = ...,
            ignore_label: int | None = ...,
            per_class: bool = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        def __call__(self, bottom0: Top, bottom1: Top, /) -> Call: ...

    class BatchNorm(BatchNormLayer):
        """y = scale · (x - mean) / sqrt(variance + epsilon) + bias, for each channel.

        Fields:
            bottoms: the blob to normalise (exactly 1)
            tops: the normalised blob (exactly 1)
            axis: axis of the channels (different from 0); by default 1
            decay: share of the running values that is kept in each pass (0 or more, and below 1); by default 0.9
            use_running: use the running mean and variance in phase train too, without changing them; by default False
            sync: of several ranks: use the mean and variance of all rows of the batch, not of each rank's; by default False
            use_batch: use the batch's own mean and variance in the other phases too; by default False
            epsilon: added to the variance (above 0); by default 1e-05
            scale: whether there is a scale; by default True
            neuron: activation function of the top; by default Identity()
            scale_init: first values of the scale; by default Constant(value=1.0)
            scale_regu: regulariser of the scale; by default None
            scale_cons: constraint of the scale; by default None
            scale_lr: multiplies the learning rate of the scale (0 or more); by default 1.0
            bias: whether there is a bias; by default True
            bias_init: first values of the bias; by default Constant()
            bias_regu: regulariser of the bias; by default None
            bias_cons: constraint of the bias; by default None
            bias_lr: multiplies the learning rate of the bias (0 or more); by default 1.0
            param_key: layers with the same key share their parameters
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            bottoms: str | Sequence[str] = ...,
            tops: str | Sequence[str] = ...,
            axis: int = ...,
            decay: float = ...,
            use_running: bool = ...,
            sync: bool = ...,
            use_batch: bool = ...,
            epsilon: float = ...,
            scale: bool = ...,
            neuron: Neuron | Written = ...,
            scale_init: Initializer | Written | float = ...,
            scale_regu: Regularizer | Written | None = ...,
            scale_cons: Constraint | Written | None = ...,
            scale_lr: float = ...,
            bias: bool = ...,
            bias_init: Initializer | Written | float = ...,
            bias_regu: Regularizer | Written | None = ...,
            bias_cons: Constraint | Written | None = ...,
            bias_lr: float = ...,
            param_key: str = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        def __call__(self, bottom0: Top, /) -> Top: ...

    class Bias(BiasLayer):
        """y = x + bias, where bias is repeated along the axes that it does not have.

        Fields:
            bottoms: the blob x, and the operand if it is not learned (at least 1)
            tops: the result, of the shape of x (exactly 1)
            axis: first axis of x that the operand has; by default 1, or 0 with a second bottom
            n_axes: number of axes of a learned operand; 0 is a single number, -1 all up to the last; by default 1
            neuron: activation function of the top; by default Identity()
            bias_init: first values of the bias; by default Constant()
            bias_regu: regulariser of the bias; by default None
            bias_cons: constraint of the bias; by default None
            bias_lr: multiplies the learning rate of the bias (0 or more); by default 1.0
            param_key: layers with the same key share their parameters
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            bottoms: str | Sequence[str] = ...,
            tops: str | Sequence[str] = ...,
            axis: int | None = ...,
            n_axes: int = ...,
            neuron: Neuron | Written = ...,
            bias_init: Initializer | Written | float = ...,
            bias_regu: Regularizer | Written | None = ...,
            bias_cons: Constraint | Written | None = ...,
            bias_lr: float = ...,
            param_key: str = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        def __call__(self, *bottoms: Top) -> Top: ...

    class BinaryAccuracy(BinaryAccuracyLayer):
        """The share of scores that are above `threshold` where their label is, and not above it where it is not.

        Fields:
            bottoms: the scores and the labels (exactly 2)
            threshold: the threshold for scores and labels (finite); by default 0.0
            report_error: report the statistic `error` too; by default False
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            bottoms: str | Sequence[str] = ...,
            threshold: float = ...,
            report_error: bool = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        def __call__(self, bottom0: Top, bottom1: Top, /) -> Call: ...

    class BinaryCrossEntropyLoss(BinaryCrossEntropyLossLayer):
        """loss = -weight / N · Σ (t log p + (1 - t) log(1 - p)), over the N rows that count.

        Fields:
            bottoms: the probabilities, the targets, and optionally the weight of each record (2 or 3)
            weight: multiplies the loss (0 or more); by default 1.0
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            bottoms: str | Sequence[str] = ...,
            weight: float = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        def __call__(self, bottom0: Top, bottom1: Top, bottom2: Top = ..., /) -> Call: ...

    class BridgeDst(BridgeDstLayer):
        """Receive what a `BridgeSrc` sends: y = x, and the gradient goes back.

        Fields:
            tops: its name here (exactly 1)
            bottoms: what was sent; none if the other end is on another rank (at most 1)
            shape: shape of the top, with the batch, if there is no bottom (above 0)
            dtype: type of the top, if there is no bottom; by default the net's floating type
            peer: the rank of the other end; by default both are here (0 or more)
            gradient: whether the gradient comes back from another rank; by default True
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            tops: str | Sequence[str] = ...,
            bottoms: str | Sequence[str] = ...,
            shape: int | Sequence[int] = ...,
            dtype: str = ...,
            peer: int | None = ...,
            gradient: bool = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        def __call__(self, bottom0: Top = ..., /) -> Top: ...

    class BridgeSrc(BridgeSrcLayer):
        """Send the bottom to a `BridgeDst` on another rank: y = x there, and its gradient comes back.

        Fields:
            bottoms: the blob to send (exactly 1)
            tops: its name on the way; none if the other end is on another rank (at most 1)
            peer: the rank of the other end; by default both are here (0 or more)
            gradient: whether the gradient comes back from another rank; by default True
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            bottoms: str | Sequence[str] = ...,
            tops: str | Sequence[str] = ...,
            peer: int | None = ...,
            gradient: bool = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        @overload
        def __call__(self, bottom0: Top, /) -> Top: ...
        @overload
        def __call__(self, bottom0: Top, /, *, tops: int) -> tuple[Top, ...]: ...

    class CSVData(CSVDataLayer):
        """Feed the records of tables as text (.csv, .tsv): the columns of numbers are the data, another column the label.

        Fields:
            source: tables, or .txt lists of them; relative to the net file (at least 1)
            batch_size: number of records in a batch (above 0)
            cache_bytes: keep the data in memory if they have no more bytes than this (0 or more); by default 268435456
            header: whether the first line names the columns; by default, if it has only texts
            label: column of the label: its name, or its number from 0; "" if there is none; by default 'label'
            data: columns of the data, by name or by number; by default all others
            shape: shape of a record of the data; by default a list (above 0)
            missing: what stands for a missing value, besides NaN; by default ('', 'NA', 'N/A', 'null', 'NULL', '?')
            fill: the number for missing values; without it, they are errors; by default None
            separator: what separates cells; by default a tab in .tsv files, a comma in others
            decimal: the decimal point, or comma, of numbers (one of '.', ','); by default '.'
            encoding: encoding of the text; a byte order mark is left out; by default 'utf-8'
            threads: threads that decode records, such as pictures; those of all processes together (above 0); by default 1
            processes: processes that read and decode records; 0: this one does it (from 0 to 256); by default 0
            on_error: what a record does that cannot be read: end the work, or be left out ("skip") (one of 'raise', 'skip'); by default 'raise'
            tops: names of the blobs (at least 1); by default ('data', 'label')
            shuffle: use a new random order of the records in each pass; by default False
            split: part of the records that is fed, such as the validation part; by default None
            sampling: how often records are drawn in training: classes alike, or by weights; by default None
            ahead: batches that a thread reads before they are needed (0 or more); by default 0
            transformers: transformers of the batches: a list of [top, transformer]
            classes: names of the classes of labels, in the order of their numbers: {top: names}; by default None
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            source: str | Sequence[str],
            batch_size: int,
            cache_bytes: int = ...,
            header: bool | None = ...,
            label: int | str = ...,
            data: str | int | Sequence[str | int] = ...,
            shape: int | Sequence[int] = ...,
            missing: str | Sequence[str] = ...,
            fill: float | None = ...,
            separator: str = ...,
            decimal: Literal[".", ","] = ...,
            encoding: str = ...,
            threads: int = ...,
            processes: int = ...,
            on_error: str = ...,
            tops: str | Sequence[str] = ...,
            shuffle: bool = ...,
            split: Mapping[str, Any] | None = ...,
            sampling: str | Mapping[str, str] | None = ...,
            ahead: int = ...,
            transformers: Sequence[Sequence[str | Transformer | Written | Mapping[str, Any]]] = ...,
            classes: Mapping[str, Sequence[str]] | None = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        def __call__(self, *, tops: int | None = None) -> Any: ...

    class CSVOutput(CSVOutputLayer):
        """Append the rows of every bottom that count to a table as text, after each forward pass: each row is a line.

        Fields:
            bottoms: what is written (at least 1)
            filename: the file, relative to the working folder, or its URL
            names: names of the fields in the file, one for each bottom; by default the bottoms'
            separator: what separates cells; by default a tab in .tsv files, a comma in others
            decimal: the decimal point, or comma, of numbers (one of '.', ','); by default '.'
            encoding: encoding of the text; a byte order mark is left out; by default 'utf-8'
            force_overwrite: replace an existing file; by default False
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            filename: str | PathLike[str],
            bottoms: str | Sequence[str] = ...,
            names: str | Sequence[str] = ...,
            separator: str = ...,
            decimal: Literal[".", ","] = ...,
            encoding: str = ...,
            force_overwrite: bool = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        def __call__(self, *bottoms: Top) -> Call: ...

    class CalibrationError(CalibrationErrorLayer):
        """The expected calibration error: how far the highest probability is from the share of hits.

        Fields:
            bottoms: the probabilities and the labels (exactly 2)
            n_bin: number of bins of equal width (from 1 to 1048576); by default 15
            axis: axis of the classes (different from 0); by default 1
            ignore_label: labels of this value are ignored; by default None
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            bottoms: str | Sequence[str] = ...,
            n_bin: int = ...,
            axis: int = ...,
            ignore_label: int | None = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        def __call__(self, bottom0: Top, bottom1: Top, /) -> Call: ...

    class ChannelPooling(ChannelPoolingLayer):
        """Pool along one axis, as maxout does along the channels; one top for each bottom.

        Fields:
            bottoms: the blobs to pool (at least 1)
            tops: the pooled blobs (as many as bottoms)
            kernel: window, in channels (above 0); by default 1
            stride: step between windows, in channels (above 0); by default 1
            pad: padding before the channels and after them (0 or more); by default (0, 0)
            axis: the axis to pool; -1 is the last (different from 0); by default 1
            pooling: the summary of a window; by default Max()
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            bottoms: str | Sequence[str] = ...,
            tops: str | Sequence[str] = ...,
            kernel: int = ...,
            stride: int = ...,
            pad: int | Sequence[int] = ...,
            axis: int = ...,
            pooling: PoolingFunction | Written = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        @overload
        def __call__(self, bottom: Top, /) -> Top: ...
        @overload
        def __call__(self, bottom: Top, other: Top, /, *more: Top) -> tuple[Top, ...]: ...
        @overload
        def __call__(self, *bottoms: Top, tops: int) -> tuple[Top, ...]: ...

    class CharText(CharTextLayer):
        """Feed the characters of texts in parallel streams, with the character that follows each as its target.

        Fields:
            source: texts in UTF-8, one after the other; relative to the net file (at least 1)
            batch_size: number of streams, which are the images of a batch (above 0)
            tops: names of the blobs: the numbers, the targets, and where streams go on (at least 1); by default ('data', 'label')
            steps: steps of each stream in a batch (above 0); by default 50
            part: part of the text that is fed, from 0 to 1: [0.0, 0.9] for training, [0.9, 1.0]; by default (0.0, 1.0)
            vocabulary: names of the numbers, in their order; by default those of the training's text
            unknown: what training did not have: "error", or "own" for a number of its own (one of 'error', 'own'); by default 'error'
            ignore_label: the target where the text has ended, in other phases than training (a whole number of 64 bits, as targets are); by default -1
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            source: str | Sequence[str],
            batch_size: int,
            tops: str | Sequence[str] = ...,
            steps: int = ...,
            part: Sequence[float] = ...,
            vocabulary: str | Sequence[str] = ...,
            unknown: Literal["error", "own"] = ...,
            ignore_label: int = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        def __call__(self, *, tops: int | None = None) -> Any: ...

    class ClassSoftmaxLoss(ClassSoftmaxLossLayer):
        """loss = -weight / M · Σ log(p[class] p[label | class]), over the labels of the rows that count.

        Fields:
            bottoms: the features and the labels (exactly 2)
            n_label: number of different labels, or the blob of classes (above 0)
            n_class: number of classes, if starts is not given; by default √n_label (above 0)
            starts: the first label of each class: 0, and then rising numbers
            normalize: the divisor of the sum: the labels not ignored, all labels, the records, or 1 (one of 'valid', 'full', 'batch', 'none'); by default 'valid'
            ignore_label: labels of this value are ignored; by default None
            weight_init: first values of the weight; by default Xavier()
            weight_regu: regulariser of the weight; by default L2()
            weight_cons: constraint of the weight; by default None
            weight_lr: multiplies the learning rate of the weight (0 or more); by default 1.0
            bias: whether there is a bias; by default True
            bias_init: first values of the bias; by default Constant()
            bias_regu: regulariser of the bias; by default None
            bias_cons: constraint of the bias; by default None
            bias_lr: multiplies the learning rate of the bias (0 or more); by default 1.0
            param_key: layers with the same key share their parameters
            weight: multiplies the loss (0 or more); by default 1.0
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            n_label: int | str,
            bottoms: str | Sequence[str] = ...,
            n_class: int | None = ...,
            starts: int | Sequence[int] = ...,
            normalize: Literal["valid", "full", "batch", "none"] = ...,
            ignore_label: int | None = ...,
            weight_init: Initializer | Written | float = ...,
            weight_regu: Regularizer | Written | None = ...,
            weight_cons: Constraint | Written | None = ...,
            weight_lr: float = ...,
            bias: bool = ...,
            bias_init: Initializer | Written | float = ...,
            bias_regu: Regularizer | Written | None = ...,
            bias_cons: Constraint | Written | None = ...,
            bias_lr: float = ...,
            param_key: str = ...,
            weight: float = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        def __call__(self, bottom0: Top, bottom1: Top, /) -> Call: ...

    class Clip(ClipLayer):
        """y = min(max(x, low), high); the gradient passes where low ≤ x ≤ high. After Caffe's `Clip`.

        Fields:
            low: the smallest output; -inf for none
            high: the largest output; inf for none
            bottoms: the inputs of the function (at least 1)
            tops: the results (as many as bottoms)
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            low: float,
            high: float,
            bottoms: str | Sequence[str] = ...,
            tops: str | Sequence[str] = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        @overload
        def __call__(self, bottom: Top, /) -> Top: ...
        @overload
        def __call__(self, bottom: Top, other: Top, /, *more: Top) -> tuple[Top, ...]: ...
        @overload
        def __call__(self, *bottoms: Top, tops: int) -> tuple[Top, ...]: ...

    class Concat(ConcatLayer):
        """Join the bottoms along `axis`; all other axes must agree.

        Fields:
            bottoms: the blobs to join (at least 1)
            tops: the joined blob (exactly 1)
            axis: axis along which to join them; by default 1
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            bottoms: str | Sequence[str] = ...,
            tops: str | Sequence[str] = ...,
            axis: int = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        def __call__(self, *bottoms: Top) -> Top: ...

    class ConfusionMatrix(ConfusionMatrixLayer):
        """How many labels of each class were taken for each class.

        Fields:
            bottoms: the scores and the labels (exactly 2)
            axis: axis of the classes (different from 0); by default 1
            ignore_label: labels of this value are ignored; by default None
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            bottoms: str | Sequence[str] = ...,
            axis: int = ...,
            ignore_label: int | None = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        def __call__(self, bottom0: Top, bottom1: Top, /) -> Call: ...

    class ContrastiveLoss(ContrastiveLossLayer):
        """loss = weight / 2N · Σ (s d² + (1 - s) max(0, margin - d)²), with the distances d = |a - b| of N pairs.

        Fields:
            bottoms: both sides of the pairs, and the labels (1: similar) (exactly 3)
            margin: distance from which on dissimilar pairs have no loss (above 0); by default 1.0
            legacy: compare the margin with the squared distance, as in old versions of Caffe; by default False
            weight: multiplies the loss (0 or more); by default 1.0
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            bottoms: str | Sequence[str] = ...,
            margin: float = ...,
            legacy: bool = ...,
            weight: float = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        def __call__(self, bottom0: Top, bottom1: Top, bottom2: Top, /) -> Call: ...

    class Convolution(ConvolutionLayer):
        """y[n, f] = b[f] + Σ_c W[f, c] ⋆ x[n, c], a cross-correlation; one top for each bottom, all with the same filters.

        Fields:
            bottoms: the images to filter (at least 1)
            tops: the filtered images (as many as bottoms)
            n_filter: number of filters: the channels of a top (above 0)
            kernel: size of a filter, in pixels (above 0); by default (1,)
            stride: step of the filters, in pixels (above 0); by default (1,)
            pad: border of zeros on each side, in pixels (0 or more); by default (0,)
            dilation: step between the cells of a filter, in pixels (above 0); by default (1,)
            n_group: number of independent groups of channels (above 0); by default 1
            neuron: activation function of the tops; by default Identity()
            weight_init: first values of the weight; by default Xavier()
            weight_regu: regulariser of the weight; by default L2()
            weight_cons: constraint of the weight; by default None
            weight_lr: multiplies the learning rate of the weight (0 or more); by default 1.0
            bias: whether there is a bias; by default True
            bias_init: first values of the bias; by default Constant()
            bias_regu: regulariser of the bias; by default None
            bias_cons: constraint of the bias; by default None
            bias_lr: multiplies the learning rate of the bias (0 or more); by default 1.0
            param_key: layers with the same key share their parameters
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            n_filter: int,
            bottoms: str | Sequence[str] = ...,
            tops: str | Sequence[str] = ...,
            kernel: int | Sequence[int] = ...,
            stride: int | Sequence[int] = ...,
            pad: int | Sequence[int] = ...,
            dilation: int | Sequence[int] = ...,
            n_group: int = ...,
            neuron: Neuron | Written = ...,
            weight_init: Initializer | Written | float = ...,
            weight_regu: Regularizer | Written | None = ...,
            weight_cons: Constraint | Written | None = ...,
            weight_lr: float = ...,
            bias: bool = ...,
            bias_init: Initializer | Written | float = ...,
            bias_regu: Regularizer | Written | None = ...,
            bias_cons: Constraint | Written | None = ...,
            bias_lr: float = ...,
            param_key: str = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        @overload
        def __call__(self, bottom: Top, /) -> Top: ...
        @overload
        def __call__(self, bottom: Top, other: Top, /, *more: Top) -> tuple[Top, ...]: ...
        @overload
        def __call__(self, *bottoms: Top, tops: int) -> tuple[Top, ...]: ...

    class Crop(CropLayer):
        """Cut a window of `crop_size` out of each image; one top for each bottom, of its type.

        Fields:
            bottoms: the images (at least 1)
            tops: the windows (as many as bottoms)
            crop_size: size of a window: (rows, columns), in pixels (above 0)
            random_crop: in phase train, put the windows at random positions; by default False
            random_mirror: in phase train, turn half of them left to right; by default False
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            crop_size: int | Sequence[int],
            bottoms: str | Sequence[str] = ...,
            tops: str | Sequence[str] = ...,
            random_crop: bool = ...,
            random_mirror: bool = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        @overload
        def __call__(self, bottom: Top, /) -> Top: ...
        @overload
        def __call__(self, bottom: Top, other: Top, /, *more: Top) -> tuple[Top, ...]: ...
        @overload
        def __call__(self, *bottoms: Top, tops: int) -> tuple[Top, ...]: ...

    class CropLike(CropLikeLayer):
        """Cut the first bottom to the lengths of the second one, along `axis` and all axes after it.

        Fields:
            bottoms: the blob to cut, and the blob with the lengths (exactly 2)
            tops: the part (exactly 1)
            axis: first of the axes to cut (different from 0); by default 2
            offset: begin of the part along these axes (0 or more); by default 0
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            bottoms: str | Sequence[str] = ...,
            tops: str | Sequence[str] = ...,
            axis: int = ...,
            offset: int | Sequence[int] = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        def __call__(self, bottom0: Top, bottom1: Top, /) -> Top: ...

    class Data(DataLayer):
        """Feed the records of files in any format that a store reads: each top is a batch of the field of its name.

        Fields:
            source: files or folders, or .txt lists of them; relative to the net file (at least 1)
            batch_size: number of records in a batch (above 0)
            store: format of the files; by default that of their names
            window: records that are mixed at a time, if they are read one after the other (0 or more); by default 0
            shape: shape of a record of the first top, if records differ, as pictures do (above 0)
            cache_bytes: keep the data in memory if they have no more bytes than this (0 or more); by default 268435456
            threads: threads that decode records, such as pictures; those of all processes together (above 0); by default 1
            processes: processes that read and decode records; 0: this one does it (from 0 to 256); by default 0
            on_error: what a record does that cannot be read: end the work, or be left out ("skip") (one of 'raise', 'skip'); by default 'raise'
            tops: names of the blobs (at least 1); by default ('data', 'label')
            shuffle: use a new random order of the records in each pass; by default False
            split: part of the records that is fed, such as the validation part; by default None
            sampling: how often records are drawn in training: classes alike, or by weights; by default None
            ahead: batches that a thread reads before they are needed (0 or more); by default 0
            transformers: transformers of the batches: a list of [top, transformer]
            classes: names of the classes of labels, in the order of their numbers: {top: names}; by default None
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            source: str | Sequence[str],
            batch_size: int,
            store: Store | Written | None = ...,
            window: int = ...,
            shape: int | Sequence[int] = ...,
            cache_bytes: int = ...,
            threads: int = ...,
            processes: int = ...,
            on_error: str = ...,
            tops: str | Sequence[str] = ...,
            shuffle: bool = ...,
            split: Mapping[str, Any] | None = ...,
            sampling: str | Mapping[str, str] | None = ...,
            ahead: int = ...,
            transformers: Sequence[Sequence[str | Transformer | Written | Mapping[str, Any]]] = ...,
            classes: Mapping[str, Sequence[str]] | None = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        def __call__(self, *, tops: int | None = None) -> Any: ...

    class Deconvolution(DeconvolutionLayer):
        """The transpose of a convolution: every number of a bottom adds its filter to the top, and tops grow by `stride`.

        Fields:
            bottoms: the images to filter (at least 1)
            tops: the filtered images (as many as bottoms)
            n_filter: number of filters: the channels of a top (above 0)
            extra: pixels added at the end of each axis, fewer than stride (0 or more); by default (0,)
            kernel: size of a filter, in pixels (above 0); by default (1,)
            stride: step of the filters, in pixels (above 0); by default (1,)
            pad: border of zeros on each side, in pixels (0 or more); by default (0,)
            dilation: step between the cells of a filter, in pixels (above 0); by default (1,)
            n_group: number of independent groups of channels (above 0); by default 1
            neuron: activation function of the tops; by default Identity()
            weight_init: first values of the weight; by default Xavier()
            weight_regu: regulariser of the weight; by default L2()
            weight_cons: constraint of the weight; by default None
            weight_lr: multiplies the learning rate of the weight (0 or more); by default 1.0
            bias: whether there is a bias; by default True
            bias_init: first values of the bias; by default Constant()
            bias_regu: regulariser of the bias; by default None
            bias_cons: constraint of the bias; by default None
            bias_lr: multiplies the learning rate of the bias (0 or more); by default 1.0
            param_key: layers with the same key share their parameters
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            n_filter: int,
            bottoms: str | Sequence[str] = ...,
            tops: str | Sequence[str] = ...,
            extra: int | Sequence[int] = ...,
            kernel: int | Sequence[int] = ...,
            stride: int | Sequence[int] = ...,
            pad: int | Sequence[int] = ...,
            dilation: int | Sequence[int] = ...,
            n_group: int = ...,
            neuron: Neuron | Written = ...,
            weight_init: Initializer | Written | float = ...,
            weight_regu: Regularizer | Written | None = ...,
            weight_cons: Constraint | Written | None = ...,
            weight_lr: float = ...,
            bias: bool = ...,
            bias_init: Initializer | Written | float = ...,
            bias_regu: Regularizer | Written | None = ...,
            bias_cons: Constraint | Written | None = ...,
            bias_lr: float = ...,
            param_key: str = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        @overload
        def __call__(self, bottom: Top, /) -> Top: ...
        @overload
        def __call__(self, bottom: Top, other: Top, /, *more: Top) -> tuple[Top, ...]: ...
        @overload
        def __call__(self, *bottoms: Top, tops: int) -> tuple[Top, ...]: ...

    class Dropout(DropoutLayer):
        """In phase `train` each element becomes 0 with probability `ratio`; the others are divided by 1 - ratio.

        Fields:
            bottoms: the blob, changed in place (exactly 1)
            ratio: probability to become 0 (0 or more, and below 1); by default 0.5
            auto_scale: divide the other elements by 1 - ratio; by default True
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            bottoms: str | Sequence[str] = ...,
            ratio: float = ...,
            auto_scale: bool = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        def __call__(self, bottom0: Top, /) -> Top: ...

    class ElementWise(ElementWiseLayer):
        """Combine two or more bottoms of one shape, element by element: by default their sum, else another `operation`.

        Fields:
            bottoms: the operands, in order (at least 2)
            tops: the result (exactly 1)
            operation: the function of the bottoms; by default Add()
            neuron: activation function of the top; by default Identity()
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            bottoms: str | Sequence[str] = ...,
            tops: str | Sequence[str] = ...,
            operation: ElementWiseFunction | Written = ...,
            neuron: Neuron | Written = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        def __call__(self, *bottoms: Top) -> Top: ...

    class Embedding(EmbeddingLayer):
        """y = weight[x] + bias: every number of a bottom selects a row of the weight.

        Fields:
            bottoms: the numbers, for example of words (at least 1)
            tops: their vectors (as many as bottoms)
            input_dim: number of different numbers, or the blob of classes (above 0)
            output_dim: length of a vector (above 0)
            weight_init: first values of the weight; by default Xavier()
            weight_regu: regulariser of the weight; by default L2()
            weight_cons: constraint of the weight; by default None
            weight_lr: multiplies the learning rate of the weight (0 or more); by default 1.0
            bias: whether there is a bias; by default True
            bias_init: first values of the bias; by default Constant()
            bias_regu: regulariser of the bias; by default None
            bias_cons: constraint of the bias; by default None
            bias_lr: multiplies the learning rate of the bias (0 or more); by default 1.0
            param_key: layers with the same key share their parameters
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            input_dim: int | str,
            output_dim: int,
            bottoms: str | Sequence[str] = ...,
            tops: str | Sequence[str] = ...,
            weight_init: Initializer | Written | float = ...,
            weight_regu: Regularizer | Written | None = ...,
            weight_cons: Constraint | Written | None = ...,
            weight_lr: float = ...,
            bias: bool = ...,
            bias_init: Initializer | Written | float = ...,
            bias_regu: Regularizer | Written | None = ...,
            bias_cons: Constraint | Written | None = ...,
            bias_lr: float = ...,
            param_key: str = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        @overload
        def __call__(self, bottom: Top, /) -> Top: ...
        @overload
        def __call__(self, bottom: Top, other: Top, /, *more: Top) -> tuple[Top, ...]: ...
        @overload
        def __call__(self, *bottoms: Top, tops: int) -> tuple[Top, ...]: ...

    class Exp(ExpLayer):
        """y = base ^ (scale · x + shift), where the base is e by default. After Caffe's `Exp`.

        Fields:
            bottoms: the inputs of the function (at least 1)
            tops: the results (as many as bottoms)
            base: base of the power; e = 2.718... by default (above 0, finite)
            scale: multiplies the bottom (finite); by default 1.0
            shift: added to the scaled bottom (finite); by default 0.0
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            bottoms: str | Sequence[str] = ...,
            tops: str | Sequence[str] = ...,
            base: float | None = ...,
            scale: float = ...,
            shift: float = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        @overload
        def __call__(self, bottom: Top, /) -> Top: ...
        @overload
        def __call__(self, bottom: Top, other: Top, /, *more: Top) -> tuple[Top, ...]: ...
        @overload
        def __call__(self, *bottoms: Top, tops: int) -> tuple[Top, ...]: ...

    class Flatten(FlattenLayer):
        """Read the axes from `axis` to `end_axis` as one; one top for each bottom, and nothing is copied.

        Fields:
            bottoms: the blobs to flatten (at least 1)
            tops: the flat blobs (as many as bottoms)
            axis: first of the axes that become one; by default 1
            end_axis: last of them; by default -1
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            bottoms: str | Sequence[str] = ...,
            tops: str | Sequence[str] = ...,
            axis: int = ...,
            end_axis: int = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        @overload
        def __call__(self, bottom: Top, /) -> Top: ...
        @overload
        def __call__(self, bottom: Top, other: Top, /, *more: Top) -> tuple[Top, ...]: ...
        @overload
        def __call__(self, *bottoms: Top, tops: int) -> tuple[Top, ...]: ...

    class GLU(GLULayer):
        """y = a · gate(b), where a and b are the first and the second half of the bottom along `axis`.

        Fields:
            bottoms: the blobs with both halves (at least 1)
            tops: the first halves, gated (as many as bottoms)
            axis: axis along which the halves lie (different from 0); by default 1
            gate: the function of the second half; by default Sigmoid()
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            bottoms: str | Sequence[str] = ...,
            tops: str | Sequence[str] = ...,
            axis: int = ...,
            gate: Neuron | Written = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        @overload
        def __call__(self, bottom: Top, /) -> Top: ...
        @overload
        def __call__(self, bottom: Top, other: Top, /, *more: Top) -> tuple[Top, ...]: ...
        @overload
        def __call__(self, *bottoms: Top, tops: int) -> tuple[Top, ...]: ...

    class GRU(GRULayer):
        """h_t = (1 - z) n + z h_{t-1}, with the gates r and z and the proposal n.

        Fields:
            bottoms: the sequences; then, if told, lengths or cont; then the first states (at least 1)
            tops: the state of every step; then, if wanted, the last states (at least 1)
            output_dim: size of the state, and of the top (above 0)
            reset_gate: whether r multiplies the product R_n h, or h before it (one of 'after', 'before'); by default 'after'
            n_layer: number of layers, one above the other (above 0); by default 1
            direction: from the first step to the last, back, or both side by side (one of 'forward', 'backward', 'both'); by default 'forward'
            sequences: all steps count; or the second bottom has their number; or it is 0 where a sequence begins, else 1 (one of 'full', 'lengths', 'cont'); by default 'full'
            time_major: whether sequences are (steps, images, features); by default False
            carry: begin each batch with the last states of the one before; by default False
            hidden_bias: whether the products with the state have a bias of their own, as in PyTorch; by default True
            hidden_init: first values of the weights of the state; by default Orthogonal()
            weight_init: first values of the weight; by default Xavier()
            weight_regu: regulariser of the weight; by default L2()
            weight_cons: constraint of the weight; by default None
            weight_lr: multiplies the learning rate of the weight (0 or more); by default 1.0
            bias: whether there is a bias; by default True
            bias_init: first values of the bias; by default Constant()
            bias_regu: regulariser of the bias; by default None
            bias_cons: constraint of the bias; by default None
            bias_lr: multiplies the learning rate of the bias (0 or more); by default 1.0
            param_key: layers with the same key share their parameters
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            output_dim: int,
            bottoms: str | Sequence[str] = ...,
            tops: str | Sequence[str] = ...,
            reset_gate: Literal["after", "before"] = ...,
            n_layer: int = ...,
            direction: Literal["forward", "backward", "both"] = ...,
            sequences: Literal["full", "lengths", "cont"] = ...,
            time_major: bool = ...,
            carry: bool = ...,
            hidden_bias: bool = ...,
            hidden_init: Initializer | Written | float = ...,
            weight_init: Initializer | Written | float = ...,
            weight_regu: Regularizer | Written | None = ...,
            weight_cons: Constraint | Written | None = ...,
            weight_lr: float = ...,
            bias: bool = ...,
            bias_init: Initializer | Written | float = ...,
            bias_regu: Regularizer | Written | None = ...,
            bias_cons: Constraint | Written | None = ...,
            bias_lr: float = ...,
            param_key: str = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        @overload
        def __call__(self, *bottoms: Top) -> Top: ...
        @overload
        def __call__(self, *bottoms: Top, tops: int) -> tuple[Top, ...]: ...

    class GaussianKLLoss(GaussianKLLossLayer):
        """loss = weight / 2N · Σ (μ² + σ² - 2 log σ - 1), over the N rows that count.

        Fields:
            bottoms: the means and the standard deviations (exactly 2); by default ('mu', 'sigma')
            weight: multiplies the loss (0 or more); by default 1.0
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            bottoms: str | Sequence[str] = ...,
            weight: float = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        def __call__(self, bottom0: Top, bottom1: Top, /) -> Call: ...

    class GlobalPooling(GlobalPoolingLayer):
        """Pool every channel of every image to one number; one top for each bottom.

        Fields:
            bottoms: the blobs to pool (at least 1)
            tops: the pooled blobs (as many as bottoms)
            pooling: the summary of an image; by default Mean()
            neuron: activation function of the tops; by default Identity()
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            bottoms: str | Sequence[str] = ...,
            tops: str | Sequence[str] = ...,
            pooling: PoolingFunction | Written = ...,
            neuron: Neuron | Written = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        @overload
        def __call__(self, bottom: Top, /) -> Top: ...
        @overload
        def __call__(self, bottom: Top, other: Top, /, *more: Top) -> tuple[Top, ...]: ...
        @overload
        def __call__(self, *bottoms: Top, tops: int) -> tuple[Top, ...]: ...

    class GroupNorm(GroupNormLayer):
        """y = scale · (x - mean) / sqrt(variance + epsilon) + bias, over the numbers of each group of channels of a record.

        Fields:
            bottoms: the blob to normalise (exactly 1)
            tops: the normalised blob (exactly 1)
            n_group: number of groups of channels (above 0); by default 32
            epsilon: added to the variance (above 0); by default 1e-05
            scale: whether there is a scale; by default True
            neuron: activation function of the top; by default Identity()
            scale_init: first values of the scale; by default Constant(value=1.0)
            scale_regu: regulariser of the scale; by default None
            scale_cons: constraint of the scale; by default None
            scale_lr: multiplies the learning rate of the scale (0 or more); by default 1.0
            bias: whether there is a bias; by default True
            bias_init: first values of the bias; by default Constant()
            bias_regu: regulariser of the bias; by default None
            bias_cons: constraint of the bias; by default None
            bias_lr: multiplies the learning rate of the bias (0 or more); by default 1.0
            param_key: layers with the same key share their parameters
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            bottoms: str | Sequence[str] = ...,
            tops: str | Sequence[str] = ...,
            n_group: int = ...,
            epsilon: float = ...,
            scale: bool = ...,
            neuron: Neuron | Written = ...,
            scale_init: Initializer | Written | float = ...,
            scale_regu: Regularizer | Written | None = ...,
            scale_cons: Constraint | Written | None = ...,
            scale_lr: float = ...,
            bias: bool = ...,
            bias_init: Initializer | Written | float = ...,
            bias_regu: Regularizer | Written | None = ...,
            bias_cons: Constraint | Written | None = ...,
            bias_lr: float = ...,
            param_key: str = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        def __call__(self, bottom0: Top, /) -> Top: ...

    class HDF5Data(HDF5DataLayer):
        """Feed the records of HDF5 files, as if they were one file: each top is a batch of the dataset of its name.

        Fields:
            source: HDF5 files, or .txt lists of them; relative to the net file (at least 1)
            batch_size: number of records in a batch (above 0)
            cache_bytes: keep the data in memory if they have no more bytes than this (0 or more); by default 268435456
            threads: threads that decode records, such as pictures; those of all processes together (above 0); by default 1
            processes: processes that read and decode records; 0: this one does it (from 0 to 256); by default 0
            on_error: what a record does that cannot be read: end the work, or be left out ("skip") (one of 'raise', 'skip'); by default 'raise'
            tops: names of the blobs (at least 1); by default ('data', 'label')
            shuffle: use a new random order of the records in each pass; by default False
            split: part of the records that is fed, such as the validation part; by default None
            sampling: how often records are drawn in training: classes alike, or by weights; by default None
            ahead: batches that a thread reads before they are needed (0 or more); by default 0
            transformers: transformers of the batches: a list of [top, transformer]
            classes: names of the classes of labels, in the order of their numbers: {top: names}; by default None
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            source: str | Sequence[str],
            batch_size: int,
            cache_bytes: int = ...,
            threads: int = ...,
            processes: int = ...,
            on_error: str = ...,
            tops: str | Sequence[str] = ...,
            shuffle: bool = ...,
            split: Mapping[str, Any] | None = ...,
            sampling: str | Mapping[str, str] | None = ...,
            ahead: int = ...,
            transformers: Sequence[Sequence[str | Transformer | Written | Mapping[str, Any]]] = ...,
            classes: Mapping[str, Sequence[str]] | None = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        def __call__(self, *, tops: int | None = None) -> Any: ...

    class HDF5Output(HDF5OutputLayer):
        """Append the rows of every bottom that count to a dataset of an HDF5 file, after each forward pass.

        Fields:
            bottoms: what is written (at least 1)
            filename: the file, relative to the working folder, or its URL
            datasets: names of the datasets, one for each bottom; by default the bottoms'
            force_overwrite: replace an existing file; by default False
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            filename: str | PathLike[str],
            bottoms: str | Sequence[str] = ...,
            datasets: str | Sequence[str] = ...,
            force_overwrite: bool = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        def __call__(self, *bottoms: Top) -> Call: ...

    class HingeLoss(HingeLossLayer):
        """loss = weight / N · Σ max(0, 1 - x y)^p, over the N rows that count, with p = 1 ("L1") or 2 ("L2").

        Fields:
            bottoms: the scores and the labels (exactly 2)
            norm: L2 squares the missing part of the margin (one of 'L1', 'L2'); by default 'L1'
            axis: axis of the classes, if labels are classes (different from 0); by default 1
            weight: multiplies the loss (0 or more); by default 1.0
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            bottoms: str | Sequence[str] = ...,
            norm: Literal["L1", "L2"] = ...,
            axis: int = ...,
            weight: float = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        def __call__(self, bottom0: Top, bottom1: Top, /) -> Call: ...

    class HuberLoss(HuberLossLayer):
        """loss = weight / N · Σ f(x - t), over the N rows that count, where few large errors do not outweigh the others.

        Fields:
            bottoms: the prediction and the target (exactly 2)
            delta: the largest error that counts by its square (above 0, finite); by default 1.0
            weight: multiplies the loss (0 or more); by default 1.0
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            bottoms: str | Sequence[str] = ...,
            delta: float = ...,
            weight: float = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        def __call__(self, bottom0: Top, bottom1: Top, /) -> Call: ...

    class Im2col(Im2colLayer):
        """y[n, (c, cell), window] = x[n, c, stride · window + dilation · cell - pad]: what a filter sees, as channels.

        Fields:
            bottoms: the images (at least 1)
            tops: their windows (as many as bottoms)
            kernel: size of a window, in pixels (above 0)
            stride: step between windows, in pixels (above 0); by default (1,)
            pad: border of zeros on each side, in pixels (0 or more); by default (0,)
            dilation: step between the cells of a window, in pixels (above 0); by default (1,)
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            kernel: int | Sequence[int],
            bottoms: str | Sequence[str] = ...,
            tops: str | Sequence[str] = ...,
            stride: int | Sequence[int] = ...,
            pad: int | Sequence[int] = ...,
            dilation: int | Sequence[int] = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        @overload
        def __call__(self, bottom: Top, /) -> Top: ...
        @overload
        def __call__(self, bottom: Top, other: Top, /, *more: Top) -> tuple[Top, ...]: ...
        @overload
        def __call__(self, *bottoms: Top, tops: int) -> tuple[Top, ...]: ...

    class ImageData(ImageDataLayer):
        """Feed pictures and their classes: from a folder with a sub-folder for each class, or from a list.

        Fields:
            source: folders, pictures, or .txt lists of pictures; relative to the net file (at least 1)
            batch_size: number of records in a batch (above 0)
            ahead: batches that a thread reads before they are needed (0 or more); by default 2
            threads: threads that decode records, such as pictures; those of all processes together (above 0); by default 2
            root_folder: folder that the paths in lists are relative to; by default the list's own
            store: another format of files that hold pictures; by default None
            is_color: three channels; false: one, grey; by default True
            new_height: rows that the picture is scaled to; 0: see `short_side` (0 or more); by default 0
            new_width: columns that the picture is scaled to (0 or more); by default 0
            short_side: length that its shorter side is scaled to; 0: it is not scaled (0 or more); by default 0
            crop_size: rows and columns that are cut out of the scaled picture; 0: it stays whole (0 or more); by default (0, 0)
            mirror: in phase train, turn half of the pictures left to right; by default False
            mean: numbers to subtract: one for all channels, or one for each; by default (0.0,)
            scale: factors, after the mean is subtracted: one for all channels, or one for each; by default (1.0,)
            background: colour behind transparent pixels; without it such pictures are refused
            processes: processes that read and decode records; 0: this one does it (from 0 to 256); by default 0
            on_error: what a record does that cannot be read: end the work, or be left out ("skip") (one of 'raise', 'skip'); by default 'raise'
            tops: names of the blobs (at least 1); by default ('data', 'label')
            shuffle: use a new random order of the records in each pass; by default False
            split: part of the records that is fed, such as the validation part; by default None
            sampling: how often records are drawn in training: classes alike, or by weights; by default None
            transformers: transformers of the batches: a list of [top, transformer]
            classes: names of the classes of labels, in the order of their numbers: {top: names}; by default None
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            source: str | Sequence[str],
            batch_size: int,
            ahead: int = ...,
            threads: int = ...,
            root_folder: str | Sequence[str] = ...,
            store: Store | Written | None = ...,
            is_color: bool = ...,
            new_height: int = ...,
            new_width: int = ...,
            short_side: int = ...,
            crop_size: int | Sequence[int] = ...,
            mirror: bool = ...,
            mean: float | Sequence[float] = ...,
            scale: float | Sequence[float] = ...,
            background: int | Sequence[int] = ...,
            processes: int = ...,
            on_error: str = ...,
            tops: str | Sequence[str] = ...,
            shuffle: bool = ...,
            split: Mapping[str, Any] | None = ...,
            sampling: str | Mapping[str, str] | None = ...,
            transformers: Sequence[Sequence[str | Transformer | Written | Mapping[str, Any]]] = ...,
            classes: Mapping[str, Sequence[str]] | None = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        def __call__(self, *, tops: int | None = None) -> Any: ...

    class Index2Onehot(Index2OnehotLayer):
        """y[n, c] = 1 where c is the class number x[n], and 0 elsewhere; classes are counted from 0.

        Fields:
            bottoms: the class numbers (at least 1)
            tops: the vectors (as many as bottoms)
            n_class: number of classes, or the blob of classes (above 0)
            axis: axis of the classes (different from 0); by default 1
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            n_class: int | str,
            bottoms: str | Sequence[str] = ...,
            tops: str | Sequence[str] = ...,
            axis: int = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        @overload
        def __call__(self, bottom: Top, /) -> Top: ...
        @overload
        def __call__(self, bottom: Top, other: Top, /, *more: Top) -> tuple[Top, ...]: ...
        @overload
        def __call__(self, *bottoms: Top, tops: int) -> tuple[Top, ...]: ...

    class InfogainLoss(InfogainLossLayer):
        """loss = -weight / M · Σ_label Σ_k H[label, k] log softmax(x)[k], over the labels of the rows that count.

        Fields:
            bottoms: the scores, the labels, and optionally H (at least 2)
            matrix: H, as a list of rows
            source: file with H, if it is neither in `matrix` nor a bottom
            axis: axis of the classes (different from 0); by default 1
            normalize: the divisor of the sum: the labels not ignored, all labels, the records, or 1 (one of 'valid', 'full', 'batch', 'none'); by default 'valid'
            ignore_label: labels of this value are ignored; by default None
            weight: multiplies the loss (0 or more); by default 1.0
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            bottoms: str | Sequence[str] = ...,
            matrix: Sequence[Any] = ...,
            source: str | Sequence[str] = ...,
            axis: int = ...,
            normalize: Literal["valid", "full", "batch", "none"] = ...,
            ignore_label: int | None = ...,
            weight: float = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        def __call__(self, *bottoms: Top) -> Call: ...

    class InnerProduct(InnerProductLayer):
        """y = x Wᵀ + b; one top for each bottom, all with the same weight.

        Fields:
            bottoms: the blobs to multiply (at least 1)
            tops: the products (as many as bottoms)
            output_dim: number of outputs for one image, or the blob of classes (above 0)
            axis: the first axis of the features; -1 is the last; by default 1
            transpose: whether the weight is stored as (features, output_dim); by default False
            neuron: activation function of the tops; by default Identity()
            weight_init: first values of the weight; by default Xavier()
            weight_regu: regulariser of the weight; by default L2()
            weight_cons: constraint of the weight; by default None
            weight_lr: multiplies the learning rate of the weight (0 or more); by default 1.0
            bias: whether there is a bias; by default True
            bias_init: first values of the bias; by default Constant()
            bias_regu: regulariser of the bias; by default None
            bias_cons: constraint of the bias; by default None
            bias_lr: multiplies the learning rate of the bias (0 or more); by default 1.0
            param_key: layers with the same key share their parameters
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            output_dim: int | str,
            bottoms: str | Sequence[str] = ...,
            tops: str | Sequence[str] = ...,
            axis: int = ...,
            transpose: bool = ...,
            neuron: Neuron | Written = ...,
            weight_init: Initializer | Written | float = ...,
            weight_regu: Regularizer | Written | None = ...,
            weight_cons: Constraint | Written | None = ...,
            weight_lr: float = ...,
            bias: bool = ...,
            bias_init: Initializer | Written | float = ...,
            bias_regu: Regularizer | Written | None = ...,
            bias_cons: Constraint | Written | None = ...,
            bias_lr: float = ...,
            param_key: str = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        @overload
        def __call__(self, bottom: Top, /) -> Top: ...
        @overload
        def __call__(self, bottom: Top, other: Top, /, *more: Top) -> tuple[Top, ...]: ...
        @overload
        def __call__(self, *bottoms: Top, tops: int) -> tuple[Top, ...]: ...

    class Input(InputLayer):
        """Blobs that are written from outside: `net.write("data", x)`.

        Fields:
            tops: names of the blobs (at least 1); by default ('data',)
            shape: shape of one record (above 0)
            batch_size: records in a batch (above 0); by default 1
            dtype: type of the blobs; by default the net's floating type (one of '', 'float32', 'float64', 'int8', 'int16', 'int32', 'int64', 'uint8', 'uint16', 'uint32', 'uint64', 'bool')
            instead_of: the source whose place it takes: records for `predict` are changed as it does
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            tops: str | Sequence[str] = ...,
            shape: int | Sequence[int] = ...,
            batch_size: int = ...,
            dtype: str = ...,
            instead_of: Sequence[Layer | Mapping[str, Any] | str] = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        def __call__(self, *, tops: int | None = None) -> Any: ...

    class IoU(IoULayer):
        """The mean intersection over union of the classes, as segmentations of images are measured.

        Fields:
            bottoms: the scores and the labels (exactly 2)
            per_class: report `iou_0`, `iou_1`, ... too; by default False
            axis: axis of the classes (different from 0); by default 1
            ignore_label: labels of this value are ignored; by default None
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            bottoms: str | Sequence[str] = ...,
            per_class: bool = ...,
            axis: int = ...,
            ignore_label: int | None = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        def __call__(self, bottom0: Top, bottom1: Top, /) -> Call: ...

    class IterableData(IterableDataLayer):
        """Feed the items of a Python iterable, or of a dataset such as those of PyTorch and Hugging Face.

        Fields:
            data: from Python code: an iterable, a function that returns one, or a dataset with numbered items
            batch_size: number of records in a batch (above 0)
            window: records that are mixed at a time, if they are read one after the other (0 or more); by default 0
            tops: names of the blobs (at least 1); by default ('data', 'label')
            shuffle: use a new random order of the records in each pass; by default False
            split: part of the records that is fed, such as the validation part; by default None
            sampling: how often records are drawn in training: classes alike, or by weights; by default None
            ahead: batches that a thread reads before they are needed (0 or more); by default 0
            transformers: transformers of the batches: a list of [top, transformer]
            classes: names of the classes of labels, in the order of their numbers: {top: names}; by default None
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            data: Any,
            batch_size: int,
            window: int = ...,
            tops: str | Sequence[str] = ...,
            shuffle: bool = ...,
            split: Mapping[str, Any] | None = ...,
            sampling: str | Mapping[str, str] | None = ...,
            ahead: int = ...,
            transformers: Sequence[Sequence[str | Transformer | Written | Mapping[str, Any]]] = ...,
            classes: Mapping[str, Sequence[str]] | None = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        def __call__(self, *, tops: int | None = None) -> Any: ...

    class JSONLOutput(JSONLOutputLayer):
        """Append the rows of every bottom that count to a file of JSON lines, after each forward pass.

        Fields:
            bottoms: what is written (at least 1)
            filename: the file, relative to the working folder, or its URL
            names: names of the fields in the file, one for each bottom; by default the bottoms'
            force_overwrite: replace an existing file; by default False
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            filename: str | PathLike[str],
            bottoms: str | Sequence[str] = ...,
            names: str | Sequence[str] = ...,
            force_overwrite: bool = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        def __call__(self, *bottoms: Top) -> Call: ...

    class KLDivergenceLoss(KLDivergenceLossLayer):
        """loss = weight / N · Σ t log(t / p), over the N rows that count: what p lacks to be t, in nats.

        Fields:
            bottoms: the probabilities p, and t, what they should be (exactly 2)
            weight: multiplies the loss (0 or more); by default 1.0
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            bottoms: str | Sequence[str] = ...,
            weight: float = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        def __call__(self, bottom0: Top, bottom1: Top, /) -> Call: ...

    class LMDBData(LMDBDataLayer):
        """Feed the records of LMDB databases, such as those of Caffe and SINGA, in the order of their keys.

        Fields:
            source: files or folders, or .txt lists of them; relative to the net file (at least 1)
            batch_size: number of records in a batch (above 0)
            processes: processes that read and decode records; 0: this one does it (from 0 to 256); by default 1
            codec: codec of the values; by default that of the first record, and Record in a new file
            random_skip: in phase train, begin at a random record, from 0 to this (0 or more); by default 0
            shape: shape of a record of the first top, if records differ, as pictures do (above 0)
            cache_bytes: keep the data in memory if they have no more bytes than this (0 or more); by default 268435456
            threads: threads that decode records, such as pictures; those of all processes together (above 0); by default 1
            on_error: what a record does that cannot be read: end the work, or be left out ("skip") (one of 'raise', 'skip'); by default 'raise'
            tops: names of the blobs (at least 1); by default ('data', 'label')
            shuffle: use a new random order of the records in each pass; by default False
            split: part of the records that is fed, such as the validation part; by default None
            sampling: how often records are drawn in training: classes alike, or by weights; by default None
            ahead: batches that a thread reads before they are needed (0 or more); by default 0
            transformers: transformers of the batches: a list of [top, transformer]
            classes: names of the classes of labels, in the order of their numbers: {top: names}; by default None
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            source: str | Sequence[str],
            batch_size: int,
            processes: int = ...,
            codec: str = ...,
            random_skip: int = ...,
            shape: int | Sequence[int] = ...,
            cache_bytes: int = ...,
            threads: int = ...,
            on_error: str = ...,
            tops: str | Sequence[str] = ...,
            shuffle: bool = ...,
            split: Mapping[str, Any] | None = ...,
            sampling: str | Mapping[str, str] | None = ...,
            ahead: int = ...,
            transformers: Sequence[Sequence[str | Transformer | Written | Mapping[str, Any]]] = ...,
            classes: Mapping[str, Sequence[str]] | None = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        def __call__(self, *, tops: int | None = None) -> Any: ...

    class LMDBOutput(LMDBOutputLayer):
        """Append the rows of every bottom that count to an LMDB database, after each forward pass: each row is a value.

        Fields:
            bottoms: what is written (at least 1)
            filename: the file, relative to the working folder, or its URL
            names: names of the fields in the file, one for each bottom; by default the bottoms'
            codec: codec of the values; by default that of the first record, and Record in a new file
            force_overwrite: replace an existing file; by default False
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            filename: str | PathLike[str],
            bottoms: str | Sequence[str] = ...,
            names: str | Sequence[str] = ...,
            codec: str = ...,
            force_overwrite: bool = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        def __call__(self, *bottoms: Top) -> Call: ...

    class LRN(LRNLayer):
        """y = x / (shift + scale · mean(x²))^power, the mean over a window around each number; one top for each bottom.

        Fields:
            bottoms: the blobs to normalise (at least 1)
            tops: the normalised blobs (as many as bottoms)
            kernel: length of a window along each of its axes (above 0); by default 5
            scale: multiplies the mean square (0 or more); by default 1.0
            shift: added to the scaled mean square (above 0); by default 1.0
            power: exponent of the divisor (finite); by default 0.75
            mode: windows across channels, or within each channel (one of 'across', 'within'); by default 'across'
            axis: axis of the channels (different from 0); by default 1
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            bottoms: str | Sequence[str] = ...,
            tops: str | Sequence[str] = ...,
            kernel: int = ...,
            scale: float = ...,
            shift: float = ...,
            power: float = ...,
            mode: Literal["across", "within"] = ...,
            axis: int = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        @overload
        def __call__(self, bottom: Top, /) -> Top: ...
        @overload
        def __call__(self, bottom: Top, other: Top, /, *more: Top) -> tuple[Top, ...]: ...
        @overload
        def __call__(self, *bottoms: Top, tops: int) -> tuple[Top, ...]: ...

    class LSTM(LSTMLayer):
        """c_t = f c_{t-1} + i g and h_t = o tanh(c_t), with the gates i, f and o and the proposal g.

        Fields:
            bottoms: the sequences; then, if told, lengths or cont; then the first states (at least 1)
            tops: the state of every step; then, if wanted, the last states (at least 1)
            output_dim: size of the state, and of the top (above 0)
            peepholes: whether the gates see the cells too; by default False
            projection: size of the state h if it is a projection; 0: there is none (0 or more); by default 0
            n_layer: number of layers, one above the other (above 0); by default 1
            direction: from the first step to the last, back, or both side by side (one of 'forward', 'backward', 'both'); by default 'forward'
            sequences: all steps count; or the second bottom has their number; or it is 0 where a sequence begins, else 1 (one of 'full', 'lengths', 'cont'); by default 'full'
            time_major: whether sequences are (steps, images, features); by default False
            carry: begin each batch with the last states of the one before; by default False
            hidden_bias: whether the products with the state have a bias of their own, as in PyTorch; by default True
            hidden_init: first values of the weights of the state; by default Orthogonal()
            weight_init: first values of the weight; by default Xavier()
            weight_regu: regulariser of the weight; by default L2()
            weight_cons: constraint of the weight; by default None
            weight_lr: multiplies the learning rate of the weight (0 or more); by default 1.0
            bias: whether there is a bias; by default True
            bias_init: first values of the bias; by default Constant()
            bias_regu: regulariser of the bias; by default None
            bias_cons: constraint of the bias; by default None
            bias_lr: multiplies the learning rate of the bias (0 or more); by default 1.0
            param_key: layers with the same key share their parameters
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            output_dim: int,
            bottoms: str | Sequence[str] = ...,
            tops: str | Sequence[str] = ...,
            peepholes: bool = ...,
            projection: int = ...,
            n_layer: int = ...,
            direction: Literal["forward", "backward", "both"] = ...,
            sequences: Literal["full", "lengths", "cont"] = ...,
            time_major: bool = ...,
            carry: bool = ...,
            hidden_bias: bool = ...,
            hidden_init: Initializer | Written | float = ...,
            weight_init: Initializer | Written | float = ...,
            weight_regu: Regularizer | Written | None = ...,
            weight_cons: Constraint | Written | None = ...,
            weight_lr: float = ...,
            bias: bool = ...,
            bias_init: Initializer | Written | float = ...,
            bias_regu: Regularizer | Written | None = ...,
            bias_cons: Constraint | Written | None = ...,
            bias_lr: float = ...,
            param_key: str = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        @overload
        def __call__(self, *bottoms: Top) -> Top: ...
        @overload
        def __call__(self, *bottoms: Top, tops: int) -> tuple[Top, ...]: ...

    class Label(LabelLayer):
        """Make a label of each record of a source: one whole number, int64.

        Fields:
            bottoms: the records (exactly 1)
            tops: what is made of them (exactly 1)
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            bottoms: str | Sequence[str] = ...,
            tops: str | Sequence[str] = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        def __call__(self, bottom0: Top, /) -> Top: ...

    class LayerNorm(LayerNormLayer):
        """y = scale · (x - mean) / sqrt(variance + epsilon) + bias, over the axes from `axis` to the last.

        Fields:
            bottoms: the blob to normalise (exactly 1)
            tops: the normalised blob (exactly 1)
            axis: first of the axes to normalise together (different from 0); by default 1
            epsilon: added to the variance (above 0); by default 1e-05
            scale: whether there is a scale; by default True
            neuron: activation function of the top; by default Identity()
            scale_init: first values of the scale; by default Constant(value=1.0)
            scale_regu: regulariser of the scale; by default None
            scale_cons: constraint of the scale; by default None
            scale_lr: multiplies the learning rate of the scale (0 or more); by default 1.0
            bias: whether there is a bias; by default True
            bias_init: first values of the bias; by default Constant()
            bias_regu: regulariser of the bias; by default None
            bias_cons: constraint of the bias; by default None
            bias_lr: multiplies the learning rate of the bias (0 or more); by default 1.0
            param_key: layers with the same key share their parameters
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            bottoms: str | Sequence[str] = ...,
            tops: str | Sequence[str] = ...,
            axis: int = ...,
            epsilon: float = ...,
            scale: bool = ...,
            neuron: Neuron | Written = ...,
            scale_init: Initializer | Written | float = ...,
            scale_regu: Regularizer | Written | None = ...,
            scale_cons: Constraint | Written | None = ...,
            scale_lr: float = ...,
            bias: bool = ...,
            bias_init: Initializer | Written | float = ...,
            bias_regu: Regularizer | Written | None = ...,
            bias_cons: Constraint | Written | None = ...,
            bias_lr: float = ...,
            param_key: str = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        def __call__(self, bottom0: Top, /) -> Top: ...

    class Log(LogLayer):
        """y = log(scale · x + shift), by default to the base e. After Caffe's `Log`.

        Fields:
            bottoms: the inputs of the function (at least 1)
            tops: the results (as many as bottoms)
            base: base of the logarithm; e = 2.718... by default (above 0, finite)
            scale: multiplies the bottom (finite); by default 1.0
            shift: added to the scaled bottom (finite); by default 0.0
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            bottoms: str | Sequence[str] = ...,
            tops: str | Sequence[str] = ...,
            base: float | None = ...,
            scale: float = ...,
            shift: float = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        @overload
        def __call__(self, bottom: Top, /) -> Top: ...
        @overload
        def __call__(self, bottom: Top, other: Top, /, *more: Top) -> tuple[Top, ...]: ...
        @overload
        def __call__(self, *bottoms: Top, tops: int) -> tuple[Top, ...]: ...

    class MVN(MVNLayer):
        """y = (x - mean) / sqrt(variance + epsilon), for each channel of each record; one top for each bottom.

        Fields:
            bottoms: the blobs to normalise (at least 1)
            tops: the normalised blobs (as many as bottoms)
            normalize_variance: whether to make the variance 1 too; by default True
            across_channels: normalise all channels of a record together; by default False
            epsilon: added to the variance (above 0); by default 1e-09
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            bottoms: str | Sequence[str] = ...,
            tops: str | Sequence[str] = ...,
            normalize_variance: bool = ...,
            across_channels: bool = ...,
            epsilon: float = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        @overload
        def __call__(self, bottom: Top, /) -> Top: ...
        @overload
        def __call__(self, bottom: Top, other: Top, /, *more: Top) -> tuple[Top, ...]: ...
        @overload
        def __call__(self, *bottoms: Top, tops: int) -> tuple[Top, ...]: ...

    class MatMul(MatMulLayer):
        """y = a b, the products of matrices: one for each record, and for each index of the axes before the last two.

        Fields:
            bottoms: the matrices a, and the matrices b (exactly 2)
            tops: the products (exactly 1)
            transpose_a: transpose the matrices of the first bottom; by default False
            transpose_b: transpose the matrices of the second bottom; by default False
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            bottoms: str | Sequence[str] = ...,
            tops: str | Sequence[str] = ...,
            transpose_a: bool = ...,
            transpose_b: bool = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        def __call__(self, bottom0: Top, bottom1: Top, /) -> Top: ...

    class MeanAbsoluteError(MeanAbsoluteErrorLayer):
        """The mean distance of predictions from the truth.

        Fields:
            bottoms: the predictions and the truth (exactly 2)
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            bottoms: str | Sequence[str] = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        def __call__(self, bottom0: Top, bottom1: Top, /) -> Call: ...

    class MemoryData(MemoryDataLayer):
        """Feed the records of arrays: axis 0 counts the records, and each top is a batch (batch_size, ...) of one array.

        Fields:
            data: the arrays, one for each top: a list, or {top: array}
            batch_size: number of records in a batch (above 0)
            column_names: names of the columns of a table that make up a record: {top: names}; by default None
            tops: names of the blobs (at least 1); by default ('data', 'label')
            shuffle: use a new random order of the records in each pass; by default False
            split: part of the records that is fed, such as the validation part; by default None
            sampling: how often records are drawn in training: classes alike, or by weights; by default None
            ahead: batches that a thread reads before they are needed (0 or more); by default 0
            transformers: transformers of the batches: a list of [top, transformer]
            classes: names of the classes of labels, in the order of their numbers: {top: names}; by default None
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            data: Any,
            batch_size: int,
            column_names: Mapping[str, Sequence[str]] | None = ...,
            tops: str | Sequence[str] = ...,
            shuffle: bool = ...,
            split: Mapping[str, Any] | None = ...,
            sampling: str | Mapping[str, str] | None = ...,
            ahead: int = ...,
            transformers: Sequence[Sequence[str | Transformer | Written | Mapping[str, Any]]] = ...,
            classes: Mapping[str, Sequence[str]] | None = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        def __call__(self, *, tops: int | None = None) -> Any: ...

    class MemoryOutput(MemoryOutputLayer):
        """Keep a copy of the rows of every bottom that count, after each forward pass.

        Fields:
            bottoms: what is kept (at least 1)
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            bottoms: str | Sequence[str] = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        def __call__(self, *bottoms: Top) -> Call: ...

    class MnistImage(MnistImageLayer):
        """Make pictures of one channel of the records of a source: normalised, and distorted in phase `train`.

        Fields:
            bottoms: the records (exactly 1)
            tops: what is made of them (exactly 1)
            norm_a: numbers are divided by this (finite, different from 0); by default 1.0
            norm_b: and then this is subtracted (finite); by default 0.0
            resize: rows and columns to which pictures are scaled; 0: as they are (0 or more); by default 0
            gamma: largest scaling, in percent (from 0 to below 100); by default 0.0
            beta: largest rotation, or shear, in degrees (finite, 0 or more); by default 0.0
            alpha: largest displacement before it is smoothed, in pixels (finite, 0 or more); by default 0.0
            sigma: width of the Gaussian that smooths displacements, in pixels (finite, 0 or more); by default 0.0
            kernel: rows and columns of this Gaussian's window, an odd number (0 or more); by default 0
            elastic_freq: 0: no displacements; any other number: each record has its own (0 or more); by default 0
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            bottoms: str | Sequence[str] = ...,
            tops: str | Sequence[str] = ...,
            norm_a: float = ...,
            norm_b: float = ...,
            resize: int = ...,
            gamma: float = ...,
            beta: float = ...,
            alpha: float = ...,
            sigma: float = ...,
            kernel: int = ...,
            elastic_freq: int = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        def __call__(self, bottom0: Top, /) -> Top: ...

    class MultinomialLogisticLoss(MultinomialLogisticLossLayer):
        """loss = -weight / M · Σ ω[label] log p[label], over the labels of the rows that count.

        Fields:
            bottoms: the probabilities, the labels, and optionally the weight of each record (2 or 3)
            weights: one number for each class, or an array of the shape of one record's scores, or of a batch's
            normalize_weights: whether to scale weights so that their mean is 1: over the classes, over a record, or not (one of 'local', 'global', 'no'); by default 'local'
            axis: axis of the classes (different from 0); by default 1
            normalize: the divisor of the sum: the labels not ignored, all labels, the records, or 1 (one of 'valid', 'full', 'batch', 'none'); by default 'valid'
            ignore_label: labels of this value are ignored; by default None
            weight: multiplies the loss (0 or more); by default 1.0
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            bottoms: str | Sequence[str] = ...,
            weights: Sequence[Any] = ...,
            normalize_weights: Literal["local", "global", "no"] = ...,
            axis: int = ...,
            normalize: Literal["valid", "full", "batch", "none"] = ...,
            ignore_label: int | None = ...,
            weight: float = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        def __call__(self, bottom0: Top, bottom1: Top, bottom2: Top = ..., /) -> Call: ...

    class NumpyData(NumpyDataLayer):
        """Feed the records of NumPy's files: the array of a .npy file, or the arrays of a .npz file by their names.

        Fields:
            source: files or folders, or .txt lists of them; relative to the net file (at least 1)
            batch_size: number of records in a batch (above 0)
            shape: shape of a record of the first top, if records differ, as pictures do (above 0)
            cache_bytes: keep the data in memory if they have no more bytes than this (0 or more); by default 268435456
            threads: threads that decode records, such as pictures; those of all processes together (above 0); by default 1
            processes: processes that read and decode records; 0: this one does it (from 0 to 256); by default 0
            on_error: what a record does that cannot be read: end the work, or be left out ("skip") (one of 'raise', 'skip'); by default 'raise'
            tops: names of the blobs (at least 1); by default ('data', 'label')
            shuffle: use a new random order of the records in each pass; by default False
            split: part of the records that is fed, such as the validation part; by default None
            sampling: how often records are drawn in training: classes alike, or by weights; by default None
            ahead: batches that a thread reads before they are needed (0 or more); by default 0
            transformers: transformers of the batches: a list of [top, transformer]
            classes: names of the classes of labels, in the order of their numbers: {top: names}; by default None
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            source: str | Sequence[str],
            batch_size: int,
            shape: int | Sequence[int] = ...,
            cache_bytes: int = ...,
            threads: int = ...,
            processes: int = ...,
            on_error: str = ...,
            tops: str | Sequence[str] = ...,
            shuffle: bool = ...,
            split: Mapping[str, Any] | None = ...,
            sampling: str | Mapping[str, str] | None = ...,
            ahead: int = ...,
            transformers: Sequence[Sequence[str | Transformer | Written | Mapping[str, Any]]] = ...,
            classes: Mapping[str, Sequence[str]] | None = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        def __call__(self, *, tops: int | None = None) -> Any: ...

    class NumpyOutput(NumpyOutputLayer):
        """Append the rows of every bottom that count to an array in a NumPy file, after each forward pass.

        Fields:
            bottoms: what is written (at least 1)
            filename: the file, relative to the working folder, or its URL
            names: names of the fields in the file, one for each bottom; by default the bottoms'
            force_overwrite: replace an existing file; by default False
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            filename: str | PathLike[str],
            bottoms: str | Sequence[str] = ...,
            names: str | Sequence[str] = ...,
            force_overwrite: bool = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        def __call__(self, *bottoms: Top) -> Call: ...

    class OneHot(OneHotLayer):
        """y[..., c] = 1 where c is the number x[...], and 0 elsewhere; numbers are counted from 0.

        Fields:
            bottoms: the numbers (at least 1)
            tops: the vectors (as many as bottoms)
            n_class: length of a vector: how many numbers there are, or the blob of classes (above 0)
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            n_class: int | str,
            bottoms: str | Sequence[str] = ...,
            tops: str | Sequence[str] = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        @overload
        def __call__(self, bottom: Top, /) -> Top: ...
        @overload
        def __call__(self, bottom: Top, other: Top, /, *more: Top) -> tuple[Top, ...]: ...
        @overload
        def __call__(self, *bottoms: Top, tops: int) -> tuple[Top, ...]: ...

    class Output(OutputLayer):
        """Append the rows of every bottom that count to a file of any format that a store writes, after each forward pass.

        Fields:
            bottoms: what is written (at least 1)
            filename: the file, relative to the working folder, or its URL
            names: names of the fields in the file, one for each bottom; by default the bottoms'
            store: format of the file; by default that of its name
            force_overwrite: replace an existing file; by default False
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            filename: str | PathLike[str],
            bottoms: str | Sequence[str] = ...,
            names: str | Sequence[str] = ...,
            store: Store | Written | None = ...,
            force_overwrite: bool = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        def __call__(self, *bottoms: Top) -> Call: ...

    class PReLU(PReLULayer):
        """y = x where x > 0, else slope · x, with a slope for each channel; one top for each bottom.

        Fields:
            bottoms: the inputs of the function (at least 1)
            tops: the results (as many as bottoms)
            axis: axis of the channels (different from 0); by default 1
            shared: whether all channels share one slope; by default False
            slope_init: first values of the slope; by default Constant(value=0.25)
            slope_regu: regulariser of the slope; by default None
            slope_cons: constraint of the slope; by default None
            slope_lr: multiplies the learning rate of the slope (0 or more); by default 1.0
            param_key: layers with the same key share their parameters
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            bottoms: str | Sequence[str] = ...,
            tops: str | Sequence[str] = ...,
            axis: int = ...,
            shared: bool = ...,
            slope_init: Initializer | Written | float = ...,
            slope_regu: Regularizer | Written | None = ...,
            slope_cons: Constraint | Written | None = ...,
            slope_lr: float = ...,
            param_key: str = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        @overload
        def __call__(self, bottom: Top, /) -> Top: ...
        @overload
        def __call__(self, bottom: Top, other: Top, /, *more: Top) -> tuple[Top, ...]: ...
        @overload
        def __call__(self, *bottoms: Top, tops: int) -> tuple[Top, ...]: ...

    class Pad(PadLayer):
        """Put a border of `pad` numbers in front of and behind each image, along `axes`; one top for each bottom.

        Fields:
            bottoms: the images (at least 1)
            tops: the images with a border (as many as bottoms)
            pad: length of the border in front, and behind unless `end` is given (0 or more)
            end: length of the border behind; by default that of `pad` (0 or more)
            axes: axes that get a border; by default all after the channels (above 0)
            mode: what is in the border (one of 'constant', 'edge', 'reflect'); by default 'constant'
            value: the number in the border, with mode="constant" (finite); by default 0.0
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            pad: int | Sequence[int],
            bottoms: str | Sequence[str] = ...,
            tops: str | Sequence[str] = ...,
            end: int | Sequence[int] = ...,
            axes: int | Sequence[int] = ...,
            mode: Literal["constant", "edge", "reflect"] = ...,
            value: float = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        @overload
        def __call__(self, bottom: Top, /) -> Top: ...
        @overload
        def __call__(self, bottom: Top, other: Top, /, *more: Top) -> tuple[Top, ...]: ...
        @overload
        def __call__(self, *bottoms: Top, tops: int) -> tuple[Top, ...]: ...

    class Parameter(ParameterLayer):
        """y = weight: a learned blob, which other layers read like any other.

        Fields:
            tops: the learned blob (exactly 1)
            shape: its shape, with the first axis (above 0)
            bottoms: none (exactly 0)
            weight_init: first values of the weight; by default Xavier()
            weight_regu: regulariser of the weight; by default L2()
            weight_cons: constraint of the weight; by default None
            weight_lr: multiplies the learning rate of the weight (0 or more); by default 1.0
            param_key: layers with the same key share their parameters
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            shape: int | Sequence[int],
            tops: str | Sequence[str] = ...,
            bottoms: str | Sequence[str] = ...,
            weight_init: Initializer | Written | float = ...,
            weight_regu: Regularizer | Written | None = ...,
            weight_cons: Constraint | Written | None = ...,
            weight_lr: float = ...,
            param_key: str = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        def __call__(self) -> Top: ...

    class Perplexity(PerplexityLayer):
        """The perplexity of the labels: e to the power of their mean negative log-likelihood.

        Fields:
            bottoms: the scores and the labels (exactly 2)
            axis: axis of the classes (different from 0); by default 1
            ignore_label: labels of this value are ignored; by default None
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            bottoms: str | Sequence[str] = ...,
            axis: int = ...,
            ignore_label: int | None = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        def __call__(self, bottom0: Top, bottom1: Top, /) -> Call: ...

    class Pooling(PoolingLayer):
        """Pool every channel of every image on its own; one top for each bottom, and optionally a mask for each.

        Fields:
            bottoms: the blobs to pool (at least 1)
            tops: the pooled blobs, optionally followed by the masks (as many as bottoms, or twice as many)
            kernel: window, in pixels (above 0); by default (1,)
            stride: step between windows, in pixels (above 0); by default (1,)
            pad: border of padding on each side, in pixels (0 or more); by default (0,)
            axes: axes to pool; by default all after the channels (above 0)
            whole: the window is the whole image; then kernel, stride and pad must not be given; by default False
            rounding: whether a partial window counts (ceil) or not (one of 'ceil', 'floor'); by default 'ceil'
            pooling: the summary of a window; by default Max()
            neuron: activation function of the tops; by default Identity()
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            bottoms: str | Sequence[str] = ...,
            tops: str | Sequence[str] = ...,
            kernel: int | Sequence[int] = ...,
            stride: int | Sequence[int] = ...,
            pad: int | Sequence[int] = ...,
            axes: int | Sequence[int] = ...,
            whole: bool = ...,
            rounding: Literal["ceil", "floor"] = ...,
            pooling: PoolingFunction | Written = ...,
            neuron: Neuron | Written = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        @overload
        def __call__(self, bottom: Top, /) -> Top: ...
        @overload
        def __call__(self, bottom: Top, other: Top, /, *more: Top) -> tuple[Top, ...]: ...
        @overload
        def __call__(self, *bottoms: Top, tops: int) -> tuple[Top, ...]: ...

    class Power(PowerLayer):
        """y = (scale · x + shift) ^ power, where 0 ^ 0 is 1.

        Fields:
            bottoms: the inputs of the function (at least 1)
            tops: the results (as many as bottoms)
            power: the exponent (finite); by default 1.0
            scale: multiplies the bottom (finite); by default 1.0
            shift: added to the scaled bottom (finite); by default 0.0
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            bottoms: str | Sequence[str] = ...,
            tops: str | Sequence[str] = ...,
            power: float = ...,
            scale: float = ...,
            shift: float = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        @overload
        def __call__(self, bottom: Top, /) -> Top: ...
        @overload
        def __call__(self, bottom: Top, other: Top, /, *more: Top) -> tuple[Top, ...]: ...
        @overload
        def __call__(self, *bottoms: Top, tops: int) -> tuple[Top, ...]: ...

    class PrecisionRecall(PrecisionRecallLayer):
        """Precision, recall and F1 of the class with the highest score.

        Fields:
            bottoms: the scores and the labels (exactly 2)
            average: how classes are put together (one of 'macro', 'micro', 'weighted'); by default 'macro'
            per_class: report `precision_0`, `recall_0`, `f1_0`, ... too; by default False
            axis: axis of the classes (different from 0); by default 1
            ignore_label: labels of this value are ignored; by default None
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            bottoms: str | Sequence[str] = ...,
            average: Literal["macro", "micro", "weighted"] = ...,
            per_class: bool = ...,
            axis: int = ...,
            ignore_label: int | None = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        def __call__(self, bottom0: Top, bottom1: Top, /) -> Call: ...

    class Prefetch(PrefetchLayer):
        """Run a source, and the layers that parse its records, in a thread of their own, while the net computes.

        Fields:
            layer: the source, and the layers that read its tops (at least 1)
            tops: tops of embedded layers; by default those that no embedded layer reads
            ahead: batches that are made ahead; 0: without a thread (from 0 to 1,000); by default 2
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            layer: Sequence[Layer | Mapping[str, Any] | str],
            tops: str | Sequence[str] = ...,
            ahead: int = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        def __call__(self, *, tops: int | None = None) -> Any: ...

    class R2(R2Layer):
        """The coefficient of determination R².

        Fields:
            bottoms: the predictions and the truth (exactly 2)
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            bottoms: str | Sequence[str] = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        def __call__(self, bottom0: Top, bottom1: Top, /) -> Call: ...

    class RBMHidden(RBMHiddenLayer):
        """The means of the hidden units of a restricted Boltzmann machine, given the visible ones.

        Fields:
            bottoms: the visible units (exactly 1)
            tops: the means of the hidden units (exactly 1)
            output_dim: number of hidden units (above 0)
            units: binary, or gaussian with variance 1 (one of 'binary', 'gaussian'); by default 'binary'
            weight_init: first values of the weight; by default Xavier()
            weight_regu: regulariser of the weight; by default L2()
            weight_cons: constraint of the weight; by default None
            weight_lr: multiplies the learning rate of the weight (0 or more); by default 1.0
            bias: whether there is a bias; by default True
            bias_init: first values of the bias; by default Constant()
            bias_regu: regulariser of the bias; by default None
            bias_cons: constraint of the bias; by default None
            bias_lr: multiplies the learning rate of the bias (0 or more); by default 1.0
            param_key: layers with the same key share their parameters
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            output_dim: int,
            bottoms: str | Sequence[str] = ...,
            tops: str | Sequence[str] = ...,
            units: Literal["binary", "gaussian"] = ...,
            weight_init: Initializer | Written | float = ...,
            weight_regu: Regularizer | Written | None = ...,
            weight_cons: Constraint | Written | None = ...,
            weight_lr: float = ...,
            bias: bool = ...,
            bias_init: Initializer | Written | float = ...,
            bias_regu: Regularizer | Written | None = ...,
            bias_cons: Constraint | Written | None = ...,
            bias_lr: float = ...,
            param_key: str = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        def __call__(self, bottom0: Top, /) -> Top: ...

    class RBMVisible(RBMVisibleLayer):
        """The means of the visible units of a restricted Boltzmann machine, given the hidden ones.

        Fields:
            bottoms: the data and the hidden units (exactly 2)
            tops: the visible units (exactly 1)
            tied: name of the RBMHidden whose weight is used; by default that of the second bottom
            units: binary, or gaussian with variance 1 (one of 'binary', 'gaussian'); by default 'binary'
            bias: whether there is a bias; by default True
            bias_init: first values of the bias; by default Constant()
            bias_regu: regulariser of the bias; by default None
            bias_cons: constraint of the bias; by default None
            bias_lr: multiplies the learning rate of the bias (0 or more); by default 1.0
            param_key: layers with the same key share their parameters
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            bottoms: str | Sequence[str] = ...,
            tops: str | Sequence[str] = ...,
            tied: str = ...,
            units: Literal["binary", "gaussian"] = ...,
            bias: bool = ...,
            bias_init: Initializer | Written | float = ...,
            bias_regu: Regularizer | Written | None = ...,
            bias_cons: Constraint | Written | None = ...,
            bias_lr: float = ...,
            param_key: str = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        def __call__(self, bottom0: Top, bottom1: Top, /) -> Top: ...

    class RGBImage(RGBImageLayer):
        """Make pictures of the records of a source: less a mean, cut, mirrored and scaled.

        Fields:
            bottoms: the records (exactly 1)
            tops: what is made of them (exactly 1)
            scale: factor, after the mean is subtracted (finite); by default 1.0
            crop_size: rows and columns of the window that is cut out; 0: all (0 or more); by default 0
            mirror: in phase train, turn half of the pictures left to right; by default False
            mean: the mean of all pictures, before they are cut; as in SubMean
            mean_file: file with this mean; as in SubMean
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            bottoms: str | Sequence[str] = ...,
            tops: str | Sequence[str] = ...,
            scale: float = ...,
            crop_size: int = ...,
            mirror: bool = ...,
            mean: Any = ...,
            mean_file: str | Sequence[str] = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        def __call__(self, bottom0: Top, /) -> Top: ...

    class RMSNorm(RMSNormLayer):
        """y = scale · x / sqrt(mean(x²) + epsilon), over the axes from `axis` to the last.

        Fields:
            bottoms: the blob to normalise (exactly 1)
            tops: the normalised blob (exactly 1)
            axis: first of the axes to normalise together (different from 0); by default 1
            epsilon: added to the mean of the squares (above 0); by default 1e-05
            scale: whether there is a scale; by default True
            neuron: activation function of the top; by default Identity()
            scale_init: first values of the scale; by default Constant(value=1.0)
            scale_regu: regulariser of the scale; by default None
            scale_cons: constraint of the scale; by default None
            scale_lr: multiplies the learning rate of the scale (0 or more); by default 1.0
            param_key: layers with the same key share their parameters
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            bottoms: str | Sequence[str] = ...,
            tops: str | Sequence[str] = ...,
            axis: int = ...,
            epsilon: float = ...,
            scale: bool = ...,
            neuron: Neuron | Written = ...,
            scale_init: Initializer | Written | float = ...,
            scale_regu: Regularizer | Written | None = ...,
            scale_cons: Constraint | Written | None = ...,
            scale_lr: float = ...,
            param_key: str = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        def __call__(self, bottom0: Top, /) -> Top: ...

    class RNN(RNNLayer):
        """h_t = tanh(W x_t + R h_{t-1} + b), or with `activation = "ReLU"` max(W x_t + R h_{t-1} + b, 0).

        Fields:
            bottoms: the sequences; then, if told, lengths or cont; then the first states (at least 1)
            tops: the state of every step; then, if wanted, the last states (at least 1)
            output_dim: size of the state, and of the top (above 0)
            activation: the function: Tanh or ReLU (one of 'Tanh', 'ReLU'); by default 'Tanh'
            n_layer: number of layers, one above the other (above 0); by default 1
            direction: from the first step to the last, back, or both side by side (one of 'forward', 'backward', 'both'); by default 'forward'
            sequences: all steps count; or the second bottom has their number; or it is 0 where a sequence begins, else 1 (one of 'full', 'lengths', 'cont'); by default 'full'
            time_major: whether sequences are (steps, images, features); by default False
            carry: begin each batch with the last states of the one before; by default False
            hidden_bias: whether the products with the state have a bias of their own, as in PyTorch; by default True
            hidden_init: first values of the weights of the state; by default Orthogonal()
            weight_init: first values of the weight; by default Xavier()
            weight_regu: regulariser of the weight; by default L2()
            weight_cons: constraint of the weight; by default None
            weight_lr: multiplies the learning rate of the weight (0 or more); by default 1.0
            bias: whether there is a bias; by default True
            bias_init: first values of the bias; by default Constant()
            bias_regu: regulariser of the bias; by default None
            bias_cons: constraint of the bias; by default None
            bias_lr: multiplies the learning rate of the bias (0 or more); by default 1.0
            param_key: layers with the same key share their parameters
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            output_dim: int,
            bottoms: str | Sequence[str] = ...,
            tops: str | Sequence[str] = ...,
            activation: Literal["Tanh", "ReLU"] = ...,
            n_layer: int = ...,
            direction: Literal["forward", "backward", "both"] = ...,
            sequences: Literal["full", "lengths", "cont"] = ...,
            time_major: bool = ...,
            carry: bool = ...,
            hidden_bias: bool = ...,
            hidden_init: Initializer | Written | float = ...,
            weight_init: Initializer | Written | float = ...,
            weight_regu: Regularizer | Written | None = ...,
            weight_cons: Constraint | Written | None = ...,
            weight_lr: float = ...,
            bias: bool = ...,
            bias_init: Initializer | Written | float = ...,
            bias_regu: Regularizer | Written | None = ...,
            bias_cons: Constraint | Written | None = ...,
            bias_lr: float = ...,
            param_key: str = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        @overload
        def __call__(self, *bottoms: Top) -> Top: ...
        @overload
        def __call__(self, *bottoms: Top, tops: int) -> tuple[Top, ...]: ...

    class ROCAUC(ROCAUCLayer):
        """The area under the curve of the receiver operating characteristic.

        Fields:
            bottoms: the scores and the labels (exactly 2)
            axis: axis of the classes (different from 0); by default 1
            threshold: labels of the scores' shape are true if they are above it (finite); by default 0.5
            ignore_label: class numbers of this value are ignored; by default None
            per_class: report the statistic of each class too, with `_0`, `_1`, ... after its name; by default False
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            bottoms: str | Sequence[str] = ...,
            axis: int = ...,
            threshold: float = ...,
            ignore_label: int | None = ...,
            per_class: bool = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        def __call__(self, bottom0: Top, bottom1: Top, /) -> Call: ...

    class RandomMask(RandomMaskLayer):
        """In phase `train` each element of every bottom becomes 0 with probability `ratio`; the others do not change.

        Fields:
            bottoms: the blobs, changed in place (at least 1)
            ratio: probability to become 0 (0 or more, and below 1); by default 0.5
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            bottoms: str | Sequence[str] = ...,
            ratio: float = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        @overload
        def __call__(self, bottom: Top, /) -> Top: ...
        @overload
        def __call__(self, bottom: Top, other: Top, /, *more: Top) -> tuple[Top, ...]: ...
        @overload
        def __call__(self, *bottoms: Top, tops: int) -> tuple[Top, ...]: ...

    class RandomNormal(RandomNormalLayer):
        """Fill every top with numbers of the normal distribution of mean 0 and variance 1, new ones in each batch.

        Fields:
            tops: names of the blobs (at least 1)
            batch_size: records in a batch: one number for all tops, or one for each (above 0)
            output_dims: shape of one record (above 0)
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            batch_size: int | Sequence[int],
            tops: str | Sequence[str] = ...,
            output_dims: int | Sequence[int] = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        def __call__(self, *, tops: int | None = None) -> Any: ...

    class Reduction(ReductionLayer):
        """y = coefficient · Σ f(x) over all axes from `axis` on, where f(x) is x, |x| or x²; or the mean of x.

        Fields:
            bottoms: the blobs to reduce (at least 1)
            tops: the results (as many as bottoms)
            operation: the function of the numbers (one of 'sum', 'asum', 'sumsq', 'mean'); by default 'sum'
            axis: first of the axes to reduce to one number (different from 0); by default 1
            coefficient: multiplies the result (finite); by default 1.0
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            bottoms: str | Sequence[str] = ...,
            tops: str | Sequence[str] = ...,
            operation: Literal["sum", "asum", "sumsq", "mean"] = ...,
            axis: int = ...,
            coefficient: float = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        @overload
        def __call__(self, bottom: Top, /) -> Top: ...
        @overload
        def __call__(self, bottom: Top, other: Top, /, *more: Top) -> tuple[Top, ...]: ...
        @overload
        def __call__(self, *bottoms: Top, tops: int) -> tuple[Top, ...]: ...

    class Repeat(RepeatLayer):
        """The same layers `times` times: each repetition is a Sequential, and reads what the one before it wrote.

        Fields:
            bottoms: the blobs that the first repetition reads (at least 1)
            tops: the blobs that the last repetition writes (as many as bottoms)
            times: number of repetitions (from 1 to 10,000)
            layer: the layers of one repetition (at least 1)
            shared: whether all repetitions have the same parameters; by default False
            param_key: layers with the same key share their parameters
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            times: int,
            layer: Sequence[Layer | Mapping[str, Any] | str],
            bottoms: str | Sequence[str] = ...,
            tops: str | Sequence[str] = ...,
            shared: bool = ...,
            param_key: str = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        @overload
        def __call__(self, bottom: Top, /) -> Top: ...
        @overload
        def __call__(self, bottom: Top, other: Top, /, *more: Top) -> tuple[Top, ...]: ...
        @overload
        def __call__(self, *bottoms: Top, tops: int) -> tuple[Top, ...]: ...

    class Reshape(ReshapeLayer):
        """Read every image under another shape; one top for each bottom, and nothing is copied.

        Fields:
            bottoms: the blobs to reshape (at least 1)
            tops: the reshaped blobs (as many as bottoms)
            shape: shape of one image (above 0, or 0 to copy, or -1)
            axis: first of the axes that `shape` replaces (different from 0); by default 1
            n_axes: number of these axes; -1 is all of them (0 or more, or -1); by default -1
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            shape: int | Sequence[int],
            bottoms: str | Sequence[str] = ...,
            tops: str | Sequence[str] = ...,
            axis: int = ...,
            n_axes: int = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        @overload
        def __call__(self, bottom: Top, /) -> Top: ...
        @overload
        def __call__(self, bottom: Top, other: Top, /, *more: Top) -> tuple[Top, ...]: ...
        @overload
        def __call__(self, *bottoms: Top, tops: int) -> tuple[Top, ...]: ...

    class Residual(ResidualLayer):
        """y = f(x + block(x)), with a neuron f: the layers of the block one after the other, as in a Sequential.

        Fields:
            bottoms: the blob x (exactly 1)
            tops: the blob y (exactly 1)
            layer: the layers of the block (at least 1)
            neuron: activation function of the sum; by default Identity()
            projection: layers between x and the sum, where the block changes the shape
            param_key: layers with the same key share their parameters
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            layer: Sequence[Layer | Mapping[str, Any] | str],
            bottoms: str | Sequence[str] = ...,
            tops: str | Sequence[str] = ...,
            neuron: Neuron | Written = ...,
            projection: Sequence[Layer | Mapping[str, Any] | str] = ...,
            param_key: str = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        def __call__(self, bottom0: Top, /) -> Top: ...

    class Resize(ResizeLayer):
        """Make images larger or smaller, to `size` pixels or by a `factor`; one top for each bottom.

        Fields:
            bottoms: the images (at least 1)
            tops: the images of the new size (as many as bottoms)
            size: the new (rows, columns), or one number for both (above 0)
            factor: instead of size: how much larger an image becomes (above 0, finite); by default None
            mode: the nearest pixel, or the mean of neighbours (one of 'nearest', 'bilinear'); by default 'nearest'
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            bottoms: str | Sequence[str] = ...,
            tops: str | Sequence[str] = ...,
            size: int | Sequence[int] = ...,
            factor: float | None = ...,
            mode: Literal["nearest", "bilinear"] = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        @overload
        def __call__(self, bottom: Top, /) -> Top: ...
        @overload
        def __call__(self, bottom: Top, other: Top, /, *more: Top) -> tuple[Top, ...]: ...
        @overload
        def __call__(self, *bottoms: Top, tops: int) -> tuple[Top, ...]: ...

    class SPP(SPPLayer):
        """Spatial pyramid pooling: summaries of the image, its quarters, its sixteenths, ...; one top for each bottom.

        Fields:
            bottoms: the blobs to pool (at least 1)
            tops: the summaries (as many as bottoms)
            pyramid_height: number of levels of the pyramid (above 0)
            pooling: the summary of a window; by default Max()
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            pyramid_height: int,
            bottoms: str | Sequence[str] = ...,
            tops: str | Sequence[str] = ...,
            pooling: PoolingFunction | Written = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        @overload
        def __call__(self, bottom: Top, /) -> Top: ...
        @overload
        def __call__(self, bottom: Top, other: Top, /, *more: Top) -> tuple[Top, ...]: ...
        @overload
        def __call__(self, *bottoms: Top, tops: int) -> tuple[Top, ...]: ...

    class Scale(ScaleLayer):
        """y = x · scale + bias, where scale and bias are repeated along the axes that they do not have.

        Fields:
            bottoms: the blob x, and the operand if it is not learned (at least 1)
            tops: the result, of the shape of x (exactly 1)
            bias: whether to add a learned bias; only with a learned scale; by default False
            axis: first axis of x that the operand has; by default 1, or 0 with a second bottom
            n_axes: number of axes of a learned operand; 0 is a single number, -1 all up to the last; by default 1
            neuron: activation function of the top; by default Identity()
            bias_init: first values of the bias; by default Constant()
            bias_regu: regulariser of the bias; by default None
            bias_cons: constraint of the bias; by default None
            bias_lr: multiplies the learning rate of the bias (0 or more); by default 1.0
            scale_init: first values of the scale; by default Constant(value=1.0)
            scale_regu: regulariser of the scale; by default None
            scale_cons: constraint of the scale; by default None
            scale_lr: multiplies the learning rate of the scale (0 or more); by default 1.0
            param_key: layers with the same key share their parameters
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            bottoms: str | Sequence[str] = ...,
            tops: str | Sequence[str] = ...,
            bias: bool = ...,
            axis: int | None = ...,
            n_axes: int = ...,
            neuron: Neuron | Written = ...,
            bias_init: Initializer | Written | float = ...,
            bias_regu: Regularizer | Written | None = ...,
            bias_cons: Constraint | Written | None = ...,
            bias_lr: float = ...,
            scale_init: Initializer | Written | float = ...,
            scale_regu: Regularizer | Written | None = ...,
            scale_cons: Constraint | Written | None = ...,
            scale_lr: float = ...,
            param_key: str = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        def __call__(self, *bottoms: Top) -> Top: ...

    class Sequential(SequentialLayer):
        """Layers one after the other: each reads what the one before it wrote, unless it names blobs.

        Fields:
            bottoms: the blobs that the first layer reads
            tops: the blobs that the last layer writes
            layer: the layers (at least 1)
            param_key: layers with the same key share their parameters
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            layer: Sequence[Layer | Mapping[str, Any] | str],
            bottoms: str | Sequence[str] = ...,
            tops: str | Sequence[str] = ...,
            param_key: str = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        @overload
        def __call__(self, *bottoms: Top) -> Top: ...
        @overload
        def __call__(self, *bottoms: Top, tops: int) -> tuple[Top, ...]: ...

    class ShardData(ShardDataLayer):
        """Feed the records of SINGA's shards in the order in which they were written.

        Fields:
            source: files or folders, or .txt lists of them; relative to the net file (at least 1)
            batch_size: number of records in a batch (above 0)
            codec: codec of the values; by default that of the first record, and Record in a new file
            torn_tail: whether to leave out a last record that is cut, as after a crash of its writer; by default False
            random_skip: in phase train, begin at a random record, from 0 to this (0 or more); by default 0
            shape: shape of a record of the first top, if records differ, as pictures do (above 0)
            cache_bytes: keep the data in memory if they have no more bytes than this (0 or more); by default 268435456
            threads: threads that decode records, such as pictures; those of all processes together (above 0); by default 1
            processes: processes that read and decode records; 0: this one does it (from 0 to 256); by default 0
            on_error: what a record does that cannot be read: end the work, or be left out ("skip") (one of 'raise', 'skip'); by default 'raise'
            tops: names of the blobs (at least 1); by default ('data', 'label')
            shuffle: use a new random order of the records in each pass; by default False
            split: part of the records that is fed, such as the validation part; by default None
            sampling: how often records are drawn in training: classes alike, or by weights; by default None
            ahead: batches that a thread reads before they are needed (0 or more); by default 0
            transformers: transformers of the batches: a list of [top, transformer]
            classes: names of the classes of labels, in the order of their numbers: {top: names}; by default None
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            source: str | Sequence[str],
            batch_size: int,
            codec: str = ...,
            torn_tail: bool = ...,
            random_skip: int = ...,
            shape: int | Sequence[int] = ...,
            cache_bytes: int = ...,
            threads: int = ...,
            processes: int = ...,
            on_error: str = ...,
            tops: str | Sequence[str] = ...,
            shuffle: bool = ...,
            split: Mapping[str, Any] | None = ...,
            sampling: str | Mapping[str, str] | None = ...,
            ahead: int = ...,
            transformers: Sequence[Sequence[str | Transformer | Written | Mapping[str, Any]]] = ...,
            classes: Mapping[str, Sequence[str]] | None = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        def __call__(self, *, tops: int | None = None) -> Any: ...

    class ShardOutput(ShardOutputLayer):
        """Append the rows of every bottom that count to a shard of SINGA's, after each forward pass: each row is a value.

        Fields:
            bottoms: what is written (at least 1)
            filename: the file, relative to the working folder, or its URL
            names: names of the fields in the file, one for each bottom; by default the bottoms'
            codec: codec of the values; by default that of the first record, and Record in a new file
            force_overwrite: replace an existing file; by default False
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            filename: str | PathLike[str],
            bottoms: str | Sequence[str] = ...,
            names: str | Sequence[str] = ...,
            codec: str = ...,
            force_overwrite: bool = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        def __call__(self, *bottoms: Top) -> Call: ...

    class SigmoidCrossEntropyLoss(SigmoidCrossEntropyLossLayer):
        """loss = -weight / M · Σ (t log σ(x) + (1 - t) log(1 - σ(x))) with σ(x) = 1 / (1 + exp(-x)).

        Fields:
            bottoms: the scores, the targets, and optionally the weight of each record (2 or 3)
            normalize: the divisor of the sum (one of 'valid', 'full', 'batch', 'none'); by default 'batch'
            ignore_label: targets of this value are ignored; by default None
            weight: multiplies the loss (0 or more); by default 1.0
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            bottoms: str | Sequence[str] = ...,
            normalize: Literal["valid", "full", "batch", "none"] = ...,
            ignore_label: int | None = ...,
            weight: float = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        def __call__(self, bottom0: Top, bottom1: Top, bottom2: Top = ..., /) -> Call: ...

    class Silence(SilenceLayer):
        """Take blobs, with a gradient of 0: for tops of a trained layer that no other layer reads.

        Fields:
            bottoms: blobs that no other layer reads (at least 1)
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            bottoms: str | Sequence[str] = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        def __call__(self, *bottoms: Top) -> Call: ...

    class Slice(SliceLayer):
        """Cut the bottom along `axis` into parts, one for each top: y_i = x[:, points[i - 1] : points[i]] for axis 1.

        Fields:
            bottoms: the blob to cut (exactly 1)
            tops: the parts (at least 1)
            axis: axis along which to cut it; by default 1
            points: where the parts after the first begin; by default all are equal (above 0)
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            bottoms: str | Sequence[str] = ...,
            tops: str | Sequence[str] = ...,
            axis: int = ...,
            points: int | Sequence[int] = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        @overload
        def __call__(self, bottom0: Top, /) -> Top: ...
        @overload
        def __call__(self, bottom0: Top, /, *, tops: int) -> tuple[Top, ...]: ...

    class SoftlabelSoftmaxLoss(SoftlabelSoftmaxLossLayer):
        """loss = -weight / M · Σ q log softmax(x), over the M positions in the rows that count: all axes except `axis`.

        Fields:
            bottoms: the scores and the distributions (exactly 2)
            axis: axis of the classes (different from 0); by default 1
            weight: multiplies the loss (0 or more); by default 1.0
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            bottoms: str | Sequence[str] = ...,
            axis: int = ...,
            weight: float = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        def __call__(self, bottom0: Top, bottom1: Top, /) -> Call: ...

    class Softmax(SoftmaxLayer):
        """y = exp(x) / Σ exp(x) over one axis; one top for each bottom, of its shape.

        Fields:
            bottoms: the scores (at least 1)
            tops: the probabilities (as many as bottoms)
            axis: axis over which the probabilities add up to 1; by default 1
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            bottoms: str | Sequence[str] = ...,
            tops: str | Sequence[str] = ...,
            axis: int = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        @overload
        def __call__(self, bottom: Top, /) -> Top: ...
        @overload
        def __call__(self, bottom: Top, other: Top, /, *more: Top) -> tuple[Top, ...]: ...
        @overload
        def __call__(self, *bottoms: Top, tops: int) -> tuple[Top, ...]: ...

    class SoftmaxLoss(SoftmaxLossLayer):
        """loss = -weight / M · Σ ω[label] log softmax(x)[label], over the labels of the rows that count.

        Fields:
            bottoms: the scores, the labels, and optionally the weight of each record (2 or 3)
            label_smoothing: share of a label that is spread over all classes (0 or more, and below 1); by default 0.0
            weights: one number for each class, or an array of the shape of one record's scores, or of a batch's
            normalize_weights: whether to scale weights so that their mean is 1: over the classes, over a record, or not (one of 'local', 'global', 'no'); by default 'local'
            axis: axis of the classes (different from 0); by default 1
            normalize: the divisor of the sum: the labels not ignored, all labels, the records, or 1 (one of 'valid', 'full', 'batch', 'none'); by default 'valid'
            ignore_label: labels of this value are ignored; by default None
            weight: multiplies the loss (0 or more); by default 1.0
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            bottoms: str | Sequence[str] = ...,
            label_smoothing: float = ...,
            weights: Sequence[Any] = ...,
            normalize_weights: Literal["local", "global", "no"] = ...,
            axis: int = ...,
            normalize: Literal["valid", "full", "batch", "none"] = ...,
            ignore_label: int | None = ...,
            weight: float = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        def __call__(self, bottom0: Top, bottom1: Top, bottom2: Top = ..., /) -> Call: ...

    class Split(SplitLayer):
        """Every top is the bottom, y_i = x; the gradients of the tops are added up, dx = Σ dy_i.

        Fields:
            bottoms: the blob (exactly 1)
            tops: its copies (at least 1)
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            bottoms: str | Sequence[str] = ...,
            tops: str | Sequence[str] = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        @overload
        def __call__(self, bottom0: Top, /) -> Top: ...
        @overload
        def __call__(self, bottom0: Top, /, *, tops: int) -> tuple[Top, ...]: ...

    class SquareLoss(SquareLossLayer):
        """loss = weight / 2N · Σ (x - t)², over the N rows that count.

        Fields:
            bottoms: the prediction, the target, and optionally the weight of each record (2 or 3)
            weight: multiplies the loss (0 or more); by default 1.0
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            bottoms: str | Sequence[str] = ...,
            weight: float = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        def __call__(self, bottom0: Top, bottom1: Top, bottom2: Top = ..., /) -> Call: ...

    class Stack(StackLayer):
        """Put bottoms of one shape side by side along a new axis: y[:, i] = x_i for axis 1. The inverse of Unstack.

        Fields:
            bottoms: the blobs, of one shape (at least 1)
            tops: the blob with one axis more (exactly 1)
            axis: the new axis in the top; not the batch axis; by default 1
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            bottoms: str | Sequence[str] = ...,
            tops: str | Sequence[str] = ...,
            axis: int = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        def __call__(self, *bottoms: Top) -> Top: ...

    class StopGradient(StopGradientLayer):
        """y = x, and no gradient goes back: layers after it learn, and layers before it learn nothing from them.

        Fields:
            bottoms: the blobs to pass on (at least 1)
            tops: the same blobs (as many as bottoms)
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            bottoms: str | Sequence[str] = ...,
            tops: str | Sequence[str] = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        @overload
        def __call__(self, bottom: Top, /) -> Top: ...
        @overload
        def __call__(self, bottom: Top, other: Top, /, *more: Top) -> tuple[Top, ...]: ...
        @overload
        def __call__(self, *bottoms: Top, tops: int) -> tuple[Top, ...]: ...

    class SumLoss(SumLossLayer):
        """loss = weight · Σ x, over all numbers of the rows that count; to divide by their number, use `weight`.

        Fields:
            bottoms: the blob to add up (exactly 1)
            weight: multiplies the loss (0 or more); by default 1.0
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            bottoms: str | Sequence[str] = ...,
            weight: float = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        def __call__(self, bottom0: Top, /) -> Call: ...

    class TarData(TarDataLayer):
        """Feed the records of tar archives in WebDataset's layout, in the order of the files.

        Fields:
            source: files or folders, or .txt lists of them; relative to the net file (at least 1)
            batch_size: number of records in a batch (above 0)
            shape: shape of a record of the first top, if records differ, as pictures do (above 0)
            cache_bytes: keep the data in memory if they have no more bytes than this (0 or more); by default 268435456
            threads: threads that decode records, such as pictures; those of all processes together (above 0); by default 1
            processes: processes that read and decode records; 0: this one does it (from 0 to 256); by default 0
            on_error: what a record does that cannot be read: end the work, or be left out ("skip") (one of 'raise', 'skip'); by default 'raise'
            tops: names of the blobs (at least 1); by default ('data', 'label')
            shuffle: use a new random order of the records in each pass; by default False
            split: part of the records that is fed, such as the validation part; by default None
            sampling: how often records are drawn in training: classes alike, or by weights; by default None
            ahead: batches that a thread reads before they are needed (0 or more); by default 0
            transformers: transformers of the batches: a list of [top, transformer]
            classes: names of the classes of labels, in the order of their numbers: {top: names}; by default None
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            source: str | Sequence[str],
            batch_size: int,
            shape: int | Sequence[int] = ...,
            cache_bytes: int = ...,
            threads: int = ...,
            processes: int = ...,
            on_error: str = ...,
            tops: str | Sequence[str] = ...,
            shuffle: bool = ...,
            split: Mapping[str, Any] | None = ...,
            sampling: str | Mapping[str, str] | None = ...,
            ahead: int = ...,
            transformers: Sequence[Sequence[str | Transformer | Written | Mapping[str, Any]]] = ...,
            classes: Mapping[str, Sequence[str]] | None = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        def __call__(self, *, tops: int | None = None) -> Any: ...

    class Threshold(ThresholdLayer):
        """y = 1 where x > threshold, else 0; there is no gradient. After Caffe's `Threshold`.

        Fields:
            bottoms: the inputs of the function (at least 1)
            tops: the results (as many as bottoms)
            threshold: the largest x that gives 0 (finite); by default 0.0
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            bottoms: str | Sequence[str] = ...,
            tops: str | Sequence[str] = ...,
            threshold: float = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        @overload
        def __call__(self, bottom: Top, /) -> Top: ...
        @overload
        def __call__(self, bottom: Top, other: Top, /, *more: Top) -> tuple[Top, ...]: ...
        @overload
        def __call__(self, *bottoms: Top, tops: int) -> tuple[Top, ...]: ...

    class TiedInnerProduct(TiedInnerProductLayer):
        """y = x W + b, where W is the weight of the InnerProduct `tied`: its transpose, as in a decoder.

        Fields:
            bottoms: the blobs to multiply (at least 1)
            tops: the products (as many as bottoms)
            tied: name of the InnerProduct whose weight is used; its transpose must be False
            output_dim: number of outputs for one image: the features of the other layer's input (above 0)
            learns: whether the weight learns from this layer too; by default True
            neuron: activation function of the tops; by default Identity()
            bias: whether there is a bias; by default True
            bias_init: first values of the bias; by default Constant()
            bias_regu: regulariser of the bias; by default None
            bias_cons: constraint of the bias; by default None
            bias_lr: multiplies the learning rate of the bias (0 or more); by default 1.0
            param_key: layers with the same key share their parameters
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            tied: str,
            output_dim: int,
            bottoms: str | Sequence[str] = ...,
            tops: str | Sequence[str] = ...,
            learns: bool = ...,
            neuron: Neuron | Written = ...,
            bias: bool = ...,
            bias_init: Initializer | Written | float = ...,
            bias_regu: Regularizer | Written | None = ...,
            bias_cons: Constraint | Written | None = ...,
            bias_lr: float = ...,
            param_key: str = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        @overload
        def __call__(self, bottom: Top, /) -> Top: ...
        @overload
        def __call__(self, bottom: Top, other: Top, /, *more: Top) -> tuple[Top, ...]: ...
        @overload
        def __call__(self, *bottoms: Top, tops: int) -> tuple[Top, ...]: ...

    class Tile(TileLayer):
        """Repeat every bottom `tiles` times along `axis`; the gradients of the tiles are added up.

        Fields:
            bottoms: the blobs to repeat (at least 1)
            tops: the repeated blobs (as many as bottoms)
            tiles: number of repetitions (above 0)
            axis: axis along which to repeat them (different from 0); by default 1
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            tiles: int,
            bottoms: str | Sequence[str] = ...,
            tops: str | Sequence[str] = ...,
            axis: int = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        @overload
        def __call__(self, bottom: Top, /) -> Top: ...
        @overload
        def __call__(self, bottom: Top, other: Top, /, *more: Top) -> tuple[Top, ...]: ...
        @overload
        def __call__(self, *bottoms: Top, tops: int) -> tuple[Top, ...]: ...

    class TopKAccuracy(TopKAccuracyLayer):
        """The shares of labels whose score is one of the k highest, for each k of a list.

        Fields:
            bottoms: the scores and the labels (exactly 2)
            k: the label must be among this many highest scores (above 0); by default (1, 5)
            axis: axis of the classes (different from 0); by default 1
            ignore_label: labels of this value are ignored; by default None
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            bottoms: str | Sequence[str] = ...,
            k: int | Sequence[int] = ...,
            axis: int = ...,
            ignore_label: int | None = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        def __call__(self, bottom0: Top, bottom1: Top, /) -> Call: ...

    class Transpose(TransposeLayer):
        """Put the axes after the batch into the order of `axes`; by default into the reverse order.

        Fields:
            bottoms: the blobs (at least 1)
            tops: the blobs with their axes in another order (as many as bottoms)
            axes: the axes of the bottom in their new order, all but the batch axis (different from 0)
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            bottoms: str | Sequence[str] = ...,
            tops: str | Sequence[str] = ...,
            axes: int | Sequence[int] = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        @overload
        def __call__(self, bottom: Top, /) -> Top: ...
        @overload
        def __call__(self, bottom: Top, other: Top, /, *more: Top) -> tuple[Top, ...]: ...
        @overload
        def __call__(self, *bottoms: Top, tops: int) -> tuple[Top, ...]: ...

    class Unroll(UnrollLayer):
        """The same layers at every step of sequences, with the same parameters: a recurrent net as a chain of layers.

        Fields:
            bottoms: sequences, and what steps read whole (at least 1)
            tops: blobs of the layers, as sequences (at least 1)
            steps: number of steps (from 1 to 10,000)
            layer: the layers of one step (at least 1)
            connections: what the layers read of other steps
            whole: bottoms that every step reads whole; those that are `initial` are, too
            last: tops that are the last step's blob alone, without an axis of steps
            param_key: layers with the same key share their parameters
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            steps: int,
            layer: Sequence[Layer | Mapping[str, Any] | str],
            bottoms: str | Sequence[str] = ...,
            tops: str | Sequence[str] = ...,
            connections: Sequence[Connection | Written | Mapping[str, Any]] = ...,
            whole: str | Sequence[str] = ...,
            last: str | Sequence[str] = ...,
            param_key: str = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        @overload
        def __call__(self, *bottoms: Top) -> Top: ...
        @overload
        def __call__(self, *bottoms: Top, tops: int) -> tuple[Top, ...]: ...

    class Unstack(UnstackLayer):
        """Take the bottom apart along `axis`, which the tops do not have: y_i = x[:, i] for axis 1. The inverse of Stack.

        Fields:
            bottoms: the blob to take apart (exactly 1)
            tops: its parts, without the axis (at least 1)
            axis: the axis; not the batch axis; by default 1
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            bottoms: str | Sequence[str] = ...,
            tops: str | Sequence[str] = ...,
            axis: int = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        @overload
        def __call__(self, bottom0: Top, /) -> Top: ...
        @overload
        def __call__(self, bottom0: Top, /, *, tops: int) -> tuple[Top, ...]: ...

    class WassersteinLoss(WassersteinLossLayer):
        """loss = weight / N · Σ <P, cost>, with the cheapest plans P, smoothed, that move a to b, for N rows that count.

        Fields:
            bottoms: the predicted distributions and the true ones (exactly 2)
            cost: cost of moving 1 from each index of a to each index of b, as a list of rows
            sharpness: the larger, the less the plans are smoothed (above 0)
            sinkhorn_iter: number of iterations (above 0); by default 50
            weight: multiplies the loss (0 or more); by default 1.0
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            cost: Sequence[Any],
            sharpness: float,
            bottoms: str | Sequence[str] = ...,
            sinkhorn_iter: int = ...,
            weight: float = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        def __call__(self, bottom0: Top, bottom1: Top, /) -> Call: ...

    class WordText(WordTextLayer):
        """Feed the words of texts in parallel streams, with the word that follows each as its target.

        Fields:
            source: texts in UTF-8, one after the other; relative to the net file (at least 1)
            batch_size: number of streams, which are the images of a batch (above 0)
            most: number of words in the vocabulary, the most frequent ones (above 0); by default None
            tops: names of the blobs: the numbers, the targets, and where streams go on (at least 1); by default ('data', 'label')
            steps: steps of each stream in a batch (above 0); by default 50
            part: part of the text that is fed, from 0 to 1: [0.0, 0.9] for training, [0.9, 1.0]; by default (0.0, 1.0)
            vocabulary: names of the numbers, in their order; by default those of the training's text
            unknown: what training did not have: "error", or "own" for a number of its own (one of 'error', 'own'); by default 'error'
            ignore_label: the target where the text has ended, in other phases than training (a whole number of 64 bits, as targets are); by default -1
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            source: str | Sequence[str],
            batch_size: int,
            most: int | None = ...,
            tops: str | Sequence[str] = ...,
            steps: int = ...,
            part: Sequence[float] = ...,
            vocabulary: str | Sequence[str] = ...,
            unknown: Literal["error", "own"] = ...,
            ignore_label: int = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        def __call__(self, *, tops: int | None = None) -> Any: ...

    class Zeros(ZerosLayer):
        """y = 0: a blob of zeros with as many images as the bottom, such as the first state of a recurrent net.

        Fields:
            bottoms: a blob with as many images (exactly 1)
            tops: the zeros (exactly 1)
            shape: shape of each image's zeros; without it a single number (above 0)
            name: name of the layer; by default that of its first top
            exclude: phases in which the layer is absent
            partition_dim: how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says
            location: the rank of a layer that is not divided; 0 by default (0 or more)
        """
        def __init__(
            self,
            *,
            bottoms: str | Sequence[str] = ...,
            tops: str | Sequence[str] = ...,
            shape: int | Sequence[int] = ...,
            name: str = ...,
            exclude: Literal["train", "validation", "test", "predict"]
            | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
            partition_dim: int | str | None = ...,
            location: int | None = ...,
        ) -> None: ...
        def __call__(self, bottom0: Top, /) -> Top: ...

    def BNLL(
        self,
        *,
        beta: float = ...,
        bottoms: str | Sequence[str] = ...,
        tops: str | Sequence[str] = ...,
        name: str = ...,
        exclude: Literal["train", "validation", "test", "predict"]
        | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
        partition_dim: int | str | None = ...,
        location: int | None = ...,
    ) -> Shelf.Activation:
        """y = log(1 + exp(beta · x)) / beta = max(0, x) + log(1 + exp(-beta |x|)) / beta, which cannot overflow.

        Fields:
            beta: how sharp the bend is (above 0, finite); by default 1.0
        """
        ...
    def ELU(
        self,
        *,
        alpha: float = ...,
        bottoms: str | Sequence[str] = ...,
        tops: str | Sequence[str] = ...,
        name: str = ...,
        exclude: Literal["train", "validation", "test", "predict"]
        | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
        partition_dim: int | str | None = ...,
        location: int | None = ...,
    ) -> Shelf.Activation:
        """y = x where x > 0, else alpha · (exp(x) - 1).

        Fields:
            alpha: the output goes to -alpha far below 0 (above 0, finite); by default 1.0
        """
        ...
    def Exponential(
        self,
        *,
        bottoms: str | Sequence[str] = ...,
        tops: str | Sequence[str] = ...,
        name: str = ...,
        exclude: Literal["train", "validation", "test", "predict"]
        | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
        partition_dim: int | str | None = ...,
        location: int | None = ...,
    ) -> Shelf.Activation:
        """y = exp(x). After Mocha.jl's `Neurons.Exponential`."""
        ...
    def GELU(
        self,
        *,
        approximate: Literal["none", "tanh"] = ...,
        bottoms: str | Sequence[str] = ...,
        tops: str | Sequence[str] = ...,
        name: str = ...,
        exclude: Literal["train", "validation", "test", "predict"]
        | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
        partition_dim: int | str | None = ...,
        location: int | None = ...,
    ) -> Shelf.Activation:
        """y = x · Φ(x), where Φ is the standard normal distribution function.

        Fields:
            approximate: how Φ is computed (one of 'none', 'tanh'); by default 'none'
        """
        ...
    def Hardswish(
        self,
        *,
        bottoms: str | Sequence[str] = ...,
        tops: str | Sequence[str] = ...,
        name: str = ...,
        exclude: Literal["train", "validation", "test", "predict"]
        | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
        partition_dim: int | str | None = ...,
        location: int | None = ...,
    ) -> Shelf.Activation:
        """y = x · min(max(x + 3, 0), 6) / 6: 0 up to -3, and x from 3 on."""
        ...
    def Identity(
        self,
        *,
        bottoms: str | Sequence[str] = ...,
        tops: str | Sequence[str] = ...,
        name: str = ...,
        exclude: Literal["train", "validation", "test", "predict"]
        | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
        partition_dim: int | str | None = ...,
        location: int | None = ...,
    ) -> Shelf.Activation:
        """f(x) = x: nothing is computed."""
        ...
    def LReLU(
        self,
        *,
        slope: float = ...,
        bottoms: str | Sequence[str] = ...,
        tops: str | Sequence[str] = ...,
        name: str = ...,
        exclude: Literal["train", "validation", "test", "predict"]
        | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
        partition_dim: int | str | None = ...,
        location: int | None = ...,
    ) -> Shelf.Activation:
        """y = x where x > 0, else slope · x. After Mocha.jl's `Neurons.LReLU`; `slope` is Caffe's `negative_slope`.

        Fields:
            slope: slope below 0 (above 0, finite); by default 0.01
        """
        ...
    def Mish(
        self,
        *,
        bottoms: str | Sequence[str] = ...,
        tops: str | Sequence[str] = ...,
        name: str = ...,
        exclude: Literal["train", "validation", "test", "predict"]
        | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
        partition_dim: int | str | None = ...,
        location: int | None = ...,
    ) -> Shelf.Activation:
        """y = x · tanh(log(1 + exp(x)))."""
        ...
    def ReLU(
        self,
        *,
        epsilon: float = ...,
        bottoms: str | Sequence[str] = ...,
        tops: str | Sequence[str] = ...,
        name: str = ...,
        exclude: Literal["train", "validation", "test", "predict"]
        | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
        partition_dim: int | str | None = ...,
        location: int | None = ...,
    ) -> Shelf.Activation:
        """y = max(epsilon, x); the gradient passes where y > epsilon, and is 0 at the kink.

        Fields:
            epsilon: the smallest output (finite); by default 0.0
        """
        ...
    def SELU(
        self,
        *,
        bottoms: str | Sequence[str] = ...,
        tops: str | Sequence[str] = ...,
        name: str = ...,
        exclude: Literal["train", "validation", "test", "predict"]
        | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
        partition_dim: int | str | None = ...,
        location: int | None = ...,
    ) -> Shelf.Activation:
        """y = scale · x where x > 0, else scale · alpha · (exp(x) - 1), with scale = 1.0507... and alpha = 1.6732..."""
        ...
    def STanh(
        self,
        *,
        outer: float = ...,
        inner: float = ...,
        bottoms: str | Sequence[str] = ...,
        tops: str | Sequence[str] = ...,
        name: str = ...,
        exclude: Literal["train", "validation", "test", "predict"]
        | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
        partition_dim: int | str | None = ...,
        location: int | None = ...,
    ) -> Shelf.Activation:
        """y = outer · tanh(inner · x): LeCun's scaled tanh, with f(1) = 1. After SINGA's `STanhLayer`.

        Fields:
            outer: the largest output (above 0, finite); by default 1.7159047
            inner: multiplies x (above 0, finite); by default 0.6666666666666666
        """
        ...
    def SiLU(
        self,
        *,
        beta: float = ...,
        bottoms: str | Sequence[str] = ...,
        tops: str | Sequence[str] = ...,
        name: str = ...,
        exclude: Literal["train", "validation", "test", "predict"]
        | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
        partition_dim: int | str | None = ...,
        location: int | None = ...,
    ) -> Shelf.Activation:
        """y = x · sigmoid(beta · x). After Caffe's `Swish`; Elfwing et al., "Sigmoid-weighted linear units", 2018.

        Fields:
            beta: how sharp the bend is (finite); by default 1.0
        """
        ...
    def Sigmoid(
        self,
        *,
        bottoms: str | Sequence[str] = ...,
        tops: str | Sequence[str] = ...,
        name: str = ...,
        exclude: Literal["train", "validation", "test", "predict"]
        | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
        partition_dim: int | str | None = ...,
        location: int | None = ...,
    ) -> Shelf.Activation:
        """y = 1 / (1 + exp(-x)), computed from exp(-|x|), which cannot overflow; below 0 it is exp(x) / (1 + exp(x))."""
        ...
    def Softplus(
        self,
        *,
        beta: float = ...,
        bottoms: str | Sequence[str] = ...,
        tops: str | Sequence[str] = ...,
        name: str = ...,
        exclude: Literal["train", "validation", "test", "predict"]
        | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
        partition_dim: int | str | None = ...,
        location: int | None = ...,
    ) -> Shelf.Activation:
        """y = log(1 + exp(beta · x)) / beta = max(0, x) + log(1 + exp(-beta |x|)) / beta, which cannot overflow.

        Fields:
            beta: how sharp the bend is (above 0, finite); by default 1.0
        """
        ...
    def Tanh(
        self,
        *,
        bottoms: str | Sequence[str] = ...,
        tops: str | Sequence[str] = ...,
        name: str = ...,
        exclude: Literal["train", "validation", "test", "predict"]
        | Sequence[Literal["train", "validation", "test", "predict"]] = ...,
        partition_dim: int | str | None = ...,
        location: int | None = ...,
    ) -> Shelf.Activation:
        """y = tanh(x)."""
        ...

L: Shelf
