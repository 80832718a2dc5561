"""What tests of losses have in common: random scores and labels, and the options of losses over classes, naively."""

import numpy as np
from hypothesis import strategies as st

from nacre.testing.trial import Example, Trial, layer_of

NORMALIZE = st.sampled_from(["valid", "full", "batch", "none"])
WEIGHT = st.sampled_from([1.0, 0.3])


def loss_and_gradients(layer, *inputs, dtype="float64", rows=None, **fields):
    """Return the loss of a layer, and the gradients of its floating bottoms (of the others None)."""
    trial = Trial(lambda one: layer_of(layer, one), Example(fields, inputs), backend="numpy", dtype=dtype)
    loss = trial.forward(None if rows is None else [one[:rows] for one in trial.arrays])
    found = trial.gradients()
    trial.shutdown()
    return loss, *(found.get(f"input {place}") for place in range(len(inputs)))


@st.composite
def pairs(draw, make, **fields):
    """Draw examples with two bottoms of one shape, which `make(random, shape)` fills."""
    shape = (draw(st.integers(1, 4)), *draw(st.lists(st.integers(1, 3), max_size=3)))
    arrays = make(np.random.default_rng(draw(st.integers(0, 2**16))), shape)
    return Example({name: draw(values) for name, values in fields.items()}, arrays)


@st.composite
def scores_and_labels(draw, scores=None, weighted=False, ignoring=True, **fields):
    """Draw examples with scores, which `scores(random, shape, axis)` makes, and labels in one of their forms."""
    before = (draw(st.integers(1, 4)), *draw(st.lists(st.integers(1, 3), max_size=1)))
    behind = tuple(draw(st.lists(st.integers(1, 3), max_size=2)))
    classes = draw(st.integers(2, 5))
    axis, shape = len(before), (*before, classes, *behind)
    random = np.random.default_rng(draw(st.integers(0, 2**16)))
    labels = random.integers(0, classes, (*before, *draw(st.sampled_from([(), (1,)])), *behind))
    given = {name: draw(values) for name, values in fields.items()}
    given["axis"] = draw(st.sampled_from([axis, axis - len(shape)]))
    if ignoring and draw(st.booleans()):
        given["ignore_label"] = draw(st.sampled_from([0, 255]))
        labels[random.random(labels.shape) < 0.4] = given["ignore_label"]
    if weighted and draw(st.booleans()):
        of = draw(st.sampled_from([(classes,), shape[1:], shape]))
        given["weights"] = random.uniform(0.1, 2, of).tolist()
        given["normalize_weights"] = draw(st.sampled_from(["local", "global", "no"]))
    labels = labels.astype(draw(st.sampled_from(["int64", "int32", "uint8", "float64"])))
    x = shape if scores is None else scores(random, shape, axis)
    return Example(given, [x, labels], wanted=[0])


def places(layer, scores, labels):
    """Return the rows of scores, one for each label, and the labels, without what is ignored; and the divisor."""
    rows = np.moveaxis(scores, layer.axis, -1).reshape(-1, scores.shape[layer.axis])
    labels = np.asarray(labels).reshape(-1)
    used = [place for place, label in enumerate(labels) if label != layer.ignore_label]
    return rows, [(place, int(labels[place])) for place in used], divisor(layer, len(used), len(labels), len(scores))


def divisor(layer, valid, full, batch):
    return {"valid": max(valid, 1), "full": full, "batch": batch, "none": 1}[layer.normalize]


def class_weights(layer, shape):
    """Return the weights of a loss over classes, one row for each label."""
    if not layer.weights:
        return np.ones(shape).reshape(-1, shape[layer.axis])
    weights = np.array(layer.weights)
    full = np.empty(shape)
    for place in np.ndindex(*shape):
        if weights.shape == (shape[layer.axis],):
            full[place] = weights[place[layer.axis]]
        else:
            full[place] = weights[place] if weights.ndim == len(shape) else weights[place[1:]]
    if layer.normalize_weights == "local":
        full /= full.mean(axis=layer.axis, keepdims=True)
    elif layer.normalize_weights == "global":
        full = np.stack([record / record.mean() for record in full])
    return np.moveaxis(full, layer.axis, -1).reshape(-1, shape[layer.axis])
