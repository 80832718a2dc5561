"""What people type by mistake, and the sentence and the remedy that they get: one table for each part of nacre.

A mistake is the code as it is typed, a part of the sentence, and a part of the remedy ("" if the sentence contains it).
Names in the code are those of `names()`. To add one, write a line; tests/test_mistakes.py tries them all.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np


class Mistake(NamedTuple):
    """One mistake."""

    code: str
    says: str
    remedy: str = ""


def names() -> dict[str, Any]:
    """Return the names that the code of mistakes uses, made anew."""
    import nacre
    import nacre_data
    import nacre_layers
    import nacre_solvers
    from nacre import Input, L

    x, label = Input((1, 8, 8), name="x", batch_size=2), Input(name="label", batch_size=2, dtype="int64")
    score = L.InnerProduct(output_dim=3, name="score")(x)
    loss = L.SoftmaxLoss(name="loss")(score, label)
    return {
        **{name: getattr(nacre, name) for name in ("Input", "L", "Net", "Solver", "feed")},
        **{name: getattr(nacre_layers, name) for name in ("ConvolutionLayer", "InnerProductLayer", "ReLU", "Xavier")},
        **{name: getattr(nacre_data, name) for name in ("HDF5DataLayer", "MemoryDataLayer")},
        "SGD": nacre_solvers.SGD,
        "nacre": nacre,
        "np": np,
        "x": x,
        "label": label,
        "score": score,
        "loss": loss,
        "images": np.ones((6, 1, 8, 8)),
        "kinds": np.arange(6) % 3,
        "net": nacre.Net("net", [loss], backend="numpy"),
        "source": nacre_data.MemoryDataLayer(data=[np.ones((4, 3)), np.ones(4)], batch_size=2),
    }


LAYERS = [
    Mistake("ConvolutionLayer(20, 5)", "20, 5 given without a name", "write ConvolutionLayer(n_filter=..., ...)"),
    Mistake("InnerProductLayer('x', 'y', output_dim=3)", "'x', 'y' given without a name", "the fields are"),
    Mistake("HDF5DataLayer('train.h5')", "'train.h5' given without a name", "HDF5DataLayer(source=..., ...)"),
    Mistake("L.Dropout(0.5)", "0.5 given without a name", "the fields are bottoms, ratio"),
    Mistake("L.Convolution(x)", "<top of Input> given without a name", "ConvolutionLayer(...)(x)"),
    Mistake("L.ReLU(x)", "<top of Input> given without a name", "write ReLU(epsilon="),
    Mistake("L.Convolution(n_filter=20, kernel_size=5)", "unknown field 'kernel_size' (did you mean 'kernel'?)",
            "the fields of ConvolutionLayer are"),
    Mistake("L.Convolution()", "n_filter is missing: number of filters"),
    Mistake("L.Convolution(n_filter='20')", "n_filter='20', but it must be a whole number"),
    Mistake("L.Convolution(n_filter=2, neuron=ReLU)", "neuron=<class", "give an object of the class: ReLU()"),
    Mistake("L.Convolution(n_filter=2, neuron=np.tanh)", "but it must be a neuron: an object, a name"),
    Mistake("L.Convolution(n_filter=2, neuron='Relu')", "no neuron 'Relu' (did you mean 'ReLU'?)"),
    Mistake("L.Convolution(n_filter=2, weight_init=Xavier)", "weight_init=<class", "of the class: Xavier()"),
    Mistake("L.Convolution(n_filter=2, weight_init=np.zeros((2, 1)))", "weight_init=<array 2 x 1 float64>, but"),
    Mistake("L.Dropout(ratio=1.5)", "ratio=1.5, but it must be 0 or more, and below 1"),
    Mistake("L.Convolution(n_filter=2).n_filter = 3", "n_filter cannot be set", "replace(layer, n_filter=...)"),
    Mistake("L.Convolution(n_filter=2).weight", "has no attribute 'weight'", "net.parameters"),
    Mistake("L.Convolution(n_filter=2).forward(x)", "has no attribute 'forward'", "layer.at_work(backend, x)"),
    Mistake("L.Convolution(n_filter=2).kernl", "has no attribute 'kernl'", "its fields are "),
    Mistake("L.Sequential(L.ReLU(), L.Tanh())", "given without a name", "write SequentialLayer(layer=..., ...)"),
    Mistake("L.Sequential(layer=[ConvolutionLayer])", "layer=[<class", "give objects of the classes"),
    Mistake("L.Sequential(layer=L.ReLU())", "but it must be a list of layers"),
    Mistake("L.Conv2d", "no layer 'Conv2d'", "docs/from-pytorch.md"),
    Mistake("L.Convolution(n_filter=2, padding=1)", "unknown field 'padding' (did you mean 'pad'?)"),
    Mistake("L.InnerProduct(units=3, activation='relu')", "unknown field 'units' (did you mean 'output_dim'?)"),
    Mistake("L.InnerProduct(output_dim=3, activation='relu')", "unknown field 'activation' (did you mean 'neuron'?)"),
    Mistake("L.Pooling(pool_size=2)", "unknown field 'pool_size' (did you mean 'kernel'?)"),
    Mistake("L.Dropout(p=0.5)", "unknown field 'p' (did you mean 'ratio'?)"),
    Mistake("L.LSTM(hidden_size=8)", "unknown field 'hidden_size' (did you mean 'output_dim'?)"),
    Mistake("L.relu", "no layer 'relu' (did you mean 'ReLU'?)"),
    Mistake("L[ConvolutionLayer]", "but it must be a string"),
    Mistake("L(x)", "L is not called", "L.Convolution(n_filter=20)(x)"),
    Mistake("ReLU()(x)", "ReLU is a neuron, not a layer", "L.ReLU()(x)"),
]  # fmt: skip

WIRING = [
    Mistake("L.Pooling()(L.Pooling())", "is called with PoolingLayer()", "call that layer first"),
    Mistake("L.Pooling()(ConvolutionLayer)", "is called with <class", "make a layer of the class, and call it"),
    Mistake("L.Pooling()(np.ones((2, 1, 8, 8)))", "with <array 2 x 1 x 8 x 8 float64>", "Input(shape)"),
    Mistake("L.Pooling()('data')", "is called with 'data'", "names are for lists of layers"),
    Mistake("L.Pooling()(loss)", "is called with <call of SoftmaxLoss>", "SoftmaxLoss has no tops"),
    Mistake("L.Pooling()(None)", "is called with None", "pass what Input(shape)"),
    Mistake("L.Pooling()(source)", "is called with MemoryDataLayer(", "call that layer first"),
    Mistake("L.Concat()([x, x])", "is called with [<top of Input>, <top of Input>]", "layer(*tops)"),
    Mistake("L.Pooling()()", "is called with nothing", "call it with at least 1"),
    Mistake("L.SoftmaxLoss()(score)", "1 blob, but it reads 2 or 3: the scores, the labels", "2 or 3"),
    Mistake("L.SoftmaxLoss(score, label)", "<top of InnerProduct>, <top of Input> given without a name", "(...)(x)"),
    Mistake("source(x)", "called with 1 blob, but a source reads none", "call it with nothing"),
    Mistake("L.Pooling()(bottoms=x)", "a call has no 'bottoms'", "layer(x)"),
    Mistake("L.Pooling()(x, name='pool')", "a call has no 'name'", "fields belong to the layer"),
    Mistake("L.Slice()(x, tops='3')", "tops='3', but it must be a number"),
    Mistake("L.Softmax()(x, tops=2)", "tops=('top0', 'top1'), but there must be as many as bottoms, 1"),
    Mistake("L.Pooling(bottoms='x', tops='y')(x)", "it is connected by names", "make it without bottoms and tops"),
    Mistake("L.Pooling(bottoms=x, tops='y')", "bottoms=<top of Input>, but it must be a name"),
    Mistake("L.Pooling(bottoms='x')(x)", "tops is missing"),
    Mistake("a, b = L.Pooling()(x)", "<top of Pooling> is one handle", "tops=2"),
    Mistake("x + score", "has no operator +", "L.ElementWise"),
    Mistake("1 - x", "has no operator -", "L.ElementWise"),
    Mistake("np.ones(3) * x", "has no operator *", "L.ElementWise"),
    Mistake("x @ x", "has no operator @"),
    Mistake("x.shape", "has no shape, because nothing is computed", "print(net)"),
    Mistake("x[0]", "has no entries", "L.Slice"),
    Mistake("len(x)", "has no length"),
    Mistake("float(x)", "holds no number", "net.blob(name)"),
    Mistake("np.asarray(x)", "holds no number", "net.blob(name)"),
    Mistake("x(score)", "<top of Input> is not called", "call a layer with it: layer(x)"),
    Mistake("loss.backward()", "has no attribute 'backward'", "or to Net"),
    Mistake("Input('data', (3, 4))", "too many positional arguments", "Input(shape, name=..., dtype=..."),
    Mistake("Input(shape=(None, 3))", "shape=(None, 3), but it must be a list of whole numbers"),
    Mistake("Input(3, name='my data')", "it must consist of letters, digits"),
    Mistake("feed(source)", "too many positional arguments", "feed(train=..., validation=...)"),
    Mistake("feed()", "feed has no source"),
    Mistake("feed(training=source)", "unknown phase 'training' (did you mean 'train'?)", "the phases are"),
    Mistake("feed(train=source())", "but it must be a source", "without () behind it"),
    Mistake("feed(train=HDF5DataLayer)", "but it must be a source", "such as L.HDF5Data(...)"),
]  # fmt: skip

NETS = [
    Mistake("Net([loss])", "missing a required argument: 'layers'", "Net(name, layers, backend=..."),
    Mistake("Net('net')", "missing a required argument: 'layers'"),
    Mistake("Net('net', x, loss)", "too many positional arguments", "Net(name, layers, backend=..."),
    Mistake("Net('net', outputs=[loss])", "missing a required argument: 'layers'"),
    Mistake("Net('net', [loss], optimizer='sgd')", "got an unexpected keyword argument 'optimizer'"),
    Mistake("Net('net', [loss, L.Pooling()])", "outputs hold PoolingLayer() beside handles", "call it"),
    Mistake("Net('net', [L.Pooling()])", "Pooling: bottoms is missing", "layer(x)"),
    Mistake("Net('net', [ConvolutionLayer])", "layers holds <class", "make a layer of the class"),
    Mistake("Net('net', L.Pooling())", "layers=PoolingLayer(), but it must be a list of layers", "[layer]"),
    Mistake("Net('net', [[loss], x])", "outputs hold [<call of SoftmaxLoss>]", "give each handle by itself"),
    Mistake("Net('net', {'loss': loss})", "layers={'loss': <call of SoftmaxLoss>}", "[handle, ...]"),
    Mistake("Net('net', [loss], phase='eval')", "phase='eval', but it must be one of train, validation"),
    Mistake("Net('net', [loss], seed='0')", "seed='0', but it must be a whole number"),
    Mistake("Net('net', [loss], freeze='scores')", "freeze has 'scores', but no layer has this name (did you"),
    Mistake("Net('net', [loss], keep=[score])", "keep=[<top of InnerProduct>], but", "Net(name, [loss, top])"),
    Mistake("Net('net', [L.SoftmaxLoss()(label, score)])", "axis=1, but the bottom of shape (2,)",
            "in this order; here 'label' and 'score'"),
    Mistake("Net('net', [L.Accuracy()(label, score)])", "but the bottom of shape (2,)", "here 'label' and 'score'"),
    Mistake("Net('net', [L.SquareLoss()(score, label)])", "bottom 'label' of shape (2,) differs from 'score'",
            "it reads the prediction, the target"),
    Mistake("Net('net', [L.Softmax(axis=3)(score)])", "axis=3, but the bottom of shape (2, 3) has the axes 1 to 1"),
    Mistake("Net('net', [L.Concat()(x, score)])", "bottom 'score' of shape (2, 3) does not fit 'x'"),
    Mistake("Net('net', [L.Convolution(n_filter=2)(score)])", "must have one to three axes after the channels"),
    Mistake("Net('net', [L.Convolution(n_filter=2, kernel=99)(x)])", "kernel=(99, 99) is larger than"),
    Mistake("net.blob('skore')", "no blob 'skore' (did you mean 'score'?)"),
    Mistake("net.blob(L.ReLU()(x))", "has no blob for <top of Activation>", "not among the handles"),
    Mistake("net.write('x', np.ones((7, 7)))", "blob 'x' has the shape (2, 1, 8, 8), but the new array has (7, 7)"),
    Mistake("net.loss()", "has not run forward yet, so it has no losses", "net.evaluate(x, y)"),
    Mistake("net.statistics()", "has not run forward yet, so it has no statistics", "net.evaluate(x, y)"),
    Mistake("net.blob('score')", "has not run forward yet, so blob 'score' holds no numbers", "net.forward()"),
    Mistake("net.gradient('score')", "has not run backward yet, so the gradient of", "net.backward()"),
    Mistake("net.predict()", "missing a required argument: 'data'", "net.predict(data, output=...)"),
    Mistake("net.predict(np.ones((2, 9)))", "records of shape (1, 8, 8), but the data have (9,)"),
    Mistake("net.forward(np.ones((2, 1, 8, 8)))", "too many positional arguments", "net.forward()"),
    Mistake("net(np.ones((2, 1, 8, 8)))", "a net is not called", "net.predict(x)"),
    Mistake("net.parameters['score/wieght']", "no parameter 'score/wieght' (did you mean 'score/weight'?)"),
    Mistake("net.parameters['score/weight'] = 3", "cannot be replaced", ".value = "),
    Mistake("Solver('SGD').solve(loss)", "but a solver trains a Net"),
    Mistake("Solver('SGD', 100)", "only method may be given without a name", "the fields are method"),
    Mistake("Solver(SGD)", "method=<class", "give an object of the class: SGD()"),
]  # fmt: skip

TRAINING = [
    Mistake("Solver('SGD', lr=0.1)", "unknown field 'lr' (did you mean 'lr_policy'?)"),
    Mistake("Solver('SGD', epochs=3)", "unknown field 'epochs' (did you mean 'max_epoch'?)"),
    Mistake("Solver('SGD', learning_rate=0.1)", "unknown field 'learning_rate' (did you mean 'lr_policy'?)"),
    Mistake("Solver('SGD', max_epoch=0)", "max_epoch=0, but it must be above 0"),
    Mistake("Solver('SGD', max_epoch=3).solve(net)", "has an end", "use max_iter"),
    Mistake("Solver('SGD').start(net).lr = 'fast'", "lr='fast', but it must be a finite number", "lr_policy="),
    Mistake("Net('net', [])", "layers is empty", "write Net(name, [loss, ...])"),
    Mistake("net.fit()", "missing a required argument: 'x'", "net.fit(x, y, epochs=..."),
    Mistake("net.fit(images, kinds, quiet=True); net.loss()", "has not run forward yet", "net.fit returns"),
    Mistake("net.fit(images, kinds, 10)", "too many positional arguments", "net.fit(x, y, epochs=..."),
    Mistake("net.fit(images, kinds, epoch=10)", "unexpected keyword argument 'epoch' (did you mean 'epochs'?)"),
    Mistake("net.fit(images, kinds, epochs=0)", "epochs=0, but it must be a whole number, 1 or more"),
    Mistake("net.fit(images, kinds, batch_size=2.5)", "batch_size=2.5, but it must be a whole number"),
    Mistake("net.fit(images, kinds, solver='adam')", "no solver 'adam' (did you mean 'Adam'?)"),
    Mistake("net.fit(images, kinds, solver=SGD)", "method=<class", "give an object of the class: SGD()"),
    Mistake("net.fit(images, kinds, solver=Solver('Adam'), lr=0.1)", "lr=0.1 is given beside a", "lr_policy=0.1"),
    Mistake("net.fit(images, kinds, solver=Solver('Adam', max_iter=3), epochs=5)",
            "epochs=5 is given beside a Solver with max_iter=3", "leave epochs out"),
    Mistake("net.fit(images, kinds, lr='fast')", "lr_policy: no lr_policy 'fast'"),
    Mistake("net.fit(images)", "there is no array for label", "give it as y"),
    Mistake("net.fit(images, np.eye(3)[kinds])", "'label' has records of shape (3,)", "y.argmax(1)"),
    Mistake("net.fit(np.ma.masked_equal(images, 1), kinds)", "'x' has masked numbers", "x.filled(0)"),
    Mistake("net.fit(np.where(np.arange(6) == 4, np.nan, images.T).T, kinds)", "'x': record 4 has a", "leave"),
    Mistake("net.predict(images, ['score', 3])", "no layer writes blob '3'", "the blobs are"),
    Mistake("net.fit(images, kinds[:3])", "different numbers of records: 'x' 6, 'label' 3"),
    Mistake("net.fit(images[:, :, :7], kinds)", "records of shape (1, 7, 8), but its Input has the shape (1, 8, 8)"),
    Mistake("net.fit(images[:0], kinds[:0])", "the data have no record"),
    Mistake("net.fit({'image': images}, kinds)", "no such Input", "its Inputs are x, label"),
    Mistake("net.fit(kinds, images)", "records of shape (), but its Input has the shape (1, 8, 8)"),
    Mistake("net.fit('x.npy', kinds)", "'x' is 'x.npy', but must be an array", "read files into an array first"),
    Mistake("net.fit([[1, 2], [3]], kinds)", "this list cannot be made an array of numbers"),
    Mistake("net.fit(images, kinds, validation=2)", "validation=2, but a fraction must be above 0 and below 1"),
    Mistake("net.fit(images, kinds, validation=0.01)", "of 6 records such a fraction leaves none on one side"),
    Mistake("net.fit(images, kinds, validation=images)", "but it must be a pair of arrays or a fraction"),
    Mistake("net.fit(images, kinds, validation=(images, kinds[:2]))", "the arrays of validation have different"),
    Mistake("net.fit(images, kinds, early_stopping=3)", "there are no records to validate on", "validation=(x, y)"),
    Mistake("net.fit(images, kinds, class_weight='auto')", "class_weight='auto', but it must be \"balanced\""),
    Mistake("net.fit(images, kinds, class_weight={'0': 2})", "no record has the class '0'", "its classes are 0, 1, 2"),
    Mistake("net.predict([[1, 2], [3]])", "cannot be made an array of numbers", "give an array"),
    Mistake("net.reset('x')", "seed='x', but it must be a whole number"),
    Mistake("net.fit(images, kinds, class_weight={7: 2})", "no record has the class 7", "its classes are 0, 1, 2"),
    Mistake("net.fit(images, kinds, class_weight={0: -1})", "the weight -1, but it must be a finite number"),
    Mistake("net.fit(images, kinds, class_weight={'lost': 'balanced'})", "no such loss (did you mean 'loss'?)"),
    Mistake("net.fit(images, kinds, sample_weight=[1, 2])", "has the shape (2,), but there are 6 records"),
    Mistake("net.fit(images, kinds, sample_weight=-np.ones(6))", "negative or not finite"),
    Mistake("net.fit(images, kinds, callbacks=['Validate'])", "no callback 'Validate'"),
    Mistake("Net('net', [score]).fit(images)", "has no loss in phase 'train'", "L.SoftmaxLoss()"),
    Mistake("Net('net', [L.SoftmaxLoss()(*source())]).fit(images)", "has no Input that its layers", "Input(shape)"),
    Mistake("net.evaluate(images)", "there is no array for label", "give it as y"),
    Mistake("net.evaluate()", "missing a required argument: 'x'", "net.evaluate(x, y"),
]  # fmt: skip

MISTAKES = [*LAYERS, *WIRING, *NETS, *TRAINING]
