"""What most pages of docs/ use, imported: nothing is opened or trained here, and no registry is asked."""

from importlib import import_module

USED = (
    *("h5py", "hypothesis", "page_commands", "nacre.cli.training", "nacre.net.net", "nacre.net.predict"),
    *("nacre.config.netfile", "nacre.snapshots.environment", "nacre.training.training", "nacre.testing", "nacre.calls"),
    *("nacre_data.memory_data", "nacre_data.hdf5_checks", "nacre_layers.convolution", "nacre_layers.elementwise"),
    *("nacre_layers.linear", "nacre_layers.losses", "nacre_layers.metrics", "nacre_layers.normalisation"),
    *("nacre_layers.pooling", "nacre_layers.initializers", "nacre_numpy.kernels", "nacre_numpy.backend"),
    *("nacre_solvers.adam", "nacre_solvers.algorithms", "nacre_solvers.summary", "nacre_solvers.validation"),
    *("matplotlib.figure", "matplotlib.backends.backend_agg"),
    *("nacre_onednn.backend", "nacre_onednn.kernels.convolution", "nacre_onednn.tuning.search", "nacre_cupy.backend"),
)

for name in USED:
    import_module(name)
