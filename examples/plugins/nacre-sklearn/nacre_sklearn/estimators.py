"""NacreClassifier and NacreRegressor: nets that are trained by `net.fit`, with the manners of scikit-learn."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from nacre import Input, L, Layer, Net, Top, Written, fresh

BATCH = 256  # records that a net predicts at a time, at most
Array = np.ndarray[Any, Any]
Hidden = Sequence[int | str | Mapping[str, Any] | Layer] | Layer | Callable[[Top], Top]


class NacreEstimator(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """What both estimators have in common.

    Args:
        layers: what is between the input and the layer of the outputs. A number is an `InnerProduct` of so many
            outputs with `neuron` behind it; everything else is as in a Sequential: a name, a table with `type`, or a
            layer. Or a function, which is called with the handle of the input and returns that of its last layer.
        neuron: the activation function behind the layers that `layers` names by numbers.
        epochs, batch_size, solver, lr, early_stopping, callbacks: as in `Net.fit`.
        validation: fraction of the records to validate on after each pass over the data.
        backend: where the net computes; by default nacre's choice.
        random_state: of the first weights and the order of the records.
        verbose: whether the training is shown.

    A net computes in the type of the records that it is fitted to, float32 or float64, in float64 for other types.
    After `fit`, `net_` is the net, with phases and layers as any other, and `history_` that of its training.
    """

    def __init__(
        self,
        layers: Hidden = (100,),
        *,
        neuron: Written = "ReLU",
        epochs: int = 100,
        batch_size: int = 32,
        solver: Any = "Adam",
        lr: Any = None,
        validation: float = 0.0,
        early_stopping: int = 0,
        callbacks: Sequence[Any] = (),
        backend: str | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.layers = layers
        self.neuron = neuron
        self.epochs = epochs
        self.batch_size = batch_size
        self.solver = solver
        self.lr = lr
        self.validation = validation
        self.early_stopping = early_stopping
        self.callbacks = callbacks
        self.backend = backend
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True  # and more: what the layers read
        return tags

    def _hidden(self, x: Top) -> Top:
        """Return the top of the last layer before that of the outputs."""
        layers: Any = [self.layers] if isinstance(self.layers, Layer) else self.layers
        if callable(layers):
            made: Top = layers(x)
            return made
        inner = [
            {"type": "InnerProduct", "output_dim": int(one), "neuron": self.neuron}
            if isinstance(one, int | np.integer)
            else fresh(one)  # every fit begins with parameters of its own
            if isinstance(one, Layer)
            else one
            for one in layers
        ]
        return L.Sequential(layer=inner, name="hidden")(x) if inner else x

    def _train(self, ends: Callable[[Top], list[Any]], x: Array, y: Array, weights: Array | None) -> None:
        """Make a net that ends so, and train it."""
        net = Net(
            type(self).__name__,
            ends(self._hidden(Input(x.shape[1:], name="x"))),
            backend=self.backend,
            dtype="float32" if x.dtype == np.float32 else "float64",
            seed=check_random_state(self.random_state).randint(2**31),
        )
        training = net.fit(
            x,
            y,
            epochs=self.epochs,
            batch_size=self.batch_size,
            solver=self.solver,
            lr=self.lr,
            validation=self.validation or None,
            sample_weight=weights,
            early_stopping=self.early_stopping,
            callbacks=self.callbacks,
            quiet=not self.verbose,
        )
        self.net_, self.history_ = net, training.history

    def _output(self, X: Any, name: str) -> Array:
        """Return what a blob of the net has for each record."""
        check_is_fitted(self, "net_")
        x = self._records(X, reset=False)
        size = min(BATCH, 1 << (len(x) - 1).bit_length())  # a net is kept for each size, so let there be few
        found: Array = self.net_.predict(x, name, batch_size=size)
        return found

    def _records(self, X: Any, *y: Any, **options: Any) -> Any:
        """Return arrays as scikit-learn checks them: of one number of records, finite, and of the columns of `fit`."""
        return validate_data(self, X, *y, dtype=(np.float64, np.float32), allow_nd=True, **options)


class NacreClassifier(ClassifierMixin, NacreEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A net that tells classes apart, numbers or names: behind `layers` are a score for each class and a softmax.

    Args:
        class_weight: "balanced", or {class: weight}: multiplies the loss of the records of a class.

    All other arguments are those of `NacreEstimator`.
    """

    def __init__(
        self,
        layers: Hidden = (100,),
        *,
        neuron: Written = "ReLU",
        epochs: int = 100,
        batch_size: int = 32,
        solver: Any = "Adam",
        lr: Any = None,
        class_weight: Any = None,
        validation: float = 0.0,
        early_stopping: int = 0,
        callbacks: Sequence[Any] = (),
        backend: str | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        super().__init__(
            layers,
            neuron=neuron,
            epochs=epochs,
            batch_size=batch_size,
            solver=solver,
            lr=lr,
            validation=validation,
            early_stopping=early_stopping,
            callbacks=callbacks,
            backend=backend,
            random_state=random_state,
            verbose=verbose,
        )
        self.class_weight = class_weight

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train a new net; a weight multiplies the loss of a record, and one of weight 0 is left out."""
        x, y = self._records(X, y)
        check_classification_targets(y)
        weights = None if sample_weight is None else checked_weights(sample_weight, x)
        if self.class_weight is not None:
            of_classes = compute_sample_weight(self.class_weight, y)
            weights = of_classes if weights is None else weights * of_classes
        self.classes_, numbers = np.unique(y, return_inverse=True)
        x, numbers, weights = weighing(x, numbers, weights)
        if len(np.unique(numbers)) < 2:
            raise ValueError(f"{type(self).__name__} needs records of 2 classes or more, but those of y have 1 class")

        def ends(top: Top) -> list[Any]:
            score = L.InnerProduct(output_dim=len(self.classes_), name="score")(top)
            label = Input(dtype="int64", name="label")
            loss, accuracy = L.SoftmaxLoss(name="loss"), L.Accuracy(name="accuracy")
            return [loss(score, label), accuracy(score, label), L.Softmax(name="probability")(score)]

        self._train(ends, x, numbers, weights)
        return self

    def decision_function(self, X: Any) -> Array:
        """Return the scores (records, classes); of two classes the second's minus the first's."""
        scores = self._output(X, "score")
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def predict_proba(self, X: Any) -> Array:
        """Return the probabilities (records, classes)."""
        return self._output(X, "probability")

    def predict(self, X: Any) -> Array:
        """Return the class of each record."""
        scores = self._output(X, "score")
        found: Array = self.classes_[scores.argmax(axis=1)]
        return found


class NacreRegressor(RegressorMixin, NacreEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A net that predicts one number, or several, by least squares. All arguments are those of `NacreEstimator`."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train a new net; a weight multiplies the loss of a record, and one of weight 0 is left out."""
        x, y = self._records(X, y, multi_output=True, y_numeric=True)
        weights = None if sample_weight is None else checked_weights(sample_weight, x)
        x, targets, weights = weighing(x, y.reshape(len(y), -1), weights)
        self._shape = y.shape[1:]

        def ends(top: Top) -> list[Any]:
            guess = L.InnerProduct(output_dim=targets.shape[1], name="guess")(top)
            return [L.SquareLoss(name="loss")(guess, Input(targets.shape[1], name="target"))]

        self._train(ends, x, targets, weights)
        return self

    def predict(self, X: Any) -> Array:
        """Return the numbers of each record, in the shape that `fit` was given."""
        found = self._output(X, "guess")
        return found.reshape(len(found), *self._shape)


def checked_weights(sample_weight: Any, x: Array) -> Array:
    """Return the weights of records as float64. Raises ValueError if they are negative, or all 0."""
    weights: Array = _check_sample_weight(sample_weight, x, dtype=np.float64, ensure_non_negative=True)
    if not weights.any():
        raise ValueError("sample_weight: the weights are all zero, so there is nothing to learn from")
    return weights


def weighing(x: Array, y: Array, weights: Array | None) -> tuple[Array, Array, Array | None]:
    """Return the records with a weight, and weights whose mean is 1: only their ratios matter."""
    if weights is None:
        return x, y, None
    kept = weights > 0
    return x[kept], y[kept], weights[kept] / weights[kept].mean()
